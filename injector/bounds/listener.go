package bounds

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Listener accepts a bounded number of connections. A new one is never turned away in
// favour of one that does nothing: over the bound, the connection that has been idle for
// the longest is closed. Those that have never been useful (see [Conn.Work]) go first, so
// that a flood of connections does not close those of a client that is served.
type Listener struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// NewListener bounds the connections of a listener.
func NewListener(l net.Listener, most int) *Listener {
	return &Listener{Listener: l, most: most, conns: map[*Conn]struct{}{}}
}

// Accept waits for a connection. The connection is a [*Conn].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: accepted, listener: l, since: time.Now()}
		idle, ok := l.add(c)
		if !ok {
			_ = accepted.Close()
			continue
		}
		if idle != nil {
			_ = idle.Close()
		}
		return c, nil
	}
}

// add counts a connection. Over the bound it returns the connection that has to be closed
// instead, and false if each of the others is at work.
func (l *Listener) add(c *Conn) (idle *Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.most {
		if idle = l.longestIdle(); idle == nil {
			return nil, false
		}
		delete(l.conns, idle)
	}
	l.conns[c] = struct{}{}
	return idle, true
}

func (l *Listener) longestIdle() *Conn {
	var longest *Conn
	for c := range l.conns {
		switch {
		case c.working > 0:
		case longest == nil, longest.useful && !c.useful:
			longest = c
		case longest.useful == c.useful && c.since.Before(longest.since):
			longest = c
		}
	}
	return longest
}

// Conn is a connection of a [Listener].
type Conn struct {
	net.Conn
	listener *Listener

	// The listener's lock guards these.
	working int
	useful  bool
	since   time.Time // when the connection became idle
}

// Close closes the connection, and makes room for another one.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// Work says that a request of the connection is being answered, so that the connection
// is not closed. The caller calls done when the answer is ready, and says whether the
// request was a good one.
func (c *Conn) Work() (done func(useful bool)) {
	l := c.listener
	l.mu.Lock()
	c.working++
	l.mu.Unlock()
	return func(useful bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.working--
		c.useful = c.useful || useful
		c.since = time.Now()
	}
}

type connKey struct{}

// Context is a ConnContext of an [http.Server]: it makes the connection known to [Work].
func Context(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if bounded, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, bounded)
	}
	return ctx
}

// Work is [Conn.Work] for the connection of a request, and does nothing for a request
// that came in without a [Listener].
func Work(ctx context.Context) (done func(useful bool)) {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c.Work()
	}
	return func(bool) {}
}

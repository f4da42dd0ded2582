package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// listener accepts a bounded number of connections. Over the bound, it closes the
// connection that has been idle for the longest time. Connections without a useful request
// (see [boundConn.startWork]) are closed first, so that a flood of connections does not
// close those of a client that is served.
type listener struct {
	net.Listener
	limit int

	mu    sync.Mutex
	conns map[*boundConn]struct{}
}

// newListener bounds the connections of a listener.
func newListener(l net.Listener, most int) *listener {
	return &listener{Listener: l, limit: most, conns: map[*boundConn]struct{}{}}
}

// Accept waits for a connection. The connection is a [*boundConn].
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &boundConn{Conn: accepted, listener: l, since: time.Now()}
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

// add adds a connection. Over the bound it returns the connection that has to be closed
// instead, or false if every other connection has a request in flight.
func (l *listener) add(c *boundConn) (idle *boundConn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.limit {
		if idle = l.longestIdle(); idle == nil {
			return nil, false
		}
		delete(l.conns, idle)
	}
	l.conns[c] = struct{}{}
	return idle, true
}

func (l *listener) longestIdle() *boundConn {
	var longest *boundConn
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

// boundConn is a connection of a [listener].
type boundConn struct {
	net.Conn
	listener *listener

	// The listener's lock guards these.
	working int
	useful  bool
	since   time.Time // when the connection became idle
}

// Close closes the connection, and makes room for another one.
func (c *boundConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// startWork marks the connection as busy with a request, so that it is not closed. The
// caller calls done when the answer is ready. useful is whether the request was a good one.
func (c *boundConn) startWork() (done func(useful bool)) {
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

// connectionContext is a ConnContext of an [http.Server]. It passes the connection to [startWork].
func connectionContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if bounded, ok := c.(*boundConn); ok {
		return context.WithValue(ctx, connKey{}, bounded)
	}
	return ctx
}

// startWork is [boundConn.startWork] for the connection of a request. It does nothing for a request
// that came in without a [listener].
func startWork(ctx context.Context) (done func(useful bool)) {
	if c, ok := ctx.Value(connKey{}).(*boundConn); ok {
		return c.startWork()
	}
	return func(bool) {}
}

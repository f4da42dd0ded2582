package ground

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// A Cable passes TCP connections on. It can be slow, it can be cut, so that connections are
// refused, and it can be squeezed, so that nothing comes through.
type Cable struct {
	listener net.Listener
	// to is where the next connection goes. Without a place the connection is closed, as one that
	// nobody accepts.
	to func() (address string, ok bool)

	mu       sync.Mutex
	late     time.Duration // how much later its clients hear what is said to them
	cut      bool
	squeezed chan struct{} // nil, or closed when it is over
	conns    map[net.Conn]bool
}

// NewCable listens on an address until ctx ends.
func NewCable(ctx context.Context, address string, to func() (address string, ok bool)) (*Cable, error) {
	listener, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, err
	}
	c := &Cable{listener: listener, to: to, conns: map[net.Conn]bool{}}
	context.AfterFunc(ctx, func() {
		_ = listener.Close()
		c.Cut()
	})
	go func() {
		for ctx.Err() == nil {
			if conn, err := listener.Accept(); err == nil { // else it is closed, or out of file descriptors
				go c.serve(ctx, conn)
			}
		}
	}()
	return c, nil
}

// Addr is where it listens.
func (c *Cable) Addr() *net.TCPAddr { return c.listener.Addr().(*net.TCPAddr) }

// SetLate has its clients hear later what is said to them.
func (c *Cable) SetLate(late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = late
}

// Cut ends all connections, and refuses others.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// Squeeze lets nothing through.
func (c *Cable) Squeeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.squeezed = make(chan struct{})
}

// Mend has everything come through again.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
	if c.squeezed != nil {
		close(c.squeezed)
		c.squeezed = nil
	}
}

func (c *Cable) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	address, ok := c.to()
	if !ok {
		return
	}
	server, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp4", address)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	cut := c.cut
	c.conns[client], c.conns[server] = true, true
	c.mu.Unlock()
	if !cut {
		var both sync.WaitGroup
		both.Go(func() { c.pass(server, client, func() time.Duration { return 0 }) })
		both.Go(func() { c.pass(client, server, c.lateness) })
		both.Wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, client)
	delete(c.conns, server)
}

func (c *Cable) lateness() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// said is what one side has said, and when the other is to hear it.
type said struct {
	due  time.Time
	text []byte
}

// pass passes on what one side says to the other, and its end.
func (c *Cable) pass(to, from net.Conn, late func() time.Duration) {
	queue := make(chan said, 4096)
	go func() {
		defer close(queue)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				queue <- said{time.Now().Add(late()), slices.Clone(buffer[:n])}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for s := range queue { // to the end, so that the reader ends, too
		time.Sleep(time.Until(s.due))
		c.mu.Lock()
		squeezed := c.squeezed
		c.mu.Unlock()
		if squeezed != nil {
			<-squeezed
		}
		if !failed {
			_, err := to.Write(s.text)
			failed = err != nil
		}
	}
	_ = to.(*net.TCPConn).CloseWrite() // it may be closed already
}

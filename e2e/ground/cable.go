package ground

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A cable passes TCP connections on, and can be slow.
type cable struct {
	listener net.Listener
	// to is where the next connection goes. Without a place the connection is closed, as one that
	// nobody accepts.
	to   func() (address string, ok bool)
	late atomic.Int64 // a time.Duration: how much later its clients hear what is said to them
}

// newCable listens on an address until ctx ends.
func newCable(ctx context.Context, address string, to func() (address string, ok bool)) (*cable, error) {
	listener, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, err
	}
	c := &cable{listener: listener, to: to}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for ctx.Err() == nil {
			if conn, err := listener.Accept(); err == nil { // else it is closed, or out of file descriptors
				go c.serve(ctx, conn)
			}
		}
	}()
	return c, nil
}

func (c *cable) port() int { return c.listener.Addr().(*net.TCPAddr).Port }

func (c *cable) serve(ctx context.Context, client net.Conn) {
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
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	var both sync.WaitGroup
	both.Go(func() { pass(server, client, func() time.Duration { return 0 }) })
	both.Go(func() { pass(client, server, func() time.Duration { return time.Duration(c.late.Load()) }) })
	both.Wait()
}

// said is what one side has said, and when the other is to hear it.
type said struct {
	due  time.Time
	text []byte
}

// pass passes on what one side says to the other, and its end.
func pass(to, from net.Conn, late func() time.Duration) {
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
		if !failed {
			_, err := to.Write(s.text)
			failed = err != nil
		}
	}
	_ = to.(*net.TCPConn).CloseWrite() // it may be closed already
}

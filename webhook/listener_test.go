package webhook

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// listen returns a bounded listener on loopback, and a function that connects to it and
// returns both ends.
func listen(t *testing.T, most int) (*listener, func() (client net.Conn, server *boundConn)) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, most)
	t.Cleanup(func() { _ = l.Close() })
	return l, func() (net.Conn, *boundConn) {
		t.Helper()
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return client, server.(*boundConn)
	}
}

// isOpen reports whether the other end has left a connection open.
func isOpen(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func TestOverTheBoundTheConnectionThatIdlesLongestIsClosed(t *testing.T) {
	_, connect := listen(t, 3)
	useful, a := connect()
	done := a.startWork()
	done(true)
	working, b := connect()
	defer b.startWork()(false)
	idle, _ := connect()
	another, _ := connect() // one more than allowed
	if isOpen(t, idle) || !isOpen(t, useful) || !isOpen(t, working) || !isOpen(t, another) {
		t.Errorf("open: idle %v, useful %v, working %v, new %v; want all but the idle one",
			isOpen(t, idle), isOpen(t, useful), isOpen(t, working), isOpen(t, another))
	}
	if err := another.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFloodOfConnectionsLeavesThoseThatAreServed(t *testing.T) {
	_, connect := listen(t, 20)
	useful, c := connect()
	c.startWork()(true)
	for range 200 {
		connect()
	}
	if !isOpen(t, useful) {
		t.Error("the connection that was served is closed")
	}
}

func TestConnectionsThatWorkAreNotClosedForANewOne(t *testing.T) {
	l, connect := listen(t, 2)
	first, a := connect()
	second, b := connect()
	_, _ = a.startWork(), b.startWork()
	refused, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = refused.Close() }()
	go func() { _, _ = l.Accept() }()
	_ = refused.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := refused.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the third connection: %v, want its end", err)
	}
	if !isOpen(t, first) || !isOpen(t, second) {
		t.Error("a connection that works was closed")
	}
}

func TestAClosedConnectionMakesRoom(t *testing.T) {
	l, connect := listen(t, 2)
	kept, _ := connect()
	for range 10 {
		_, server := connect()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.conns) != 1 || !isOpen(t, kept) {
		t.Errorf("%d connections are counted, want the open one", len(l.conns))
	}
}

// A handler says by its request's context that it works.
func TestWorkIsNotedByTheContextOfARequest(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, 2)
	seen := make(chan int, 1)
	server := &http.Server{ConnContext: connectionContext, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer startWork(r.Context())(true)
		for c := range l.conns {
			seen <- c.working
		}
	})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	response, err := http.Get("http://" + inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if n := <-seen; n != 1 {
		t.Errorf("%d requests are at work on the connection, want 1", n)
	}
}

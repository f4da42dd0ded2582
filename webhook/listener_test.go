package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/internal/errtest"
)

// listen returns a bounded listener on loopback, and a function that connects to it and
// returns both ends.
func listen(t *testing.T, most int) (*listener, func() (client net.Conn, server *boundConn)) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	errtest.ExpectNone(t, err)
	l := newListener(inner, most)
	t.Cleanup(func() { _ = l.Close() })
	return l, func() (net.Conn, *boundConn) {
		t.Helper()
		client, err := net.Dial("tcp", inner.Addr().String())
		errtest.ExpectNone(t, err)
		t.Cleanup(func() { _ = client.Close() })
		server, err := l.Accept()
		errtest.ExpectNone(t, err)
		return client, server.(*boundConn)
	}
}

// isOpen reports whether the other end has left a connection open.
func isOpen(t *testing.T, c net.Conn) bool {
	t.Helper()
	errtest.ExpectNone(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func TestOverTheBoundTheConnectionThatIdlesLongestIsClosed(t *testing.T) {
	_, connect := listen(t, 23)
	useful, a := connect()
	a.startWork()(true)
	working, b := connect()
	defer b.startWork()(false)
	idle, _ := connect()
	for range 20 {
		connect()
	}
	another, _ := connect() // one more than allowed
	if isOpen(t, idle) || !isOpen(t, useful) || !isOpen(t, working) || !isOpen(t, another) {
		t.Errorf("open: idle %v, useful %v, working %v, new %v; want all but the idle one",
			isOpen(t, idle), isOpen(t, useful), isOpen(t, working), isOpen(t, another))
	}
	for range 200 {
		connect()
	}
	if !isOpen(t, useful) || !isOpen(t, working) {
		t.Error("a flood closes a connection that is served, or that works")
	}
}

func TestConnectionsThatWorkAreNotClosedForANewOne(t *testing.T) {
	l, connect := listen(t, 2)
	first, a := connect()
	second, b := connect()
	_, _ = a.startWork(), b.startWork()
	refused, err := net.Dial("tcp", l.Addr().String())
	errtest.ExpectNone(t, err)
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
		errtest.ExpectNone(t, server.Close())
	}
	if len(l.conns) != 1 || !isOpen(t, kept) {
		t.Errorf("%d connections are counted, want the open one", len(l.conns))
	}
}

// A connection that has brought nothing but nonsense goes before one with a review.
func TestAConnectionIsUsefulOnlyForAReview(t *testing.T) {
	for body, want := range map[string]bool{reviewOf(v1Version, "", false): true, "{": false} {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		errtest.ExpectNone(t, err)
		l := newListener(inner, 2)
		var conn *boundConn
		server := &http.Server{Handler: newFixture(t, nil).mutate, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			conn = c.(*boundConn)
			return connectionContext(ctx, c)
		}}
		go func() { _ = server.Serve(l) }()
		response, err := http.Post("http://"+inner.Addr().String(), "application/json", strings.NewReader(body))
		errtest.ExpectNone(t, err)
		_ = response.Body.Close()
		l.mu.Lock()
		if conn.useful != want {
			t.Errorf("%.20s: the connection counts as useful: %v", body, conn.useful)
		}
		l.mu.Unlock()
		_ = server.Close()
	}
}

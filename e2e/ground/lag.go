package ground

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A lag stands between a kube-apiserver and etcd, and passes on late what etcd says.
type lag struct {
	listener net.Listener
	etcd     string
	late     atomic.Int64 // a time.Duration
}

// newLag listens on host, without any delay yet, until ctx ends.
func newLag(ctx context.Context, host, etcd string) (*lag, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	l := &lag{listener: listener, etcd: etcd}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(ctx, conn)
		}
	}()
	return l, nil
}

func (l *lag) port() int { return l.listener.Addr().(*net.TCPAddr).Port }

func (l *lag) serve(ctx context.Context, server net.Conn) {
	defer server.Close()
	etcd, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp4", l.etcd)
	if err != nil {
		return
	}
	defer etcd.Close()
	defer context.AfterFunc(ctx, func() { server.Close(); etcd.Close() })()
	var both sync.WaitGroup
	both.Go(func() { pass(etcd, server) })
	both.Go(func() { l.passLate(server, etcd) })
	both.Wait()
}

// said is what etcd has said, and when it is to be heard.
type said struct {
	due  time.Time
	text []byte
}

func (l *lag) passLate(to, from net.Conn) {
	queue := make(chan said, 4096)
	go func() {
		defer close(queue)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				queue <- said{time.Now().Add(time.Duration(l.late.Load())), buffer[:n]}
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
	_ = to.Close()
}

package injector

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A review that an API server sends on a kept connection in the moment in which the
// server closes it is lost. So each connection that is used while the server is stopping
// has to end with its answer.
func TestWhileStoppingEveryAnswerEndsItsConnection(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	s := NewServer(ServerOptions{
		Listen: freeAddress(t), AdminListen: freeAddress(t),
		Review:         http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.TLS.Certificates[0], nil },
		Gatherer:       prometheus.NewRegistry(),
		ShutdownDelay:  2 * time.Second, ShutdownTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	post := func() (closes bool, err error) {
		response, err := client.Post("https://"+s.options.Listen+"/mutate", "application/json", nil)
		if err != nil {
			return false, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response.Close, response.Body.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		closes, err := post()
		if err == nil && !closes {
			break // it serves, and the connection is kept
		}
		if time.Now().After(deadline) {
			t.Fatalf("not served: %v (the connection is closed: %v)", err, closes)
		}
	}
	stop()
	for s.Ready() == nil {
		time.Sleep(time.Millisecond)
	}
	for range 3 { // the kept connection, and new ones
		if closes, err := post(); err != nil || !closes {
			t.Errorf("while stopping: %v (the connection is closed: %v), want an answer that closes it", err, closes)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

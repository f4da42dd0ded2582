package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/controller/runtest"
)

// startServer has a server answer "ok" on addresses of its own, and stop with ctx; Run's
// error comes when it has.
func startServer(t *testing.T, ctx context.Context, o ServerOptions) (s *Server, webhook, admin net.Listener, ended chan error) {
	t.Helper()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	o.Webhooks, o.Connections = map[string]http.Handler{"/mutate": ok}, 100
	o.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.TLS.Certificates[0], nil }
	o.Gatherer, o.Logger = prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	s = NewServer(o)
	var listeners [2]net.Listener
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ended = make(chan error, 1)
	go func() { ended <- s.serve(ctx, listeners[0], listeners[1]) }()
	return s, listeners[0], listeners[1], ended
}

// awaitStopping returns when the server has taken note that it is to stop.
func awaitStopping(t *testing.T, s *Server) {
	t.Helper()
	runtest.Wait(t, "it is not ready, since it is to stop", func() bool { return s.Ready() != nil })
}

// poster returns a function of a client that posts, and reports whether the answer ends the
// connection.
func poster(server net.Listener) func() (closes bool, err error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return func() (closes bool, err error) {
		response, err := client.Post("https://"+server.Addr().String()+"/mutate", "application/json", nil)
		if err != nil {
			return false, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response.Close, response.Body.Close()
	}
}

// A review that an API server sends on a kept connection in the moment in which the
// server closes it is lost. So each connection that is used while the server is stopping
// has to end with its answer.
func TestWhileStoppingEveryAnswerEndsItsConnection(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	s, webhook, _, ended := startServer(t, ctx, ServerOptions{ShutdownDelay: time.Hour, ShutdownTimeout: 10 * time.Second})

	post := poster(webhook)
	runtest.Wait(t, "it serves, and keeps connections", func() bool {
		closes, err := post()
		return err == nil && !closes
	})
	stop()
	awaitStopping(t, s)
	for range 3 { // the kept connection, and new ones
		if closes, err := post(); err != nil || !closes {
			t.Errorf("while stopping: %v (the connection is closed: %v), want an answer that closes it", err, closes)
		}
	}
	_ = webhook.Close() // which ends the delay
	<-ended
}

// API servers keep their connections, whatever becomes of the endpoints.
func TestAReplicaThatIsNotReadyAnyMoreGivesItsConnectionsUp(t *testing.T) {
	t.Parallel()
	var missing atomic.Pointer[error]
	var checks atomic.Int64
	s, webhook, _, _ := startServer(t, t.Context(), ServerOptions{Checks: []Check{{"caches", func() error {
		checks.Add(1)
		if err := missing.Load(); err != nil {
			return *err
		}
		return nil
	}}}})
	// Two clients: one that sends reviews all the time, and one that is idle.
	address := webhook.Addr().String()
	post := poster(webhook)
	runtest.Wait(t, "it serves, and keeps connections", func() bool {
		closes, err := post()
		return err == nil && !closes
	})
	runtest.Wait(t, "it has seen itself ready", func() bool { return checks.Load() > 1 }) // the first check is over
	idle, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if got := idle.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the protocol is %q, want http/1.1", got)
	}
	answers := bufio.NewReader(idle)
	if _, err := io.WriteString(idle, "POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil || response.Close {
		t.Fatalf("%+v, %v", response, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)

	wrong := errors.New("the cache is wrong")
	missing.Store(&wrong)
	runtest.Wait(t, "answers end their connections", func() bool {
		closes, err := post()
		return err == nil && closes
	})
	_ = idle.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v, want that it is closed", err)
	}
	if err := s.Ready(); !errors.Is(err, wrong) {
		t.Errorf("Ready() = %v", err)
	}
	missing.Store(nil)
	runtest.Wait(t, "connections are kept again", func() bool {
		closes, err := post()
		return err == nil && !closes
	})
}

func TestTheServerStopsInOrder(t *testing.T) {
	s := NewServer(ServerOptions{Checks: []Check{{"things", func() error { return nil }}}, Logger: slog.New(slog.DiscardHandler), Gatherer: prometheus.NewRegistry()})
	probe := func(path string) int {
		w := httptest.NewRecorder()
		s.adminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if probe("/readyz") != 200 || probe("/healthz") != 200 {
		t.Error("not ready at first")
	}
	s.stopping.Store(true)
	if probe("/readyz") != 503 || probe("/healthz") != 200 {
		t.Error("still ready while stopping, or not alive")
	}
}

// net/http bounds a TLS handshake by the least of a server's timeouts. A replica that is short
// of CPU in a burst must not drop connections that an API server still waits for.
func TestAHandshakeMayTakeAsLongAsAPIServersWaitByDefault(t *testing.T) {
	t.Parallel()
	s := NewServer(ServerOptions{Logger: slog.New(slog.DiscardHandler)}).reviewServer()
	const wait = 10 * time.Second // the chart's timeoutSeconds
	if least := min(s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout); least < wait {
		t.Errorf("a handshake may take %s, and an API server waits %s", least, wait)
	}
}

// To answer reviews takes no right to write.
func TestAReadyReplicaSaysWhatKeepsItFromWriting(t *testing.T) {
	var writers error
	s := NewServer(ServerOptions{Gatherer: prometheus.NewRegistry(), Writers: func() error { return writers }})
	for _, c := range []struct {
		err  error
		want string
	}{{nil, "ok\n"}, {errors.New("no token"), "ok\nnot writing to the cluster: no token\n"}} {
		writers = c.err
		w := httptest.NewRecorder()
		s.adminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK || w.Body.String() != c.want {
			t.Errorf("%v: HTTP %d %q, want %q", c.err, w.Code, w.Body, c.want)
		}
	}
}

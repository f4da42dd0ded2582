package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pillion-dev/pillion/controller/waiting"
)

// Check is one condition of readiness.
type Check struct {
	Name string
	// Ready returns nil, or an error that names the missing part.
	Ready func() error
}

// ServerOptions configure a [Server]. All fields are required but Peers, Writers and State.
// The struct is large because it connects all parts of the process, in one place.
type ServerOptions struct {
	// Listen is the address of the webhook (TLS), AdminListen that of /healthz,
	// /readyz, /metrics and /state (plain).
	Listen, AdminListen string
	// Webhooks has the handlers of admission reviews by their paths.
	Webhooks map[string]http.Handler
	// Connections bounds the connections for reviews: each review in flight has one.
	Connections    int
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Peers are the clients that may send reviews. They do not limit AdminListen.
	Peers    Peers
	Gatherer prometheus.Gatherer
	// State returns the value that /state serves as JSON.
	State  func() any
	Checks []Check
	// Writers returns the reason why a ready replica cannot write to the cluster. /readyz shows
	// it, and the replica stays ready, because it can answer reviews.
	Writers func() error
	// ShutdownDelay is how long the server still accepts reviews after readiness has been
	// withdrawn, until no API server sends any. ShutdownTimeout bounds the answers that are
	// then still in flight.
	ShutdownDelay, ShutdownTimeout time.Duration
	Logger                         *slog.Logger
}

const (
	maxAdminConnections = 64
	// maxHeader bounds a request's header, in bytes. An API server's has a few hundred.
	maxHeader = 8 << 10
)

const (
	// readyInterval is how often the server checks whether it is still ready.
	readyInterval = 200 * time.Millisecond
	// idleGrace is how long idle connections stay open after the server has ceased to be
	// ready. A shorter interruption costs no connection.
	idleGrace = 500 * time.Millisecond
)

// Server owns the two listeners.
type Server struct {
	options  ServerOptions
	stopping atomic.Bool
	// withdrawn reports whether the server was ready before and is not ready now.
	withdrawn atomic.Bool
}

// NewServer returns a server that [Server.Run] starts.
func NewServer(o ServerOptions) *Server { return &Server{options: o} }

// Run serves until ctx ends, and then stops in order: it is not ready at once, still
// answers for the delay, then accepts no new connections, and then waits for the reviews in
// flight.
func (s *Server) Run(ctx context.Context) error {
	webhook, err := net.Listen("tcp", s.options.Listen)
	if err != nil {
		return fmt.Errorf("listening for reviews: %w", err)
	}
	admin, err := net.Listen("tcp", s.options.AdminListen)
	if err != nil {
		_ = webhook.Close()
		return fmt.Errorf("listening for probes and metrics: %w", err)
	}
	return s.serve(ctx, webhook, admin)
}

// serve is Run on open listeners. It closes them.
func (s *Server) serve(ctx context.Context, webhook, admin net.Listener) error {
	o := s.options
	reviews, probes := s.reviewServer(), s.adminServer()
	webhook, admin = newListener(webhook, o.Connections), newListener(admin, maxAdminConnections)
	defer func() { _, _ = reviews.Close(), probes.Close() }()
	failed := make(chan error, 2)
	go func() { failed <- reviews.ServeTLS(webhook, "", "") }()
	go func() { failed <- probes.Serve(admin) }()
	go s.watchReadiness(ctx, reviews)
	o.Logger.Info("serving", "reviews", webhook.Addr().String(), "admin", admin.Addr().String())

	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	o.Logger.Info("stopping", "delay", o.ShutdownDelay, "timeout", o.ShutdownTimeout)
	var broken error
	select {
	case <-time.After(o.ShutdownDelay):
	case err := <-failed: // no new review can come; those in flight are still answered
		broken = fmt.Errorf("serving while stopping: %w", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.ShutdownTimeout)
	defer cancel()
	err := reviews.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("stopping: reviews were still being answered after %s", o.ShutdownTimeout)
	}
	return errors.Join(broken, err)
}

func (s *Server) reviewServer() *http.Server {
	mux := http.NewServeMux()
	for path, handler := range s.options.Webhooks {
		mux.Handle(path, handler)
	}
	// API servers resume no session, so a ticket would cost a handshake time, and help nobody.
	config := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: aeadSuites, GetCertificate: s.options.GetCertificate, SessionTicketsDisabled: true}
	s.options.Peers.require(config)
	// API servers call a Service over HTTP/1.1. In HTTP/2 one connection could bring
	// hundreds of requests at once.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:     s.closeWhenUnready(mux),
		Protocols:   &protocols,
		ConnContext: connectionContext,
		TLSConfig:   config,
		// An API server sends a review at once; its longest timeout is 30 s. This bounds the TLS
		// handshake, too: as long as API servers wait by default, so that a replica that is
		// short of CPU drops no connection in a burst for which one still waits.
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      45 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
}

func (s *Server) adminServer() *http.Server {
	return &http.Server{
		Handler:           s.adminHandler(),
		ConnContext:       connectionContext,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
}

// closeWhenUnready has clients give up their connections while the server is stopping, or
// not ready any more. An API server reuses its connections even if the endpoint is gone, and
// sends the next review on one of them. If the server closes the connection at that moment,
// the review is lost, and the API server does not send it again. An answer that ends its
// connection cannot lose a review, and a connection that is still open after the delay has
// been idle for all of it.
func (s *Server) closeWhenUnready(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Load() || s.withdrawn.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// watchReadiness detects until ctx ends when a ready server ceases to be ready. Answers then
// end their connections, and after idleGrace the idle connections are closed, too: otherwise a
// client could use a replica for hours that has left the endpoints.
func (s *Server) watchReadiness(ctx context.Context, reviews *http.Server) {
	var wasReady, closed bool
	var since time.Time
	for waiting.For(ctx, readyInterval) {
		err := s.Ready()
		switch {
		case err == nil && s.withdrawn.Load():
			s.options.Logger.Info("ready again", "after", time.Since(since).Round(time.Millisecond))
			s.withdrawn.Store(false)
			reviews.SetKeepAlivesEnabled(true)
			closed = false
		case err == nil:
			wasReady = true
		case !wasReady || closed:
		case !s.withdrawn.Load():
			s.options.Logger.Warn("not ready any more: answers end their connections", "missing", err)
			since = time.Now()
			s.withdrawn.Store(true)
		case time.Since(since) >= idleGrace:
			reviews.SetKeepAlivesEnabled(false) // closes those that are idle
			closed = true
		}
	}
}

// Ready returns nil when every check passes and the server is not stopping.
func (s *Server) Ready() error {
	if s.stopping.Load() {
		return errors.New("stopping")
	}
	var missing []error
	for _, c := range s.options.Checks {
		if err := c.Ready(); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return errors.Join(missing...)
}

func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, formatNotReady(err), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
		if s.options.Writers == nil {
			return
		}
		if err := s.options.Writers(); err != nil {
			_, _ = fmt.Fprintln(w, "not writing to the cluster:", err)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.options.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	if s.options.State != nil {
		mux.Handle("GET /state", stateHandler(s.options.State))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer startWork(r.Context())(true)
		mux.ServeHTTP(w, r)
	})
}

package main

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// acceptedFor is how long an API server takes a token for good once it has looked at it. As long
// may two API servers disagree.
const acceptedFor = 10 * time.Second

// errUnauthorized is why nothing is written while API servers do not accept Pillion's token.
var errUnauthorized = errors.New("credentials: the API server does not accept Pillion's token (401 Unauthorized); for the cause run: pillion check")

// credentials notes whether API servers accept the token of Pillion's requests. They do not any
// more once the ServiceAccount was deleted, also if it is made again: a token is for the account
// with the UID of its time.
type credentials struct {
	log *slog.Logger

	mu      sync.Mutex
	refused bool
	last    time.Time // of the last answer 401
}

// watch has the requests of a client noted. A token of a file is read anew after each answer 401;
// client-go alone would go on with the one that it has for a minute.
func (c *credentials) watch(config *rest.Config) {
	if config.BearerTokenFile != "" {
		source := transport.NewCachedFileTokenSource(config.BearerTokenFile)
		config.BearerToken, config.BearerTokenFile = "", ""
		config.Wrap(transport.ResettableTokenSourceWrapTransport(source))
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noted{c, next} })
}

type noted struct {
	credentials *credentials
	next        http.RoundTripper
}

func (n noted) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(r)
	if err == nil {
		n.credentials.answered(response.StatusCode)
	}
	return response, err
}

// answered takes note of an answer.
func (c *credentials) answered(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := time.Now(); {
	case status == http.StatusUnauthorized:
		c.last = now
		if !c.refused {
			c.refused = true
			c.log.Error("the API server does not accept Pillion's token: pods are still injected, but no label, status or certificate is written; for the cause run: pillion check", "status", status)
		}
	case c.refused && now.Sub(c.last) > acceptedFor:
		c.refused = false
		c.log.Info("the API server accepts Pillion's token again")
	}
}

// Err returns an error while API servers do not accept the token.
func (c *credentials) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused {
		return errUnauthorized
	}
	return nil
}

// Collector returns the collector of the metric.
func (c *credentials) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pillion_unauthorized", Help: "1 while the API server does not accept Pillion's token (401), so that nothing is read or written; 0 otherwise.",
	}, func() float64 {
		if c.Err() != nil {
			return 1
		}
		return 0
	})
}

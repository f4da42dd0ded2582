package certs

import (
	"context"
	"crypto/tls"
	"time"
)

// Source is where a TLS server's certificate comes from.
type Source interface {
	// GetCertificate is what crypto/tls calls for each handshake. It fails
	// while there is no certificate yet.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// Run keeps the certificate current until ctx ends, and then returns nil.
	// Any error is one that the process cannot recover from. It is called once.
	Run(ctx context.Context) error

	// Ready is nil when API servers can verify the certificate that is served
	// now; otherwise it says in words what is missing, and on which object.
	Ready() error

	// ExpiryTime is when the certificate that is served now ends; false while
	// there is none.
	ExpiryTime() (time.Time, bool)
}

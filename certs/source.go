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
	// now; otherwise it says in words what is missing, and on which object. Once it
	// was nil, it is nil until that certificate has ended, or until there are entries
	// that call the Service and none of them verifies it: Status says what else is
	// missing.
	Ready() error

	// Status is how things stand, for metrics.
	Status() Status
}

// Status is how a [Source] stands.
type Status struct {
	// Expires is when the served leaf ends, and CAExpires when its CA does; zero
	// while there is none, or its CA is not known.
	Expires, CAExpires time.Time

	// Rotations counts the leaves that took the place of another one, Handovers
	// those among them that another CA has signed.
	Rotations, Handovers int

	// AuthoritiesMade counts the CAs that this process has made and stored.
	AuthoritiesMade int

	// Failures counts what failed, by operation: permission, secret, sign,
	// publish, files.
	Failures map[string]int

	// Problems are what fails at present, by object.
	Problems []Problem

	// Configurations are the webhook configurations, in the order of the options.
	Configurations []ConfigurationStatus
}

// Problem is one thing that fails at present. It need not cost readiness: what is served
// stays served.
type Problem struct {
	// Object is what it is about, such as "secret NAMESPACE/NAME" or, for a right that is
	// missing, what the process may not do.
	Object string

	// Operation is one of those of Status.Failures.
	Operation string

	Err error
}

// ConfigurationStatus is how a webhook configuration stands.
type ConfigurationStatus struct {
	WebhookConfiguration

	// Err says why API servers that follow this configuration could not verify
	// the served leaf; nil if they can.
	Err error
}

package certs

import (
	"sync/atomic"
	"time"
)

// Status is the state of a [Source].
type Status struct {
	// Provider describes where the certificates come from.
	Provider ProviderStatus

	// Authorities are the CAs that API servers trust, and the revoked ones.
	Authorities []Authority

	// Expires is the end of the served leaf, CAExpires the end of its CA. They are zero
	// while there is no leaf, or its CA is unknown.
	Expires, CAExpires time.Time

	// Rotations counts the leaves that replaced another leaf. Handovers counts those
	// of them that another CA signed.
	Rotations, Handovers int

	// AuthoritiesMade counts the CAs that this process made and stored.
	AuthoritiesMade int

	// Failures counts the failures by operation: permission, secret, sign, publish,
	// files.
	Failures map[string]int

	// Problems are the present failures, sorted by object.
	Problems []Problem

	// Configurations are the webhook configurations, in the order of the options.
	Configurations []ConfigurationStatus
}

// ProviderStatus describes a provider.
type ProviderStatus struct {
	// Name is self-signed, cert-manager or files.
	Name string

	// Secret is the name of the Secret of CA or leaf; empty if there is none.
	Secret string

	// Publishes reports whether this process writes the caBundles.
	Publishes bool
}

// Authority is a CA.
type Authority struct {
	Fingerprint Fingerprint
	State       AuthorityState

	// Until is when the CA ends or, if that is sooner, when it is trusted no more. It is
	// zero for a revoked CA whose revocation no replica has noticed.
	Until time.Time
}

// AuthorityState says what a CA is used for.
type AuthorityState string

// The states of CAs.
const (
	// SigningAuthority is the CA that signs.
	SigningAuthority AuthorityState = "signing"
	// NextAuthority is staged: it is trusted, and signs next.
	NextAuthority AuthorityState = "next"
	// TrustedAuthority is trusted because leaves of it may be in use.
	TrustedAuthority AuthorityState = "trusted"
	// RevokedAuthority is trusted no more.
	RevokedAuthority AuthorityState = "revoked"
)

// Problem is one present failure. The replica may be ready all the same: the served
// leaf stays served.
type Problem struct {
	// Object names the object of the failure, such as "secret NAMESPACE/NAME". For a
	// missing permission it is the action that the process may not do.
	Object string

	// Operation is a key of Status.Failures.
	Operation string

	Err error
}

// ConfigurationStatus is the state of one webhook configuration.
type ConfigurationStatus struct {
	WebhookConfiguration

	// Err says why API servers that follow this configuration cannot verify the
	// served leaf; nil if they can.
	Err error
}

// counters are the counts of Status that no other part keeps.
type counters struct{ rotations, handovers, made atomic.Int64 }

package certs

import "time"

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

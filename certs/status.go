package certs

import (
	"sync/atomic"
	"time"
)

// Status is the state of a [Source].
type Status struct {
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

package certs

import (
	"log/slog"
	"time"

	"github.com/pillion-dev/pillion/clientset"
)

// fieldManager is the name of Pillion's writes in managedFields.
const fieldManager = "pillion"

// Options are the options that all providers share. All fields are required but
// WebhookConfigurations and Settle.
type Options struct {
	// Client is the connection to the API server. Its rate limit bounds how often a
	// replica restores a caBundle that something else keeps resetting.
	Client clientset.Interface

	// Namespace and Service name the Service through which API servers call the
	// webhook.
	Namespace, Service string

	// WebhookConfigurations are the configurations with entries that call the Service,
	// each once. If there are none, nothing is published and any certificate is served.
	WebhookConfigurations []WebhookConfiguration

	// Settle is how long a new CA must have been published without a break before a
	// leaf that it signed replaces a valid leaf.
	Settle time.Duration

	// Logger receives the log.
	Logger *slog.Logger

	// Now returns the time of the wall clock.
	Now func() time.Time
}

// service returns the Service of the options.
func (o *Options) service() service { return service{o.Namespace, o.Service} }

// keep returns how long a replaced CA stays trusted, whose leaves last so long.
func (o *Options) keep(leafDuration time.Duration) time.Duration {
	return o.Settle + leafDuration + backdate(leafDuration)
}

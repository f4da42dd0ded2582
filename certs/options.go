package certs

import (
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
)

// fieldManager is the name of Pillion's writes in managedFields.
const fieldManager = "pillion"

// Options are the options that all providers share. All are required.
type Options struct {
	// Client has a rate limit of its own. The limit bounds how often a replica restores a
	// caBundle that something else keeps resetting.
	Client kubernetes.Interface

	// Namespace and Service name the Service through which API servers call the
	// webhook.
	Namespace, Service string

	// WebhookConfigurations are the configurations with entries that call the Service.
	// If the list is empty, nothing is published and any certificate is served.
	WebhookConfigurations []WebhookConfiguration

	// Settle is how long a new CA must have been published without a break before a
	// leaf that it signed replaces a valid leaf.
	Settle time.Duration

	Logger *slog.Logger

	// Now is the wall clock.
	Now func() time.Time
}

// service returns the Service of the options.
func (o *Options) service() service { return service{o.Namespace, o.Service} }

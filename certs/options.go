package certs

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
)

const (
	// fieldManager is the name of Pillion's writes in managedFields.
	fieldManager = "pillion"

	// callsPerSecond and callsBurst limit the requests to the API server. They bound
	// how often a replica restores a caBundle that something else keeps resetting.
	callsPerSecond = 10
	callsBurst     = 50

	// defaultLeafDuration is the default of every option LeafDuration.
	defaultLeafDuration = 7 * 24 * time.Hour
)

// Options are the options that all providers share.
type Options struct {
	// RESTConfig is the connection to the API server. It is copied.
	RESTConfig *rest.Config

	// Namespace and Service name the Service through which API servers call the
	// webhook.
	Namespace, Service string

	// WebhookConfigurations are the configurations with entries that call the Service.
	// If there are none, nothing is published and any certificate is served.
	WebhookConfigurations []WebhookConfiguration

	// Settle is how long a new CA must have been published without a break before a
	// leaf that it signed replaces a valid leaf (default 5m). A negative value means
	// no time at all.
	Settle time.Duration

	// Logger receives the log (default: none).
	Logger *slog.Logger
}

func (o *Options) complete() error {
	if err := errors.Join(required("Namespace", o.Namespace), required("Service", o.Service)); err != nil {
		return err
	}
	if err := checkConfigurations(o.WebhookConfigurations); err != nil {
		return err
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// service returns the Service of the options.
func (o *Options) service() service { return service{o.Namespace, o.Service} }

// required returns an error that names the option if its value is empty.
func required(option, value string) error {
	if value == "" {
		return fmt.Errorf("%s is not set", option)
	}
	return nil
}

// open completes the options of a provider and makes its client. Errors begin with
// gives, which says what the provider supplies.
func (o *Options) open(gives string, complete func() error) (kubernetes.Interface, error) {
	if err := complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", gives, err)
	}
	client, err := o.connect()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gives, err)
	}
	return client, nil
}

// connect makes a client with its own rate limit.
func (o *Options) connect() (kubernetes.Interface, error) {
	if o.RESTConfig == nil {
		return nil, errors.New("RESTConfig is not set")
	}
	config := rest.CopyConfig(o.RESTConfig)
	config.QPS, config.Burst, config.RateLimiter = callsPerSecond, callsBurst, nil
	client, err := clientset.New(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

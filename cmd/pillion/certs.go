package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/controller/clientset"
)

// The values of --certs-provider.
const (
	selfSigned  = "self-signed"
	certManager = "cert-manager"
	files       = "files"
)

var providers = []string{selfSigned, certManager, files}

// certsConfig are settings about certificates that commands do not read in a Deployment.
type certsConfig struct {
	CADuration, CASettle time.Duration
	PublishCA            bool
	// CASecret and ServingSecret are names of Secrets. CreateCASecret: the former is made if it is absent.
	CASecret, ServingSecret string
	CreateCASecret          bool
	CertFile, KeyFile       string
}

func (c *serveConfig) certsFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.Mutating, "webhook-configuration", nil, "name of a MutatingWebhookConfiguration that calls Pillion (repeatable)")
	f.StringSliceVar(&c.Validating, "validating-webhook-configuration", nil, "name of a ValidatingWebhookConfiguration that calls Pillion (repeatable)")
	f.StringVar(&c.Provider, "certs-provider", selfSigned, "where the serving certificate comes from: "+strings.Join(providers, ", "))
	f.DurationVar(&c.CASettle, "ca-settle", 5*time.Minute, "how long a new CA must have been in every caBundle before a certificate that it signed is served")
	f.StringVar(&c.CASecret, "ca-secret", "pillion-ca", "self-signed: name of the Secret that holds the CA; it is made if it is absent")
	f.BoolVar(&c.CreateCASecret, "create-ca-secret", true, "self-signed: make the Secret if it is absent; without it somebody else makes it, empty")
	f.DurationVar(&c.CADuration, "ca-duration", 365*24*time.Hour, "self-signed: how long a CA is valid; it is replaced when a third of that time is left")
	f.DurationVar(&c.LeafDuration, "leaf-duration", 7*24*time.Hour, "how long a serving certificate is valid; self-signed replaces it when a third of that time is left")
	f.StringVar(&c.ServingSecret, "serving-secret", "pillion-serving", "cert-manager: name of the Secret that holds the serving certificate")
	f.BoolVar(&c.PublishCA, "publish-ca", false, "cert-manager: write the CA into every caBundle, instead of cainjector")
	f.StringVar(&c.CertFile, "cert-file", "", "files: path of the serving certificate with its chain (PEM)")
	f.StringVar(&c.KeyFile, "key-file", "", "files: path of the private key of --cert-file (PEM)")
}

// shortest is the shortest duration of a certificate. Certificates have whole seconds
// only, and are checked once a second.
const shortest = 3 * time.Second

func (c serveConfig) validateCerts(wrong complaint) {
	wrong.unlessOneOf("certs-provider", c.Provider, providers...)
	if c.LeafDuration < shortest || c.LeafDuration >= c.CADuration {
		wrong("leaf-duration", c.LeafDuration, fmt.Sprintf("allowed is from %s to less than --ca-duration (%s)", shortest, c.CADuration))
	}
	if c.CASettle < 0 || c.CASettle > c.CADuration/4 {
		wrong("ca-settle", c.CASettle, fmt.Sprintf("allowed is from 0s to a quarter of --ca-duration (%s)", c.CADuration))
	}
	for setting, names := range map[string][]string{
		"ca-secret": {c.CASecret}, "serving-secret": {c.ServingSecret},
		"webhook-configuration": c.Mutating, "validating-webhook-configuration": c.Validating,
	} {
		for i, name := range names {
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				wrong(setting, name, "must be a DNS name of lower case letters, digits, dashes and dots")
			}
			if slices.Contains(names[:i], name) {
				wrong(setting, name, "must be given once")
			}
		}
	}
	if c.PublishCA && c.Provider != certManager {
		wrong("publish-ca", c.PublishCA, "allowed with --certs-provider="+certManager+" only")
	}
	if c.Provider == files {
		for setting, path := range map[string]string{"cert-file": c.CertFile, "key-file": c.KeyFile} {
			if path == "" {
				wrong(setting, path, "required with --certs-provider="+files)
			}
		}
	}
}

const (
	// certCallsPerSecond and certCallsBurst limit the requests about certificates. They bound how
	// often a replica restores a caBundle that something else keeps resetting.
	certCallsPerSecond, certCallsBurst = 10, 50
)

// newSource returns the source of the chosen provider.
func newSource(c serveConfig, config *rest.Config, log *slog.Logger) *certs.Source {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = certCallsPerSecond, certCallsBurst
	options := certs.Options{Client: clientset.NewOrDie(config), Namespace: c.Namespace, Service: c.Service, Settle: c.CASettle, Logger: log, Now: time.Now}
	for _, name := range c.Mutating {
		options.WebhookConfigurations = append(options.WebhookConfigurations, certs.WebhookConfiguration{Kind: certs.Mutating, Name: name})
	}
	for _, name := range c.Validating {
		options.WebhookConfigurations = append(options.WebhookConfigurations, certs.WebhookConfiguration{Kind: certs.Validating, Name: name})
	}
	switch c.Provider {
	case certManager:
		return certs.NewCertManager(certs.CertManagerOptions{
			Options: options, SecretName: c.ServingSecret, Publish: c.PublishCA, LeafDuration: c.LeafDuration,
		})
	case files:
		return certs.NewFiles(certs.FilesOptions{Options: options, CertFile: c.CertFile, KeyFile: c.KeyFile})
	default:
		return certs.NewSelfSigned(certs.SelfSignedOptions{
			Options: options, SecretName: c.CASecret, SecretGiven: !c.CreateCASecret, CADuration: c.CADuration, LeafDuration: c.LeafDuration,
		})
	}
}

package main

import (
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/settings"
)

const (
	// certCallsPerSecond and certCallsBurst limit the requests about certificates. They bound how
	// often a replica restores a caBundle that something else keeps resetting.
	certCallsPerSecond, certCallsBurst = 10, 50
)

// newSource returns the source of the chosen provider.
func newSource(s settings.Settings, config *rest.Config, log *slog.Logger) *certs.Source {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = certCallsPerSecond, certCallsBurst
	c := s.Certificates
	options := certs.Options{
		Client: clientset.NewOrDie(config), Namespace: s.Server.Namespace, Service: s.Server.Service, Settle: c.Settle, Logger: log, Now: time.Now,
		WebhookConfigurations: []certs.WebhookConfiguration{{Kind: certs.Mutating, Name: c.WebhookConfiguration}, {Kind: certs.Validating, Name: c.WebhookConfiguration}},
	}
	switch c.Provider {
	case settings.CertManager:
		return certs.NewCertManager(certs.CertManagerOptions{Options: options, SecretName: c.Secret, Publish: c.Publish, LeafDuration: c.LeafDuration})
	case settings.Files:
		return certs.NewFiles(certs.FilesOptions{Options: options, CertFile: filepath.Join(c.Folder, "tls.crt"), KeyFile: filepath.Join(c.Folder, "tls.key")})
	default:
		return certs.NewSelfSigned(certs.SelfSignedOptions{
			Options: options, SecretName: c.Secret, SecretGiven: !c.CreateSecret, CADuration: c.CADuration, LeafDuration: c.LeafDuration,
		})
	}
}

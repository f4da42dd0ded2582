package settings

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/viper"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// File is the name of the file, in the ConfigMap and in the folder where it is mounted.
const File = "settings.yaml"

// Settings configure the server.
type Settings struct {
	Server       Server
	Reviews      Reviews
	Templates    Templates
	Namespaces   Namespaces
	Pods         Pods
	Certificates Certificates
}

// Server configures the process of a replica.
type Server struct {
	// Namespace is Pillion's own. Service is the name of the Service through which API servers call Pillion, and
	// of the Deployment.
	Namespace, Service, ServiceAccount string
	// Listen is the address of reviews, over TLS. AdminListen is that of probes, metrics and state.
	Listen, AdminListen string
	// MemoryLimit is the container's limit, as a quantity.
	MemoryLimit string
	// LogLevel is debug, info, warn or error, and LogFormat text or json.
	LogLevel, LogFormat string
	// ShutdownDelay is how long the server still accepts reviews after the replica has become unready.
	// ShutdownTimeout bounds the reviews that are then in flight.
	ShutdownDelay, ShutdownTimeout time.Duration
}

// MemoryBytes returns the memory limit in bytes. It returns 0 if the limit is not a quantity.
func (s Server) MemoryBytes() int64 {
	q, err := resource.ParseQuantity(s.MemoryLimit)
	if err != nil {
		return 0
	}
	return q.Value()
}

// Reviews configure the webhook's registration and its clients.
type Reviews struct {
	// Timeout is the longest time that an API server waits.
	Timeout time.Duration
	// Scope is [Requested] or [All].
	Scope string
	// ClientCA has the CAs (PEM) of the API servers' client certificates. If it is empty, every client may send
	// reviews. ClientNames are the accepted names in a certificate. If the list is empty, all names are.
	ClientCA    string
	ClientNames []string
}

// The values of Scope.
const (
	// Requested means the pods of namespaces with the label, and pods that request injection themselves.
	Requested = "Requested"
	// All means the pods of all namespaces that do not opt out.
	All = "All"
)

// Templates configure the compiler of templates.
type Templates struct {
	// Values are the installer's, as JSON.
	Values string
	// ForeignSidecars are the names of other injectors' containers.
	ForeignSidecars []string
	// Namespaced turns on NamespacedSidecarTemplates.
	Namespaced bool
}

// Namespaces configure the choice and the labels of namespaces.
type Namespaces struct {
	// Excluded are the namespaces without injection. They include Pillion's own.
	Excluded []string
	// Enforcement chooses the namespaces that become enforced after the proof of injection.
	Enforcement labels.Enforcement
	// Proof is the namespace of the proof's pods. If it is empty, there is no proof.
	Proof string
	// UninstallMarker is the ConfigMap that announces the uninstall.
	UninstallMarker string
}

// Pods configure the reads of workloads and pods.
type Pods struct {
	// OwnerEvents means that events are about the pods' controllers, which Pillion has to read. Otherwise they are
	// about the namespace.
	OwnerEvents bool
	// ReadWorkloads means that a write of a namespace's annotations is checked against the namespace's workloads.
	ReadWorkloads bool
	// CountEvery is the time between two counts of pods without a sidecar. 0 turns the counts off.
	CountEvery time.Duration
}

// Certificates configure the serving certificate.
type Certificates struct {
	// Provider is [SelfSigned], [CertManager] or [Files].
	Provider string
	// WebhookConfiguration is the name of the mutating and of the validating configuration.
	WebhookConfiguration string
	// CADuration and LeafDuration are the validity of certificates. Settle is how long a new CA must have been in
	// every caBundle before a certificate that it signed is served.
	CADuration, LeafDuration, Settle time.Duration
	// Secret has the CA of self-signed, or the serving certificate of cert-manager. CreateSecret means that the
	// server creates the Secret of self-signed if it is absent.
	Secret       string
	CreateSecret bool
	// Publish means that the server writes the caBundles of cert-manager, instead of cainjector.
	Publish bool
	// Folder has the files tls.crt and tls.key of the provider files.
	Folder string
}

// The values of Provider.
const (
	SelfSigned  = "self-signed"
	CertManager = "cert-manager"
	Files       = "files"
)

// Publishes reports whether the server writes the caBundles.
func (c Certificates) Publishes() bool { return c.Provider == SelfSigned || c.Publish }

// defaults returns the settings of an empty file.
func defaults() Settings {
	return Settings{
		Server: Server{
			Service: "pillion", ServiceAccount: "pillion", Listen: ":8443", AdminListen: ":8080", MemoryLimit: "256Mi",
			LogLevel: "info", LogFormat: "text", ShutdownDelay: 5 * time.Second, ShutdownTimeout: 20 * time.Second,
		},
		Reviews:    Reviews{Timeout: 10 * time.Second, Scope: Requested},
		Templates:  Templates{Values: "{}", ForeignSidecars: templates.DefaultForeignSidecars()},
		Namespaces: Namespaces{Excluded: DefaultExcluded(), Enforcement: labels.EnforceRequired},
		Certificates: Certificates{
			Provider: SelfSigned, WebhookConfiguration: "pillion", CADuration: 365 * 24 * time.Hour, LeafDuration: 7 * 24 * time.Hour,
			Settle: 5 * time.Minute, Secret: "pillion-ca", CreateSecret: true,
		},
	}
}

// DefaultExcluded returns the namespaces with pods that the cluster itself depends on.
func DefaultExcluded() []string { return []string{"kube-system", "kube-node-lease"} }

// Parse reads the text of the file (YAML). An unknown setting is an error. [Settings.Validate] checks the values.
func Parse(text []byte) (Settings, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	s := defaults()
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return s, fmt.Errorf("reading the settings: %w", err)
	}
	if err := v.UnmarshalExact(&s); err != nil {
		return s, fmt.Errorf("reading the settings: %w", err)
	}
	if !slices.Contains(s.Namespaces.Excluded, s.Server.Namespace) {
		s.Namespaces.Excluded = append(s.Namespaces.Excluded, s.Server.Namespace)
	}
	return s, nil
}

// TemplateValues returns the installer's values, which expressions read as the variable values.
func (s Settings) TemplateValues() (map[string]any, error) {
	value, err := rawjson.Decode([]byte(s.Templates.Values))
	if err != nil {
		return nil, fmt.Errorf("reading templates.values: %w", err)
	}
	values, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading templates.values: it is %q, and must be an object as JSON", s.Templates.Values)
	}
	return values, nil
}

// Compile returns the options of the compiler, without its checks.
func (s Settings) Compile() (templates.Options, error) {
	values, err := s.TemplateValues()
	// A nil list would mean the default.
	return templates.Options{Values: values, ForeignSidecars: append([]string{}, s.Templates.ForeignSidecars...)}, err
}

// Labels returns the rules for the labels of namespaces.
func (s Settings) Labels() labels.Rules {
	return labels.Rules{Excluded: s.Namespaces.Excluded, Enforcement: s.Namespaces.Enforcement}
}

// Registration returns the pods for which API servers call Pillion.
func (s Settings) Registration() entries.Registration {
	return entries.Registration{All: s.Reviews.Scope == All, Excluded: s.Namespaces.Excluded}
}

// Proves reports whether there is a proof of injection.
func (s Settings) Proves() bool { return s.Namespaces.Proof != "" }

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

// Settings are all that the server is told.
type Settings struct {
	Server       Server
	Reviews      Reviews
	Templates    Templates
	Namespaces   Namespaces
	Pods         Pods
	Certificates Certificates
}

// Server says where and how a replica runs.
type Server struct {
	// Namespace is Pillion's own. Service is the name of the Service through which API servers call Pillion, and
	// of the Deployment.
	Namespace, Service, ServiceAccount string
	// Listen is the address of reviews, over TLS. AdminListen is that of probes, metrics and state.
	Listen, AdminListen string
	// MemoryLimit is how much memory the container may use, as a quantity.
	MemoryLimit string
	// LogLevel is debug, info, warn or error, and LogFormat text or json.
	LogLevel, LogFormat string
	// ShutdownDelay is how long reviews are still answered after the replica has become unready, and
	// ShutdownTimeout how long those in flight may take then.
	ShutdownDelay, ShutdownTimeout time.Duration
}

// MemoryBytes returns the memory limit in bytes, 0 for one that is no quantity.
func (s Server) MemoryBytes() int64 {
	q, err := resource.ParseQuantity(s.MemoryLimit)
	if err != nil {
		return 0
	}
	return q.Value()
}

// Reviews say which reviews come, and from whom.
type Reviews struct {
	// Timeout is the longest time that an API server waits.
	Timeout time.Duration
	// Scope is [Requested] or [All].
	Scope string
	// Preview: workloads and namespaces are previewed.
	Preview bool
	// ClientCA has the CAs (PEM) of the API servers' client certificates: only their clients may send reviews. Empty:
	// everybody may. ClientNames are names that a client's certificate may have, all for none.
	ClientCA    string
	ClientNames []string
}

// The values of Scope.
const (
	// Requested: API servers call Pillion for the pods of namespaces with the label, and for pods that ask.
	Requested = "Requested"
	// All: they call it for the pods of all namespaces that do not opt out.
	All = "All"
)

// Templates say how templates are compiled, and which there are.
type Templates struct {
	// Values are the installer's, as JSON.
	Values string
	// ForeignSidecars are containers of other injectors.
	ForeignSidecars []string
	// Namespaced: the templates of namespaces are served.
	Namespaced bool
}

// Namespaces say which namespaces Pillion has to do with, and which labels it sets.
type Namespaces struct {
	// Excluded are the namespaces that Pillion keeps out of, its own among them.
	Excluded []string
	// Enforcement says which namespaces become enforced once the server has proven that it works.
	Enforcement labels.Enforcement
	// Proof is the namespace of the pods by which a server proves that it works, "" for none.
	Proof string
	// UninstallMarker is the ConfigMap that announces the uninstall.
	UninstallMarker string
}

// Pods say what is read of workloads and pods.
type Pods struct {
	// OwnerEvents: events are on the controllers that create pods, which Pillion has to read for it; else on the
	// namespace.
	OwnerEvents bool
	// ReadWorkloads: those of a namespace that is annotated are previewed.
	ReadWorkloads bool
	// CountEvery is the time between two counts of pods that lack a sidecar, 0 for none.
	CountEvery time.Duration
}

// Certificates say where the serving certificate comes from.
type Certificates struct {
	// Provider is [SelfSigned], [CertManager] or [Files].
	Provider string
	// WebhookConfiguration is the name of the mutating and of the validating configuration.
	WebhookConfiguration string
	// CADuration and LeafDuration are how long certificates are valid. Settle is how long a new CA must have been in
	// every caBundle before a certificate that it signed is served.
	CADuration, LeafDuration, Settle time.Duration
	// Secret holds the CA of self-signed, or the serving certificate of cert-manager. CreateSecret: the former is
	// made if it is absent.
	Secret       string
	CreateSecret bool
	// Publish: the server writes the caBundles of cert-manager, instead of cainjector.
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

// defaults are what holds where the file says nothing.
func defaults() Settings {
	return Settings{
		Server: Server{
			Service: "pillion", ServiceAccount: "pillion", Listen: ":8443", AdminListen: ":8080", MemoryLimit: "256Mi",
			LogLevel: "info", LogFormat: "text", ShutdownDelay: 5 * time.Second, ShutdownTimeout: 20 * time.Second,
		},
		Reviews:    Reviews{Timeout: 10 * time.Second, Scope: Requested, Preview: true},
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

// Parse reads the text of the file (YAML). An unknown setting is an error. It does not look whether values are
// allowed: that is [Settings.Validate].
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

// TemplateValues returns the installer's values, which templates read as values.
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

// Compile returns what templates are compiled with, but for the checks.
func (s Settings) Compile() (templates.Options, error) {
	values, err := s.TemplateValues()
	// Without names, the default would hold.
	return templates.Options{Values: values, ForeignSidecars: append([]string{}, s.Templates.ForeignSidecars...)}, err
}

// Labels are the rules of the labels that Pillion manages on namespaces.
func (s Settings) Labels() labels.Rules {
	return labels.Rules{Excluded: s.Namespaces.Excluded, Enforcement: s.Namespaces.Enforcement}
}

// Registration says for which pods API servers call Pillion.
func (s Settings) Registration() entries.Registration {
	return entries.Registration{All: s.Reviews.Scope == All, Excluded: s.Namespaces.Excluded}
}

// Proves reports whether Pillion proves that it works.
func (s Settings) Proves() bool { return s.Namespaces.Proof != "" }

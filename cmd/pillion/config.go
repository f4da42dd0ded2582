package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
)

var defaultExcluded = inspect.DefaultExcluded

// serveConfig holds the validated settings of 'pillion serve'.
type serveConfig struct {
	certsConfig
	Listen, AdminListen        string
	Namespace, Service         string
	Library, Templates         []string
	ClusterTemplates           bool
	NamespacedTemplates        bool
	Values                     string
	AnnotationPrefix           string
	ForeignSidecars            []string
	ExcludedNamespaces         []string
	Kubeconfig                 string
	LogLevel, LogFormat        string
	ShutdownDelay, ShutdownMax time.Duration
	OwnerEvents                bool
	KeepRequiredLabel          bool
	UninstallMarker            string
	enforcementConfig
	// InUseRecord is the ConfigMap of the templates in use, AllowMissingTemplates are those
	// that may be missing.
	InUseRecord           string
	AllowMissingTemplates []string
	ReadWorkloads         bool
	// MirrorPolicy is the ValidatingAdmissionPolicy that owns the mirrors of templates, and
	// MirrorRevision the version of the release that this replica is of.
	MirrorPolicy, MirrorRevision string
	WebhookScope                 string
	// CountEvery is the time between two looks at the pods, 0 for none.
	CountEvery time.Duration
	// Preview: workloads and namespaces are previewed; PreviewLimits: what limits their pods is
	// read for it.
	Preview, PreviewLimits bool
	peersConfig
	// ReviewTimeout is the longest time that an API server waits, MemoryLimit is in bytes.
	ReviewTimeout time.Duration
	MemoryLimit   int64

	// settings has all of them, by the names of the flags.
	settings map[string]any
}

// The values of --webhook-scope.
const (
	scopeRequested = "Requested"
	scopeAll       = "All"
)

const foreignUsage = "containers of other injectors, by name: $each: App and $each: Init skip them, except in required templates (empty: none)"

// foreignNames returns the names as [templates.Options] want them: an empty list that
// somebody gives is not the default.
func foreignNames(names []string) []string { return append([]string{}, names...) }

// defaultAdminPort is the port of --admin-listen.
const defaultAdminPort = 8080

// leastMemory is the smallest --memory-limit, in bytes.
const leastMemory = 96 << 20

// leastCountEvery is the shortest --count-pods-every: a look reads many pods.
const leastCountEvery = 5 * time.Second

func serveFlags(f *pflag.FlagSet) {
	f.String("config", "", "file (YAML, JSON or TOML) with these settings, without the dashes; flags and PILLION_* override it")
	f.String("listen", ":8443", "address that answers admission reviews, over TLS, under /mutate and /verify")
	f.String("admin-listen", fmt.Sprint(":", defaultAdminPort), "address of /healthz, /readyz, /metrics and /state, plain HTTP")
	f.String("namespace", "", "Pillion's own namespace (required)")
	f.String("service", "pillion", "name of the Service through which API servers call Pillion")
	certsFlags(f)
	f.StringSlice("library", nil, "names of library templates to serve: "+strings.Join(library.Names(), ", "))
	f.StringSlice("templates", nil, "directory of SidecarTemplates to serve, watched (repeatable)")
	f.Bool("cluster-templates", true, "serve the SidecarTemplates of the cluster")
	f.Bool("namespaced-templates", false, "with --cluster-templates, serve the NamespacedSidecarTemplates of the cluster, each for the pods of its namespace")
	f.String("values", "", "YAML file with the installer's values, which templates read as 'values'")
	f.String("annotation-prefix", templates.DefaultPrefix, "prefix of annotations, labels and the CRD's group")
	f.StringSlice("foreign-sidecars", templates.DefaultForeignSidecars(), foreignUsage)
	f.StringSlice("excluded-namespaces", defaultExcluded, "namespaces without injection, besides Pillion's own")
	f.String("kubeconfig", "", "kubeconfig file (default: the pod's service account)")
	f.String("log-level", "info", "debug, info, warn or error")
	f.String("log-format", "text", "text or json")
	f.Duration("shutdown-delay", 5*time.Second, "how long reviews are still answered after the replica has become unready")
	f.Duration("shutdown-timeout", 20*time.Second, "how long reviews in flight may take after the shutdown delay")
	f.Bool("owner-events", true, "write events on the controllers that create pods, which Pillion has to read for it; if false, on the namespace")
	f.Bool("keep-required-label", true, "set the label PREFIX/required on namespaces that a required template selects: API servers then have Pillion check their final pods")
	f.String("uninstall-marker", "", "name of a ConfigMap in Pillion's own namespace that announces the uninstall: Pillion then removes its labels from namespaces (default: they stay)")
	enforcementFlags(f)
	f.String("in-use-record", "", "ConfigMap in --namespace in which replicas record the templates that namespaces name; a replica that starts without one of them is not ready (empty: none)")
	f.StringSlice("allow-missing-templates", nil, "templates that may be missing although --in-use-record names them")
	f.Bool("read-workloads", false, "read workloads and pods: refuse to delete a SidecarTemplate that they name, and warn of workloads that cannot create pods when a namespace is annotated")
	f.String("mirror-policy", "", "show the templates of --library and --templates as read-only SidecarTemplates, which this ValidatingAdmissionPolicy owns (empty: they are not shown)")
	f.String("mirror-revision", "", "value of the annotation PREFIX/mirror-revision of --mirror-policy for this version of the release; replicas of other versions write no mirrors")
	f.String("webhook-scope", scopeRequested, "which namespaces' pods the webhook configuration sends to /mutate/requested: Requested (label PREFIX/injection=enabled) or All (neither enforced nor disabled)")
	f.Bool("preview", true, "answer reviews of workloads and namespaces at /preview, with warnings about what will happen to their pods")
	f.Bool("preview-limits", false, "read LimitRanges and ResourceQuotas, so that previews and events say when they refuse a pod because of a sidecar")
	f.Duration("count-pods-every", 0, "how often to list the pods of namespaces with injection, and to count those that lack a sidecar or have an older one (0: never)")
	peersFlags(f)
	f.Duration("review-timeout", 10*time.Second, "the longest timeoutSeconds in the webhook configurations: Pillion gives up a review after this time")
	f.String("memory-limit", "256Mi", "how much memory the container may use; bounds what reviews may take, and sets GOMEMLIMIT where the environment does not")
}

// loadConfig reads the settings from flags, environment and file, in this order of
// precedence. Its error names every wrong setting.
func loadConfig(cmd *cobra.Command) (serveConfig, error) {
	v := viper.New()
	v.SetEnvPrefix("PILLION")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(cmd.Flags()); err != nil {
		return serveConfig{}, err
	}
	if file := v.GetString("config"); file != "" {
		if err := readConfigFile(v, cmd.Flags(), file); err != nil {
			return serveConfig{}, err
		}
	}
	c := readConfig(v)
	if err := c.validate(); err != nil {
		return c, usageError{err}
	}
	c.ExcludedNamespaces = append(c.ExcludedNamespaces, c.Namespace)
	delete(c.settings, "help")
	return c, nil
}

// readConfig returns the settings without looking whether they are allowed.
func readConfig(v *viper.Viper) serveConfig {
	c := serveConfig{
		Listen: v.GetString("listen"), AdminListen: v.GetString("admin-listen"),
		Namespace: v.GetString("namespace"), Service: v.GetString("service"),
		certsConfig: readCerts(v),
		Library:     list(v, "library"), Templates: list(v, "templates"), ClusterTemplates: v.GetBool("cluster-templates"), NamespacedTemplates: v.GetBool("cluster-templates") && v.GetBool("namespaced-templates"),
		Values: v.GetString("values"), AnnotationPrefix: v.GetString("annotation-prefix"),
		ForeignSidecars: foreignNames(list(v, "foreign-sidecars")), ExcludedNamespaces: list(v, "excluded-namespaces"), Kubeconfig: v.GetString("kubeconfig"),
		LogLevel: v.GetString("log-level"), LogFormat: v.GetString("log-format"),
		ShutdownDelay: v.GetDuration("shutdown-delay"), ShutdownMax: v.GetDuration("shutdown-timeout"),
		OwnerEvents: v.GetBool("owner-events"), KeepRequiredLabel: v.GetBool("keep-required-label"), UninstallMarker: v.GetString("uninstall-marker"), enforcementConfig: readEnforcement(v),
		InUseRecord: v.GetString("in-use-record"), AllowMissingTemplates: list(v, "allow-missing-templates"),
		ReadWorkloads: v.GetBool("read-workloads"), MirrorPolicy: v.GetString("mirror-policy"), MirrorRevision: v.GetString("mirror-revision"), peersConfig: readPeersConfig(v),
		ReviewTimeout: v.GetDuration("review-timeout"), WebhookScope: v.GetString("webhook-scope"),
		CountEvery: v.GetDuration("count-pods-every"),
		Preview:    v.GetBool("preview"), PreviewLimits: v.GetBool("preview-limits"),
		settings: v.AllSettings(),
	}
	if q, err := resource.ParseQuantity(v.GetString("memory-limit")); err == nil {
		c.MemoryLimit = q.Value()
	}
	return c
}

// readConfigFile reads the file of --config. It refuses keys that are not settings, because
// they are typing mistakes.
func readConfigFile(v *viper.Viper, flags *pflag.FlagSet, file string) error {
	own := viper.NewWithOptions(viper.WithDecoderRegistry(distinctKeys{viper.NewCodecRegistry()}))
	own.SetConfigFile(file)
	if err := own.ReadInConfig(); err != nil {
		return fmt.Errorf("reading the configuration %s: %w", filepath.Clean(file), err)
	}
	var unknown []string
	for _, key := range own.AllKeys() {
		if flags.Lookup(key) == nil || key == "config" {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return usageError{fmt.Errorf("reading the configuration %s: no such settings: %s; 'pillion serve --help' lists them", file, strings.Join(unknown, ", "))}
	}
	return v.MergeConfigMap(own.AllSettings())
}

// distinctKeys are decoders that refuse a file in which a setting stands twice, in capital
// and small letters: they are the same to viper, and which one counts would be chance.
type distinctKeys struct{ viper.DecoderRegistry }

// Decoder implements viper.DecoderRegistry.
func (d distinctKeys) Decoder(format string) (viper.Decoder, error) {
	decoder, err := d.DecoderRegistry.Decoder(format)
	return distinctDecoder{decoder}, err
}

type distinctDecoder struct{ viper.Decoder }

// Decode implements viper.Decoder.
func (d distinctDecoder) Decode(text []byte, into map[string]any) error {
	if err := d.Decoder.Decode(text, into); err != nil {
		return err
	}
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(into)) {
		lower := strings.ToLower(key)
		if other, ok := seen[lower]; ok {
			return fmt.Errorf("the setting %s is set twice, as %q and as %q", lower, other, key)
		}
		seen[lower] = key
	}
	return nil
}

// list reads a list from a flag, from the file, or from the environment, where commas
// separate the items.
func list(v *viper.Viper, key string) []string {
	var items []string
	for _, entry := range v.GetStringSlice(key) {
		for item := range strings.SplitSeq(entry, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

// maxPrefix is the longest annotation prefix: TEMPLATE.PREFIX begins keys of annotations and
// labels, which the API gives 253 characters, and a template's name has 63 at most.
const maxPrefix = 253 - len(".") - validation.DNS1123LabelMaxLength

// complaint says that the value of a setting is not allowed.
type complaint func(setting string, value any, allowed string)

// unlessOneOf complains of a value that is none of those allowed.
func (wrong complaint) unlessOneOf(setting, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		wrong(setting, value, "must be one of "+strings.Join(allowed, ", "))
	}
}

// unlessNames complains of values that are no DNS labels.
func (wrong complaint) unlessNames(setting, allowed string, values ...string) {
	for _, value := range values {
		if len(validation.IsDNS1123Label(value)) > 0 {
			wrong(setting, value, allowed)
		}
	}
}

func (c serveConfig) validate() error {
	var problems []error
	wrong := complaint(func(setting string, value any, allowed string) {
		problems = append(problems, fmt.Errorf("--%s is %q; %s", setting, fmt.Sprint(value), allowed))
	})
	for setting, address := range map[string]string{"listen": c.Listen, "admin-listen": c.AdminListen} {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			wrong(setting, address, "must be [HOST]:PORT, such as :8443")
		}
	}
	wrong.unlessNames("namespace", "must be a name of lower case letters, digits and dashes", c.Namespace)
	wrong.unlessNames("service", "must be a name of lower case letters, digits and dashes", c.Service)
	if len(validation.IsDNS1123Subdomain(c.AnnotationPrefix)) > 0 || len(c.AnnotationPrefix) > maxPrefix {
		wrong("annotation-prefix", c.AnnotationPrefix, fmt.Sprintf("must be a DNS name of lower case letters, digits, dashes and dots, of %d characters at most", maxPrefix))
	}
	if c.InUseRecord != "" && len(validation.IsDNS1123Subdomain(c.InUseRecord)) > 0 {
		wrong("in-use-record", c.InUseRecord, "must be the name of a ConfigMap, or nothing")
	}
	wrong.unlessNames("foreign-sidecars", "must be names of containers: lower case letters, digits and dashes", c.ForeignSidecars...)
	wrong.unlessNames("allow-missing-templates", "must be names of templates", c.AllowMissingTemplates...)
	c.certsConfig.validate(wrong)
	if c.UninstallMarker != "" && len(validation.IsDNS1123Subdomain(c.UninstallMarker)) > 0 {
		wrong("uninstall-marker", c.UninstallMarker, "must be the name of a ConfigMap")
	}
	c.enforcementConfig.validate(append(slices.Clone(c.ExcludedNamespaces), c.Namespace), wrong)
	c.peersConfig.validate(wrong)
	for _, name := range c.Library {
		wrong.unlessOneOf("library", name, library.Names()...)
	}
	for _, dir := range c.Templates {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			wrong("templates", dir, "must be a directory that exists")
		}
	}
	wrong.unlessOneOf("log-level", c.LogLevel, "debug", "info", "warn", "error")
	wrong.unlessOneOf("log-format", c.LogFormat, "text", "json")
	wrong.unlessOneOf("webhook-scope", c.WebhookScope, scopeRequested, scopeAll)
	if c.ShutdownDelay < 0 || c.ShutdownMax <= 0 {
		wrong("shutdown-timeout", c.ShutdownMax, "must be a positive duration such as 20s, for --shutdown-delay also 0s")
	}
	if c.ReviewTimeout < time.Second || c.ReviewTimeout > 30*time.Second {
		wrong("review-timeout", c.ReviewTimeout, "must be from 1s to 30s, as in timeoutSeconds")
	}
	if c.CountEvery != 0 && c.CountEvery < leastCountEvery {
		wrong("count-pods-every", c.CountEvery, "must be 0, or at least "+leastCountEvery.String()+", such as 5m")
	}
	if c.MemoryLimit < leastMemory {
		wrong("memory-limit", c.MemoryLimit, "must be at least 96Mi, such as 256Mi")
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

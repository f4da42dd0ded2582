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

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
)

var defaultExcluded = inspect.DefaultExcluded

// serveConfig holds the validated settings of 'pillion serve'. Those that commands read in a Deployment
// are in Served.
type serveConfig struct {
	inspect.Served
	certsConfig
	Listen                     string
	Kubeconfig                 string
	LogLevel, LogFormat        string
	ShutdownDelay, ShutdownMax time.Duration
	// InUse is the ConfigMap of the templates in use, UninstallMarker the one that announces the uninstall.
	InUse, UninstallMarker string
	// AllowMissingTemplates may be missing although InUse names them.
	AllowMissingTemplates []string
	// MirrorPolicy is the policy that holds the server to the mirrors of templates of files; "" if it makes
	// none.
	MirrorPolicy string
	// MirrorRevision is the version of the release that this replica is of.
	MirrorRevision string
	WebhookScope   string
	// Preview: workloads and namespaces are previewed. PreviewLimits: with the limits of a namespace's pods.
	Preview, PreviewLimits     bool
	ReadWorkloads, OwnerEvents bool
	// CountEvery is the time between two looks at the pods, 0 for none.
	CountEvery time.Duration
	peersConfig
	// ReviewTimeout is the longest time that an API server waits.
	ReviewTimeout time.Duration
	// memory is --memory-limit, MemoryLimit the same in bytes.
	memory      string
	MemoryLimit int64

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

// leastMemory is the smallest --memory-limit, in bytes.
const leastMemory = 96 << 20

// leastCountEvery is the shortest --count-pods-every: a look reads many pods.
const leastCountEvery = 5 * time.Second

func (c *serveConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&c.Config, "config", "", "file (YAML, JSON or TOML) with these settings, without the dashes; flags and PILLION_* override it")
	f.StringVar(&c.Listen, "listen", ":8443", "address that answers admission reviews, over TLS, under /mutate and /verify")
	f.StringVar(&c.AdminListen, "admin-listen", fmt.Sprint(":", inspect.DefaultAdminPort), "address of /healthz, /readyz, /metrics and /state, plain HTTP")
	f.StringVar(&c.Namespace, "namespace", "", "Pillion's own namespace (required)")
	f.StringVar(&c.Service, "service", "pillion", "name of the Service through which API servers call Pillion")
	c.certsFlags(f)
	f.StringSliceVar(&c.Library, "library", nil, "names of library templates to serve: "+strings.Join(library.Names(), ", "))
	f.StringSliceVar(&c.Templates, "templates", nil, "directory of SidecarTemplates to serve, watched (repeatable)")
	f.BoolVar(&c.ClusterTemplates, "cluster-templates", true, "serve the SidecarTemplates of the cluster")
	f.BoolVar(&c.NamespacedTemplates, "namespaced-templates", false, "with --cluster-templates, serve the NamespacedSidecarTemplates of the cluster, each for the pods of its namespace")
	f.StringVar(&c.Values, "values", "", "YAML file with the installer's values, which templates read as 'values'")
	f.StringVar(&c.Prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of annotations, labels and the CRD's group")
	f.StringSliceVar(&c.ForeignSidecars, "foreign-sidecars", templates.DefaultForeignSidecars(), foreignUsage)
	f.StringSliceVar(&c.Excluded, "excluded-namespaces", defaultExcluded, "namespaces without injection, besides Pillion's own")
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: the pod's service account)")
	f.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&c.LogFormat, "log-format", "text", "text or json")
	f.DurationVar(&c.ShutdownDelay, "shutdown-delay", 5*time.Second, "how long reviews are still answered after the replica has become unready")
	f.DurationVar(&c.ShutdownMax, "shutdown-timeout", 20*time.Second, "how long reviews in flight may take after the shutdown delay")
	f.BoolVar(&c.OwnerEvents, "owner-events", true, "write events on the controllers that create pods, which Pillion has to read for it; if false, on the namespace")
	f.StringVar(&c.UninstallMarker, "uninstall-marker", "", "name of a ConfigMap in Pillion's own namespace that announces the uninstall: Pillion then removes its labels from namespaces (default: they stay)")
	c.enforcementFlags(f)
	f.StringVar(&c.InUse, "in-use-record", "", "ConfigMap in --namespace in which replicas record the templates that namespaces name; a replica that starts without one of them is not ready (empty: none)")
	f.StringSliceVar(&c.AllowMissingTemplates, "allow-missing-templates", nil, "templates that may be missing although --in-use-record names them")
	f.BoolVar(&c.ReadWorkloads, "read-workloads", false, "read workloads and pods: refuse to delete a SidecarTemplate that they name, and warn of workloads that cannot create pods when a namespace is annotated")
	f.StringVar(&c.MirrorPolicy, "mirror-policy", "", "show the templates of --library and --templates as read-only SidecarTemplates, which this ValidatingAdmissionPolicy owns (empty: they are not shown)")
	f.StringVar(&c.MirrorRevision, "mirror-revision", "", "value of the annotation PREFIX/mirror-revision of --mirror-policy for this version of the release; replicas of other versions write no mirrors")
	f.StringVar(&c.WebhookScope, "webhook-scope", scopeRequested, "which namespaces' pods the webhook configuration sends to /mutate/requested: Requested (label PREFIX/injection=enabled) or All (neither enforced nor disabled)")
	f.BoolVar(&c.Preview, "preview", true, "answer reviews of workloads and namespaces at /preview, with warnings about what will happen to their pods")
	f.DurationVar(&c.CountEvery, "count-pods-every", 0, "how often to list the pods of namespaces with injection, and to count those that lack a sidecar or have an older one (0: never)")
	c.peersFlags(f)
	f.DurationVar(&c.ReviewTimeout, "review-timeout", 10*time.Second, "the longest timeoutSeconds in the webhook configurations: Pillion gives up a review after this time")
	f.StringVar(&c.memory, "memory-limit", "256Mi", "how much memory the container may use; bounds what reviews may take, and sets GOMEMLIMIT where the environment does not")
}

// load takes what the flags leave open from the environment and the file, in this order of
// precedence. Its error names every wrong setting.
func (c *serveConfig) load(flags *pflag.FlagSet) error {
	v := viper.New()
	v.SetEnvPrefix("PILLION")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(flags); err != nil {
		return err
	}
	if file := v.GetString("config"); file != "" {
		if err := readConfigFile(v, flags, file); err != nil {
			return err
		}
	}
	if err := errors.Join(c.read(flags, v), c.validate()); err != nil {
		return usageError{Err: err}
	}
	c.Excluded = append(c.Excluded, c.Namespace)
	c.settings = v.AllSettings()
	delete(c.settings, "help")
	return nil
}

// read sets the flags to what viper says, and the settings that follow from others. It does not look
// whether they are allowed.
func (c *serveConfig) read(flags *pflag.FlagSet, v *viper.Viper) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		var err error
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = list.Replace(items(v.GetStringSlice(f.Name)))
		} else if !f.Changed {
			err = f.Value.Set(v.GetString(f.Name))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s is %q: %w", f.Name, v.GetString(f.Name), err))
		}
	})
	c.NamespacedTemplates = c.NamespacedTemplates && c.ClusterTemplates
	c.All = c.WebhookScope == scopeAll
	c.Publishes = c.Provider == selfSigned || c.PublishCA
	if q, err := resource.ParseQuantity(c.memory); err == nil {
		c.MemoryLimit = q.Value()
	}
	return errors.Join(problems...)
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
		return usageError{Err: fmt.Errorf("reading the configuration %s: no such settings: %s; 'pillion serve --help' lists them", file, strings.Join(unknown, ", "))}
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

// items are those of a list from a flag, from the file, or from the environment, where commas
// separate them.
func items(list []string) []string {
	all := []string{}
	for _, entry := range list {
		for item := range strings.SplitSeq(entry, ",") {
			if item = strings.TrimSpace(item); item != "" {
				all = append(all, item)
			}
		}
	}
	return all
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
	if len(validation.IsDNS1123Subdomain(c.Prefix)) > 0 || len(c.Prefix) > maxPrefix {
		wrong("annotation-prefix", c.Prefix, fmt.Sprintf("must be a DNS name of lower case letters, digits, dashes and dots, of %d characters at most", maxPrefix))
	}
	if c.InUse != "" && len(validation.IsDNS1123Subdomain(c.InUse)) > 0 {
		wrong("in-use-record", c.InUse, "must be the name of a ConfigMap, or nothing")
	}
	wrong.unlessNames("foreign-sidecars", "must be names of containers: lower case letters, digits and dashes", c.ForeignSidecars...)
	wrong.unlessNames("allow-missing-templates", "must be names of templates", c.AllowMissingTemplates...)
	c.validateCerts(wrong)
	if c.UninstallMarker != "" && len(validation.IsDNS1123Subdomain(c.UninstallMarker)) > 0 {
		wrong("uninstall-marker", c.UninstallMarker, "must be the name of a ConfigMap")
	}
	c.validateEnforcement(wrong)
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

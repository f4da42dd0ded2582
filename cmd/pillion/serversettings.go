package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/clientset/waiting"
	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/live"
)

// serverSettings decide what the running Pillion gives to a pod.
type serverSettings struct {
	prefix   string
	excluded []string
	// all: API servers call Pillion for the pods of all namespaces that do not opt out.
	all bool
	// enforcement is what the server enforces once it has proven that it works.
	enforcement kept.Enforcement
	// compile is what the server compiles templates with.
	compile templates.Options
	// set are the templates in force.
	set *templates.Set
	// scope is why all could not be read, nil if it was.
	scope error
	// approximate has the hashes of templates that another hash is in force of than set has:
	// they were compiled without the server's settings, which could not be read.
	approximate map[string]string
	// whole: the templates are all that are in force, as they are in force.
	whole bool
}

// serverSettingsTimeout bounds the reading of the cluster's templates.
const serverSettingsTimeout = 30 * time.Second

// place is where Pillion's Deployment is.
type place struct {
	namespace, selector string
	// otherwise is a clause about flags that spare the Deployment; "" for commands without.
	otherwise string
}

func (i installation) place() place {
	return place{namespace: i.namespace, selector: i.selector}
}

// errNoDeployment says that Pillion's Deployment is not there, or is not the only one.
var errNoDeployment = errors.New("looking for Pillion's Deployment")

// readServerSettings reads them from Pillion's Deployment and its ConfigMaps, and from the
// cluster's SidecarTemplates, with the user's own rights. The library is that of this
// binary.
func readServerSettings(ctx context.Context, client dynamic.Interface, where place) (serverSettings, error) {
	namespace := where.namespace
	deployment, container, err := ownDeployment(ctx, client, where)
	if err != nil {
		return serverSettings{}, err
	}
	v, err := servedFlags(container)
	if err != nil {
		return serverSettings{}, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: %w", deployment.Name, namespace, err)
	}
	if file := v.GetString("config"); file != "" {
		return serverSettings{}, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: they name the file %s, which cannot be read from here%s", deployment.Name, namespace, file, where.otherwise)
	}
	mounts := mounted{client: client, deployment: deployment, container: container, otherwise: where.otherwise}
	s := serverSettings{whole: true, prefix: v.GetString("annotation-prefix"), excluded: append(list(v, "excluded-namespaces"), namespace), enforcement: readEnforcement(v).once()}
	options := live.Options{Compile: templates.Options{Prefix: s.prefix, ForeignSidecars: foreignNames(list(v, "foreign-sidecars"))}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if file := v.GetString("values"); file != "" {
		if options.Compile.Values, err = mounts.values(ctx, file); err != nil {
			return s, err
		}
	}
	if names := list(v, "library"); len(names) > 0 {
		source, err := live.Library(names...)
		if err != nil {
			return s, fmt.Errorf("taking the library's templates that Deployment %s serves: %w; use the pillion of that version", deployment.Name, err)
		}
		options.Sources = append(options.Sources, source)
	}
	for _, dir := range list(v, "templates") {
		files, err := mounts.files(ctx, dir)
		if err != nil {
			return s, err
		}
		options.Sources = append(options.Sources, fixedSource{name: dir, files: files})
	}
	if v.GetBool("cluster-templates") {
		options.Sources = append(options.Sources, live.Cluster(client, s.prefix, slog.New(slog.DiscardHandler)))
	}
	s.compile = options.Compile
	if s.set, err = readTemplates(ctx, options); err != nil {
		return s, err
	}
	s.all, s.scope, err = calledForAll(ctx, client, s.prefix, list(v, "webhook-configuration"))
	return s, err
}

// deployed is what counts of a Deployment. The types of apps/v1 would make the binary larger.
type deployed struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32                 `json:"replicas"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	Status struct {
		AvailableReplicas int32 `json:"availableReplicas"`
		UpdatedReplicas   int32 `json:"updatedReplicas"`
	} `json:"status"`
}

// ownDeployment returns the Deployment of Pillion, and Pillion's container in it.
func ownDeployment(ctx context.Context, client dynamic.Interface, where place) (deployed, corev1.Container, error) {
	namespace := where.namespace
	found, err := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: where.selector})
	if err != nil {
		err = fmt.Errorf("looking for Pillion's Deployment in namespace %s: %w", namespace, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; --pillion-namespace names Pillion's namespace%s", err, where.otherwise)
		}
		return deployed{}, corev1.Container{}, err
	}
	var all []deployed
	var containers []corev1.Container
	for _, item := range found.Items {
		var d deployed
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &d); err != nil {
			return d, corev1.Container{}, fmt.Errorf("reading Deployment %s in namespace %s: %w", item.GetName(), namespace, err)
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			if c.Name == ownContainer && len(c.Args) > 0 && c.Args[0] == "serve" {
				all, containers = append(all, d), append(containers, c)
			}
		}
	}
	if len(all) != 1 {
		return deployed{}, corev1.Container{}, fmt.Errorf("%w: %d in namespace %s have a container called %s that serves, want one; --pillion-namespace names Pillion's namespace, and --pillion-selector tells two releases apart",
			errNoDeployment, len(all), namespace, ownContainer)
	}
	return all[0], containers[0], nil
}

// servedFlags returns the settings that the container serves with: its arguments, and the
// variables PILLION_* that say what they leave open.
func servedFlags(c corev1.Container) (*viper.Viper, error) {
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.ParseErrorsAllowlist.UnknownFlags = true // of another version
	serveFlags(f)
	if err := f.Parse(c.Args[1:]); err != nil {
		return nil, err
	}
	v := viper.New()
	if err := v.BindPFlags(f); err != nil {
		return nil, err
	}
	for _, e := range c.Env {
		setting, ok := strings.CutPrefix(e.Name, "PILLION_")
		setting = strings.ReplaceAll(strings.ToLower(setting), "_", "-")
		if flag := f.Lookup(setting); ok && flag != nil && !flag.Changed && e.ValueFrom == nil {
			v.Set(setting, e.Value)
		}
	}
	return v, nil
}

// mounted reads the ConfigMaps that are mounted into Pillion's container.
type mounted struct {
	client     dynamic.Interface
	deployment deployed
	container  corev1.Container
	otherwise  string
}

// files returns the files in a folder of the container.
func (m mounted) files(ctx context.Context, dir string) (map[string]string, error) {
	for _, mount := range m.container.VolumeMounts {
		if path.Clean(mount.MountPath) != path.Clean(dir) {
			continue
		}
		for _, volume := range m.deployment.Spec.Template.Spec.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			name := volume.ConfigMap.Name
			object, err := m.client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(m.deployment.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s in namespace %s, which Pillion reads as %s: %w", name, m.deployment.Namespace, dir, err)
			}
			var read corev1.ConfigMap
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s in namespace %s: %w", name, m.deployment.Namespace, err)
			}
			return read.Data, nil
		}
	}
	return nil, fmt.Errorf("reading what Pillion reads as %s: Deployment %s in namespace %s mounts no ConfigMap there%s", dir, m.deployment.Name, m.deployment.Namespace, m.otherwise)
}

// values returns the installer's values.
func (m mounted) values(ctx context.Context, file string) (map[string]any, error) {
	files, err := m.files(ctx, path.Dir(file))
	if err != nil {
		return nil, err
	}
	documents, err := workload.Parse([]byte(files[path.Base(file)]))
	if errors.Is(err, workload.ErrEmpty) {
		return nil, nil
	}
	if err == nil && len(documents) > 1 {
		err = fmt.Errorf("%d documents; one is allowed", len(documents))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the values that Pillion reads as %s: %w", file, err)
	}
	return documents[0].Object, nil
}

// fixedSource is a source of templates that never changes.
type fixedSource struct {
	name  string
	files map[string]string
}

// Name implements [live.Source].
func (s fixedSource) Name() string { return "directory " + s.name }

// Run implements [live.Source].
func (s fixedSource) Run(ctx context.Context, report func(live.Report)) {
	var units []live.Unit
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			units = append(units, live.Unit{Source: path.Join(s.name, name), Data: []byte(s.files[name])})
		}
	}
	report(live.Report{Units: units})
	<-ctx.Done()
}

// readTemplates returns the templates of all sources, each read once.
func readTemplates(ctx context.Context, o live.Options) (*templates.Set, error) {
	ctx, stop := context.WithTimeout(ctx, serverSettingsTimeout)
	defer stop()
	set, ended := live.New(o), make(chan struct{})
	go func() {
		defer close(ended)
		_ = set.Run(ctx) // it ends with ctx, and what is missing is asked for below
	}()
	defer func() { stop(); <-ended }()
	var err error
	for ctx.Err() == nil {
		if err = set.Ready(); err == nil {
			return set.Snapshot(), nil
		}
		for _, s := range set.Sources() {
			if !s.Read && apierrors.IsForbidden(s.Err) {
				return nil, s.Err
			}
		}
		waiting.For(ctx, 20*time.Millisecond)
	}
	return nil, fmt.Errorf("reading the templates in force: %w", err)
}

// calledForAll reports whether a webhook for pods selects namespaces without the label of
// injection. Without the right to read the configurations it counts as none, and unread says
// which right is missing.
func calledForAll(ctx context.Context, client dynamic.Interface, prefix string, configurations []string) (all bool, unread, err error) {
	resource := client.Resource(schema.GroupVersionResource{Group: admissionv1.GroupName, Version: "v1", Resource: "mutatingwebhookconfigurations"})
	for _, name := range configurations {
		object, err := resource.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			unread = err
			continue
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return false, nil, fmt.Errorf("reading the MutatingWebhookConfiguration %s: %w", name, err)
		}
		var read admissionv1.MutatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
			return false, nil, fmt.Errorf("reading the MutatingWebhookConfiguration %s: %w", name, err)
		}
		for _, w := range read.Webhooks {
			pods := slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.Resources, "pods") })
			if pods && w.NamespaceSelector != nil && selectsAll(w.NamespaceSelector, prefix) {
				return true, nil, nil
			}
		}
	}
	return false, unread, nil
}

// selectsAll reports whether a selector of namespaces leaves the label of injection out of
// account, but for the values that keep Pillion away or have an entry of their own.
func selectsAll(s *metav1.LabelSelector, prefix string) bool {
	key := templates.InjectionLabel(prefix)
	for _, e := range s.MatchExpressions {
		if e.Key == key && (e.Operator != metav1.LabelSelectorOpNotIn || slices.Contains(e.Values, templates.InjectionEnabled)) {
			return false
		}
	}
	_, wants := s.MatchLabels[key]
	return !wants
}

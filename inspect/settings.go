package inspect

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/templates"
)

// Settings decide what the running Pillion gives to a pod.
type Settings struct {
	Prefix   string
	Excluded []string
	// All: API servers call Pillion for the pods of all namespaces that do not opt out.
	All bool
	// Enforcement is what the server enforces once it has proven that it works.
	Enforcement proof.Enforcement
	// Match says which namespaces are enforced that only the match of a template selects.
	Match labels.Match
	// Compile is what the server compiles templates with.
	Compile templates.Options
	// Templates are those in force; nil where not even they can be read.
	Templates *templates.Set
	// Whole: the templates are all that are in force, as they are in force.
	Whole bool

	// scope is why All could not be read, nil if it was.
	scope error
	// approximate has the hashes of templates that another hash is in force of than Templates has:
	// they were compiled without the server's settings, which could not be read.
	approximate map[string]string
}

// settingsTimeout bounds the reading of the cluster's templates.
const settingsTimeout = 30 * time.Second

// Settings reads the server's settings from Pillion's Deployment and its ConfigMaps, and from the
// cluster's SidecarTemplates. The library is that of this binary. Otherwise is a clause about flags
// that spare the Deployment.
func (c *Cluster) Settings(ctx context.Context, otherwise string) (Settings, error) {
	r, err := c.release(ctx, otherwise)
	if err != nil {
		return Settings{}, err
	}
	return c.settingsOf(ctx, r)
}

// settingsOf reads the settings of a release.
func (c *Cluster) settingsOf(ctx context.Context, r release) (s Settings, err error) {
	if r.Config != "" {
		return s, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: they name the file %s, which this command cannot read%s", r.deployment.Name, c.Namespace, r.Config, r.otherwise)
	}
	s = Settings{Whole: true, Prefix: r.Prefix, Excluded: r.Excluded, Enforcement: proof.Enforcement{Enforce: r.ProofNamespace != ""}, Match: r.Match, Compile: templates.Options{Prefix: r.Prefix, ForeignSidecars: r.ForeignSidecars}}
	if r.Values != "" {
		if s.Compile.Values, err = c.values(ctx, r, r.Values); err != nil {
			return s, err
		}
	}
	var sources []store.Source
	if len(r.Library) > 0 {
		source, err := store.Library(s.Compile.Values, r.Library...)
		if err != nil {
			return s, fmt.Errorf("taking the library's templates that Deployment %s serves: %w; use the pillion of that version", r.deployment.Name, err)
		}
		sources = append(sources, source)
	}
	for _, dir := range r.Served.Templates {
		files, err := c.files(ctx, r, dir)
		if err != nil {
			return s, err
		}
		sources = append(sources, fixedSource{name: dir, files: files})
	}
	if r.ClusterTemplates {
		sources = append(sources, c.clusterTemplates(r.Prefix))
	}
	if s.Templates, err = readTemplates(ctx, s.Compile, sources); err != nil {
		return s, err
	}
	if r.NamespacedTemplates {
		s.Templates = c.NamespacedTemplates(ctx, s.Templates, s.Compile)
	}
	s.All, s.scope, err = c.calledForAll(ctx, r.Prefix, r.Mutating)
	return s, err
}

// ClusterTemplates compiles the SidecarTemplates of the cluster.
func (c *Cluster) ClusterTemplates(ctx context.Context, compile templates.Options) (*templates.Set, error) {
	return readTemplates(ctx, compile, []store.Source{c.clusterTemplates(compile.Prefix)})
}

func (c *Cluster) clusterTemplates(prefix string) store.Source {
	return store.Cluster(c.Objects, prefix, slog.New(slog.DiscardHandler))
}

// fixedSource is a source of templates that never changes.
type fixedSource struct {
	name  string
	files map[string]string
}

// Name implements [store.Source].
func (s fixedSource) Name() string { return "directory " + s.name }

// Run implements [store.Source].
func (s fixedSource) Run(ctx context.Context, report func(store.Report)) {
	var units []store.Unit
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			units = append(units, store.Unit{Source: path.Join(s.name, name), Data: []byte(s.files[name])})
		}
	}
	report(store.Report{Units: units})
	<-ctx.Done()
}

// readTemplates returns the templates of all sources, each read once.
func readTemplates(ctx context.Context, compile templates.Options, sources []store.Source) (*templates.Set, error) {
	ctx, stop := context.WithTimeout(ctx, settingsTimeout)
	defer stop()
	set, ended := store.New(store.Options{Compile: compile, Sources: sources, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}), make(chan struct{})
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

// calledForAll reports whether an entry for pods is for namespaces with the label of injection and
// for those without it. Without the right to read the configurations it counts as none, and unread
// says which right is missing.
func (c *Cluster) calledForAll(ctx context.Context, prefix string, configurations []string) (all bool, unread, err error) {
	enabled := map[string]string{templates.InjectionLabel(prefix): templates.InjectionEnabled}
	for _, name := range configurations {
		read, err := one[admissionv1.MutatingWebhookConfiguration](ctx, c, resourceOf(admissionv1.GroupName, "v1", "mutatingwebhookconfigurations"), "", name)
		switch {
		case apierrors.IsForbidden(err):
			unread = err
			continue
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return false, nil, err
		}
		for _, w := range check.WebhooksOf([]admissionv1.MutatingWebhookConfiguration{read}, nil) {
			if called := w.Called(admissionv1.Create, "pods"); called(enabled) && called(nil) {
				return true, nil, nil
			}
		}
	}
	return false, unread, nil
}

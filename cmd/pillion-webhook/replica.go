package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/uninstall"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

// replica is one process of the server. Five steps create its parts, in the order of the fields. Each step reads
// the parts before it, registers the metrics of its own, and adds to runs.
type replica struct {
	settings settings.Settings
	registry *prometheus.Registry
	metrics  *webhook.Metrics
	log      *slog.Logger
	// runs run until the server has stopped.
	runs []func(context.Context) error

	clients
	caches
	reviews
	writers
	server *webhook.Server
}

// clients are the connections to the API server.
type clients struct {
	config   *rest.Config
	client   kubernetes.Interface
	metadata metadata.Interface
	// unlimited has no limit of requests, for callers that limit themselves: the writer of labels never delays a
	// live read of a namespace.
	unlimited metadata.Interface
}

// caches are the parts that read the cluster.
type caches struct {
	compile    templates.Options
	namespaces *namespaces.Informer
	set        *store.Templates
	status     *store.StatusWriter
	// namespaced is nil where templates of namespaces are not served.
	namespaced *namespacedTemplates
	source     *certs.Source
}

// reviews are the parts that decide about pods.
type reviews struct {
	recorder *events.Recorder
	pods     webhook.Pods
}

// writers are the parts that write to the cluster.
type writers struct {
	prover    *proof.Prover
	uninstall *uninstall.Uninstall
}

// newReplica returns a replica that does not run yet. It sends no request to the API server.
func newReplica(s settings.Settings, config *rest.Config, registry *prometheus.Registry, log *slog.Logger) (*replica, error) {
	r := &replica{settings: s, registry: registry, metrics: webhook.NewMetrics(registry), log: log}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerSettings(registry, s)
	var err error
	if r.clients, err = connect(config); err != nil {
		return nil, err
	}
	if r.caches, err = r.newCaches(); err != nil {
		return nil, err
	}
	r.reviews = r.newReviews()
	r.writers = r.newWriters()
	if r.server, err = r.newServer(); err != nil {
		return nil, err
	}
	return r, nil
}

// logger returns the logger of a part.
func (r *replica) logger(component string) *slog.Logger { return r.log.With("component", component) }

// run adds to runs.
func (r *replica) run(f ...func(context.Context) error) { r.runs = append(r.runs, f...) }

// connect returns the clients.
func connect(config *rest.Config) (clients, error) {
	client, err := clientset.New(config)
	if err != nil {
		return clients{}, fmt.Errorf("making a client: %w", err)
	}
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	return clients{config: config, client: client, metadata: metadata.NewForConfigOrDie(config), unlimited: metadata.NewForConfigOrDie(unlimited)}, nil
}

// newCaches returns the caches of namespaces and templates, and the source of the serving certificate.
func (r *replica) newCaches() (caches, error) {
	compile, err := r.settings.Compile()
	if err != nil {
		return caches{}, err
	}
	compile.Check = injector.CheckRequired
	c := caches{
		compile:    compile,
		namespaces: namespaces.New(namespaces.Options{Client: r.metadata, Logger: r.logger("namespaces")}),
		source:     newSource(r.settings, r.config, r.logger("certs")),
	}
	if c.set, c.status, err = r.newTemplates(compile); err != nil {
		return caches{}, err
	}
	c.set.OnChange(func(s *templates.Set) { r.metrics.SetTemplates(withoutProof(s)) })
	if r.settings.Templates.Namespaced {
		c.namespaced = r.newNamespaced(c)
		r.registry.MustRegister(c.namespaced)
	}
	r.registry.MustRegister(c.source, follow.NewCollector(func() map[string]follow.State {
		return map[string]follow.State{"namespaces": c.namespaces.State(), "templates": c.set.State()}
	}))
	r.run(c.set.Run, c.source.Run)
	return c, nil
}

// newTemplates returns the set of the templates in force, and the writer of their statuses.
func (r *replica) newTemplates(compile templates.Options) (*store.Templates, *store.StatusWriter, error) {
	client := dynamic.NewForConfigOrDie(r.config)
	options := store.Options{Client: client, Compile: compile, Logger: r.logger("templates")}
	if r.settings.Proves() {
		var err error
		if options.BuiltIn, _, err = templates.Compile(proof.Manifest(r.settings.Namespaces.Proof), compile); err != nil {
			return nil, nil, fmt.Errorf("compiling the template of the proof: %w", err)
		}
	}
	set, status := store.New(options), store.NewStatusWriter(client, options.Logger)
	status.Acceptance = r.templateOracle().acceptance
	set.OnVerdicts(func(v []store.Verdict) { status.Observe("", v) })
	return set, status, nil
}

// newReviews returns the recorder of events, and the pipeline with its caches.
func (r *replica) newReviews() reviews {
	s := r.settings
	config := injector.Config{Namespace: s.Server.Namespace, ExcludedNamespaces: s.Namespaces.Excluded}
	recorder := events.New(events.Options{
		Client: r.client.EventsV1(), Metadata: r.metadata, Namespace: r.namespaces.UID, Owners: s.Pods.OwnerEvents,
		Explain: config.ExplainCommand, Logger: r.logger("events"),
	})
	r.registry.MustRegister(recorder.Collector())
	r.run(recorder.Run)
	return reviews{recorder, webhook.Pods{Pipeline: injector.NewPipeline(config), Namespaces: r.namespaces, Templates: r.set.Snapshot}}
}

// loaded returns nil once namespaces and templates are read.
func (r *replica) loaded() error {
	return errors.Join(r.namespaces.Ready(), r.set.Ready(), r.namespaced.loaded())
}

// newWriters returns the parts that write to the cluster. It also adds the runs of the writers of labels and statuses, and
// the counter of pods.
func (r *replica) newWriters() writers {
	s := r.settings
	w := writers{prover: r.newProver()}
	r.registry.MustRegister(w.prover)
	remover := labels.Remover{Namespaces: r.unlimited.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))}
	configMaps := r.metadata.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.Server.Namespace)
	w.uninstall = uninstall.New(uninstall.Options{
		Watch: uninstall.WatchMarker(configMaps, s.Namespaces.UninstallMarker), Remove: remover.Remove, Logger: r.logger("uninstall"),
	})
	if s.Namespaces.UninstallMarker != "" {
		r.run(w.uninstall.Run)
	}
	r.run(onceReady(r.loaded, r.status.Run))
	if r.namespaced != nil {
		r.run(r.namespaced.Run)
	}
	r.run(w.uninstall.Until(r.newLabeller(w.prover).Run))
	if s.Pods.CountEvery != 0 {
		r.run(r.newPodCounter().Run)
	}
	return w
}

// onceReady returns a run that begins when ready returns nil.
func onceReady(ready func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !waiting.UntilReady(ctx, 20*time.Millisecond, ready) {
			return nil
		}
		return run(ctx)
	}
}

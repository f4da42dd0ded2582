package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/pillion-dev/pillion/controller/canary"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

func newServeCommand() *cobra.Command {
	var c serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the admission webhook",
		Long: `Serve answers the admission reviews of pods. The chart runs it. To run it by
hand, you need a kubeconfig and the permissions that the chart grants.

Every setting can be given as a flag, in the environment (--log-level is
PILLION_LOG_LEVEL) or in the file of --config (log-level: debug). A flag
overrides the environment, and the environment overrides the file. Commas
separate the items of a list.

The server is ready (/readyz) when the served certificate verifies against the
caBundle in every --webhook-configuration and
--validating-webhook-configuration, the namespaces have been listed, the
templates are loaded, and no template is missing that namespaces name and the
running replicas have (--in-use-record). Until then /readyz names what is
missing. A server whose cache of namespaces or templates the API server has
shown to be wrong is not ready until it has read them anew; one that cannot
reach the API server, or whose token is not accepted, stays ready: /readyz says
then what keeps it from writing labels and statuses.`,
		Example: `  pillion serve --namespace pillion-system --webhook-configuration pillion \
    --library fluent-bit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.load(cmd.Flags()); err != nil {
				return err
			}
			return serve(cmd, c)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

func newLogger(c serveConfig) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // it was validated
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

func restConfig(c serveConfig) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if c.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, usageError{Err: errors.New("not running in a pod of a cluster: --kubeconfig is required")}
	}
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	findDeadConnections()
	// An API server that was away is found again by the next try, not when a try that began
	// long ago gives up.
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	config.UserAgent = "pillion/" + version
	// The process watches a handful of resources. The default of 5 requests a second
	// would only delay the start.
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// dialTimeout bounds how long a connection to the API server takes to be made.
const dialTimeout = 2 * time.Second

// findDeadConnections has a connection to the API server that nothing comes through any more
// found within three seconds: after a second of silence the API server is asked for a sign of
// life. Watches go on on another connection then. The packages that make the connections can be
// told by the environment only. What the environment says already, stays.
func findDeadConnections() {
	for name, seconds := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "1", "HTTP2_PING_TIMEOUT_SECONDS": "2"} {
		if _, ok := os.LookupEnv(name); !ok {
			_ = os.Setenv(name, seconds) // fails for a bad name only
		}
	}
}

// serve runs a replica.
func serve(cmd *cobra.Command, c serveConfig) error {
	start := time.Now()
	log := newLogger(c)
	klog.SetSlogLogger(log.With("component", "client-go"))
	config, err := restConfig(c)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	r, err := assemble(cmd, c, config, registry, log)
	if err != nil {
		return err
	}
	limitMemory(c.MemoryLimit)
	log.Info("starting", "version", version, "namespace", c.Namespace, "service", c.Service)
	return runAll(cmd.Context(), r.server, start, log, r.watchNamespaces, r.watches...)
}

// servedParts are those of a running replica.
type servedParts struct {
	server          *webhook.Server
	watchNamespaces func(context.Context)
	watches         []func(context.Context) error
	handlers        map[string]http.Handler // of reviews, by path
}

// assemble puts the parts together, and registers their metrics. It asks the API server nothing.
func assemble(cmd *cobra.Command, c serveConfig, config *rest.Config, registry *prometheus.Registry, log *slog.Logger) (*servedParts, error) {
	token := &credentials{log: log.With("component", "credentials")}
	token.watch(config)
	registry.MustRegister(token.Collector())
	client, err := clientset.New(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	metadataClient := metadata.NewForConfigOrDie(config)
	// What writes labels and counts pods limits itself. With a client of its own it keeps no live read of a
	// namespace waiting.
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	unlimitedClient := metadata.NewForConfigOrDie(unlimited)

	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerSettings(registry, c)
	metrics := webhook.NewMetrics(registry)

	compile := templates.Options{Prefix: c.Prefix, ForeignSidecars: c.ForeignSidecars}
	if c.Values != "" {
		if compile.Values, err = readValues(cmd, c.Values); err != nil {
			return nil, err
		}
	}
	var set *store.Templates
	ns := namespaces.New(namespaces.Options{
		Client: metadataClient, List: clientset.NamespaceList(client), Prefix: c.Prefix, Bytes: webhook.Share(c.MemoryLimit, webhook.NamespaceShare),
		Reads: func() *templates.NamespaceReads { return set.Snapshot().NamespaceReads() }, Logger: log.With("component", "namespaces"),
	})
	set, status, err := liveSet(c, compile, config, c.namedIn(ns), log)
	if err != nil {
		return nil, err
	}
	set.OnChange(func(s *templates.Set) { metrics.SetTemplates(withoutProof(s)) })
	set.OnChange(func(*templates.Set) { ns.TemplatesChanged() })
	ofNamespaces := newNamespacedTemplates(c, client, metadataClient, compile, set, log.With("component", "templates of namespaces"))
	garbage := newGarbage()
	if ofNamespaces != nil {
		registry.MustRegister(ofNamespaces)
		ofNamespaces.OnChange(func(string) { garbage.leftLittle() })
	}
	set.OnVerdicts(func([]store.Verdict) { garbage.left() })
	ns.OnChange(func(string) { garbage.leftLittle() })
	registry.MustRegister(follow.NewCollector(caches(ns, set)))
	source := newSource(c, config, log.With("component", "certs"))
	registry.MustRegister(source)
	peers, err := c.peers()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.ClientCAFile, err)
	}
	settings := injector.Config{Prefix: c.Prefix, Namespace: c.Namespace, ExcludedNamespaces: c.Excluded}
	recorder := events.New(events.Options{
		Client: client.EventsV1(), Metadata: metadataClient, Namespace: ns.UID, Owners: c.OwnerEvents,
		Explain: settings.ExplainCommand, Instance: instance(), Logger: log.With("component", "events"),
	})
	registry.MustRegister(recorder.Collector())

	// While the cache of namespaces is wrong, reviews are answered from live reads. The label controller
	// waits: it judges all of them.
	anyServer := clientset.NewOrDie(clientset.ConnectingAnew(config))
	kubernetes := newKubeVersion(clientset.ServerVersion(anyServer), log.With("component", "version"))
	loaded := func() error { return errors.Join(ns.Loaded(), set.Ready(), ofNamespaces.loaded(), kubernetes.Ready()) }
	current := func() error { return errors.Join(ns.Ready(), set.Ready(), ofNamespaces.loaded()) }
	reviews := webhook.Options{
		Effects: recorder, Metrics: metrics, Logger: log, Ready: loaded,
		Timeout: c.ReviewTimeout, Memory: webhook.MemoryFor(c.MemoryLimit, runtime.GOMAXPROCS(0)),
	}
	middleware := webhook.NewMiddleware(reviews)
	settings.Kubernetes = kubernetes.Version
	limits := c.limits(config, log.With("component", "limits"))
	refusals := canary.NewRefusals(time.Now)
	pods := webhook.Pods{
		Judged: refusals.Note, Pipeline: injector.NewPipeline(settings), Namespaces: ns, Templates: set.Snapshot,
		TemplatesBefore: set.Before, NamespaceBefore: ns.Before, KubernetesLately: kubernetes.Lately, Forecasts: webhook.NewForecasts(limits.foretold),
	}
	var server *webhook.Server
	prover := newProver(c, config, ns, func() error { return server.Ready() }, log.With("component", "proof"))
	registry.MustRegister(prover)
	counter := newCounter(c, set, ns, current, registry)
	inUse, runUpgradeGate := newUpgradeGate(c, client, counter, ns, func() error { return errors.Join(source.Ready(), loaded()) }, registry, log.With("component", "templates in use"))
	// A replica that is held up has not all templates: it must take no label off, and has
	// nothing to say in a status.
	mayWrite := func() error { return errors.Join(token.Err(), current(), checkAll(inUse)) }
	writeStatus := func(ctx context.Context) error { <-ctx.Done(); return nil }
	mirrors := writeStatus
	if status != nil {
		counter.OnCount(func(count usage.Count) { status.Counted(count.In) })
		writeStatus = once(mayWrite, status.Run)
		mirrors = c.mirrors(config, compile, set, status, mayWrite, log.With("component", "mirrors"))
	}
	enforcing := c.enforcing(prover)
	held := func(namespace, label string, err error) {
		recorder.Record(events.Event{Namespace: namespace, Code: reason.LabelNotWritten, Message: labelHeld(namespace, label, err)})
	}
	labelController := newLabelController(c.Labels(), enforcing, held, unlimitedClient, set, ns, mayWrite, log.With("component", "labels"))
	registry.MustRegister(labelController)
	if ofNamespaces != nil {
		ofNamespaces.OnChange(labelController.NamespaceChanged)
	}
	if prover != nil {
		prover.OnChange(labelController.Changed)
	}
	countPods := newCoverage(c, config, pods, ns, loaded, registry, log.With("component", "coverage"))
	stopCanaries := newCanaries(c, config, set, ns, refusals, recorder.Record, mayWrite, registry, log.With("component", "canaries"))
	leaving := newLeaving(metadataClient, c, labelRemover(unlimitedClient, c.Prefix, false), log.With("component", "uninstall"))
	depends := newDependence(c, unlimitedClient, ns, log.With("component", "templates"))
	rules := func(d templates.Document, t *templates.Template) ([]templates.Problem, []templates.Warning) {
		return lint.APIRules(d, t, compile)
	}
	guard := webhook.GuardOptions{Compile: compile, Rules: rules, ExcludedNamespaces: c.Excluded, Templates: set.Snapshot, Namespaces: ns.All, Depending: depends.of, Mirrors: c.mirrorsTemplates(), Namespaced: ofNamespaces.count()}
	previews := webhook.PreviewOptions{Pods: pods, Prefix: c.Prefix}
	c.readsWorkloads(config, ns, &guard, &previews)
	handlers := map[string]http.Handler{
		"/mutate/namespaces":         middleware.Handler(unlessLeaving{webhook.NewNamespace(c.Labels(), enforcing, set.Snapshot), leaving}),
		"/validate-sidecartemplates": middleware.Handler(webhook.NewGuard(guard)),
		"/uninstall":                 middleware.Handler(leaving),
	}
	for _, entry := range c.Registration().Mutating() {
		handlers["/mutate/"+entry.Name] = middleware.Handler(webhook.NewMutate(pods, entry))
	}
	for _, entry := range c.Registration().Verifying() {
		handlers["/verify/"+entry.Name] = middleware.Handler(webhook.NewVerify(pods, entry))
	}
	addPreview(handlers, c, limits, previews, reviews)
	server = webhook.NewServer(webhook.ServerOptions{
		Listen: c.Listen, AdminListen: c.AdminListen, Connections: reviews.Memory.Connections, GetCertificate: source.GetCertificate, Peers: peers, Gatherer: registry,
		State: c.state(registry, log), Webhooks: handlers,
		Checks: append([]webhook.Check{
			{Name: "certificates", Ready: source.Ready},
			{Name: "namespaces", Ready: ns.Ready},
			{Name: "templates", Ready: func() error { return errors.Join(set.Ready(), ofNamespaces.loaded()) }},
			{Name: "version", Ready: kubernetes.Ready},
		}, inUse...),
		Writers: mayWrite, ShutdownDelay: c.ShutdownDelay, ShutdownTimeout: c.ShutdownMax, Logger: log,
	})
	registry.MustRegister(server.Collector())
	watches := []func(context.Context) error{set.Run, kubernetes.Run, source.Run, writeStatus, leaving.until(mirrors), leaving.until(labelController.Run), counter.Run, runUpgradeGate, recorder.Run, garbage.run, countPods, stopCanaries}
	watches = append(watches, ofNamespaces.run(mayWrite)...)
	if c.UninstallMarker != "" {
		watches = append(watches, leaving.Run)
	}
	if prover != nil {
		watches = append(watches, prover.Run)
	}
	return &servedParts{server: server, watchNamespaces: ns.Run, watches: watches, handlers: handlers}, nil
}

// caches returns the states of the caches of the cluster's objects.
func caches(ns *namespaces.Informer, set *store.Templates) follow.Source {
	return func() map[string]follow.State {
		states := map[string]follow.State{"namespaces": ns.State()}
		if state, ok := set.State(); ok {
			states["templates"] = state
		}
		return states
	}
}

// instance returns the name of this replica: a pod's host name is the pod's name.
func instance() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "pillion"
	}
	return name
}

// runAll runs the server together with the watches. The watches run until the server has
// stopped, so that the last review is answered from current data.
func runAll(ctx context.Context, server *webhook.Server, start time.Time, log *slog.Logger, watchNamespaces func(context.Context), watches ...func(context.Context) error) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	group.Go(func() error { watchNamespaces(background); return nil })
	for _, watch := range watches {
		group.Go(func() error { return watch(background) })
	}
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	group.Go(func() error {
		defer stop()
		return server.Run(serving)
	})
	go func() {
		// A watch that fails shuts the server down in order.
		<-background.Done()
		stopServing()
	}()
	go announceReady(serving, server, start, log)
	return group.Wait()
}

// announceReady logs when the server becomes ready. Until then it logs, every ten seconds,
// what is missing.
func announceReady(ctx context.Context, server *webhook.Server, start time.Time, log *slog.Logger) {
	said := start
	for err := server.Ready(); err != nil; err = server.Ready() {
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			log.Warn("not ready yet", "missing", err)
		}
		if !waiting.For(ctx, 50*time.Millisecond) {
			return
		}
	}
	log.Info("ready", "after", time.Since(start).Round(time.Millisecond))
}

// liveSet returns the templates in force, and the writer of the status of the templates of
// the cluster; nil if they are not served.
func liveSet(c serveConfig, compile templates.Options, config *rest.Config, named func(template string) bool, log *slog.Logger) (*store.Templates, *store.StatusWriter, error) {
	options := store.Options{Compile: compile, Named: named, Logger: log.With("component", "templates")}
	if c.proves() { // first, so that the names are nobody else's
		options.Sources = append(options.Sources, store.BuiltIn(proofSource, proof.Manifest(c.Prefix, c.ProofNamespace)))
		if c.KeepRequired {
			options.Sources = append(options.Sources, store.BuiltIn(proofSource, proof.RequiredManifest(c.Prefix, c.ProofNamespace)))
		}
	}
	if len(c.Library) > 0 {
		source, err := store.Library(compile.Values, c.Library...)
		if err != nil {
			return nil, nil, err
		}
		options.Sources = append(options.Sources, source)
	}
	for _, dir := range c.Templates {
		options.Sources = append(options.Sources, store.Directory(dir))
	}
	if !c.ClusterTemplates {
		return store.New(options), nil, nil
	}
	client := dynamic.NewForConfigOrDie(config)
	options.Sources = append(options.Sources, store.Cluster(client, c.Prefix, options.Logger))
	set := store.New(options)
	status := store.NewStatusWriter(client, c.Prefix, options.Logger)
	set.OnVerdicts(func(v []store.Verdict) { status.Observe("templates", v) })
	return set, status, nil
}

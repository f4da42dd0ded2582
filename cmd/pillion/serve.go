package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/webhook"
)

func newServeCommand() *cobra.Command {
	var file, kubeconfig string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the admission webhook",
		Long: `Serve answers the admission reviews of pods. The chart runs it. To run it by
hand, you need a kubeconfig and the permissions that the chart grants.

All settings are in the file of --config, which the chart renders into a
ConfigMap, and other commands read there.

The server is ready (/readyz) when the served certificate verifies against the
caBundle in the webhook configurations, the namespaces have been listed, and
the templates have been listed and compiled. Until then /readyz names what is
missing. A server that cannot reach the API server stays ready.`,
		Example: `  kubectl -n pillion-system get configmap pillion -o jsonpath='{.data.settings\.yaml}' > settings.yaml
  pillion serve --config settings.yaml --kubeconfig ~/.kube/config`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readSettings(file)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, kubeconfig)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "file with the settings (required)")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: the pod's service account)")
	return cmd
}

// readSettings reads the file of settings. Its error names every wrong one.
func readSettings(file string) (settings.Settings, error) {
	if file == "" {
		return settings.Settings{}, usageError{Err: errors.New("--config is required: the file that the chart renders into the ConfigMap of Pillion's settings")}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return settings.Settings{}, usageError{Err: fmt.Errorf("reading the settings: %w", err)}
	}
	s, err := settings.Parse(text)
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return s, usageError{Err: fmt.Errorf("%s: %w", file, err)}
	}
	return s, nil
}

func newLogger(s settings.Server) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // it was validated
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// restConfig returns the connection to the API server, of a kubeconfig or, for "", of the pod's service account.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
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
func serve(ctx context.Context, c settings.Settings, kubeconfig string) error {
	start := time.Now()
	log := newLogger(c.Server)
	klog.SetSlogLogger(log.With("component", "client-go"))
	config, err := restConfig(kubeconfig)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	r, err := assemble(c, config, registry, log)
	if err != nil {
		return err
	}
	limitMemory(c.Server.MemoryBytes())
	log.Info("starting", "version", version, "namespace", c.Server.Namespace, "service", c.Server.Service)
	return r.runAll(ctx, start)
}

// runAll runs the server together with all else. That runs until the server has stopped, so that
// the last review is answered from current data.
func (r *replica) runAll(ctx context.Context, start time.Time) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	group.Go(func() error { r.namespaces.Run(background); return nil })
	for _, run := range r.runs {
		group.Go(func() error { return run(background) })
	}
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	group.Go(func() error {
		defer stop()
		return r.server.Run(serving)
	})
	go func() {
		// What fails shuts the server down in order.
		<-background.Done()
		stopServing()
	}()
	go announceReady(serving, r.server, start, r.log)
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

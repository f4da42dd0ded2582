// Command pillion-webhook is the admission webhook: the server that the chart runs.
//
// In: a file of settings, which the chart renders into a ConfigMap. Out: answers to admission reviews, and
// labels, events, statuses and caBundles in the cluster.
//
// It wires what webhook, controller, certs, injector and lint do. It imports neither inspect nor rollout.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/templates/show"
)

// version is set when the binary is linked.
var version = "development"

// Exit codes: success, wrong usage (exitUsage), any other failure (exitError).
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
)

// usageError marks an error as a wrong use of the command line, or a wrong setting.
type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the server and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetOut(stdout)
	cmd.SetErr(show.Writer(stderr))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "pillion-webhook: %v\n", err)
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitError
}

func newCommand() *cobra.Command {
	var file, kubeconfig string
	cmd := &cobra.Command{
		Use:   "pillion-webhook --config FILE",
		Short: "Run the admission webhook",
		Long: `Pillion-webhook answers the admission reviews of pods. The chart runs it. To run
it by hand, you need a kubeconfig and the permissions that the chart grants.

All settings are in the file of --config, which the chart renders into a
ConfigMap, and the commands of pillion read there.

The server is ready (/readyz) when the served certificate verifies against the
caBundle in the webhook configurations, the namespaces have been listed, and
the templates have been listed and compiled. Until then /readyz names what is
missing. A server that cannot reach the API server stays ready.

Exit code 2 for a wrong flag or setting, 1 for any other failure.`,
		Example: `  kubectl -n pillion-system get configmap pillion -o jsonpath='{.data.settings\.yaml}' > settings.yaml
  pillion-webhook --config settings.yaml --kubeconfig ~/.kube/config`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("pillion-webhook takes no arguments, got %q; its flags are --config and --kubeconfig", args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings(file)
			if err != nil {
				return usageError{err}
			}
			return serve(cmd.Context(), s, kubeconfig)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.Flags().StringVar(&file, "config", "", "file with the settings (required)")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: the pod's service account)")
	return cmd
}

// readSettings reads the file of settings. Its error names every wrong one.
func readSettings(file string) (settings.Settings, error) {
	if file == "" {
		return settings.Settings{}, errors.New("--config is required: the file that the chart renders into the ConfigMap of Pillion's settings")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return settings.Settings{}, fmt.Errorf("reading the settings: %w", err)
	}
	s, err := settings.Parse(text)
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// serve runs a replica until ctx ends.
func serve(ctx context.Context, s settings.Settings, kubeconfig string) error {
	start := time.Now()
	log := newLogger(s.Server)
	klog.SetSlogLogger(log.With("component", "client-go"))
	config, err := restConfig(kubeconfig)
	if err != nil {
		return err
	}
	r, err := newReplica(s, config, prometheus.NewRegistry(), log)
	if err != nil {
		return err
	}
	limitMemory(s.Server.MemoryBytes())
	log.Info("starting", "version", version, "namespace", s.Server.Namespace, "service", s.Server.Service)
	return r.Run(ctx, start)
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

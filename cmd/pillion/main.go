// Command pillion is the command line of Pillion, also as the plugin kubectl-pillion. The server is pillion-webhook.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates/nearest"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// client-go logs cancelled requests. The CLI discards that log; returned errors carry what matters.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// usageError marks an error as a wrong use of the command line.
type usageError = inspect.UsageError

// errRefused is the error of a command that has printed the problem already.
var errRefused = errors.New("refused")

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	name := filepath.Base(args[0])
	if name == kubectlCompletion {
		args = append([]string{args[0], cobra.ShellCompRequestCmd}, args[1:]...)
	}
	// A text of a tenant must not control the terminal of the reader.
	stderr = show.Writer(stderr)
	root := newRootCommand(name)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args[1:])
	refuseUnknownShells(root)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "pillion: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	case errors.Is(err, errRefused):
		return exitError
	default:
		fmt.Fprintf(stderr, "pillion: %v\n", rights.Explain(err))
		return exitError
	}
}

func newRootCommand(name string) *cobra.Command {
	root := groupOf("pillion", "Sidecar injection for Kubernetes", newVersionCommand())
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"teams", "For teams:", []*cobra.Command{newExplainCommand(), newParamsCommand(), newLibraryCommand(), newInjectCommand(), newUninjectCommand()}},
		{"authors", "For authors of templates:", []*cobra.Command{newLintCommand(), newPromoteCommand()}},
		{"admins", "For admins:", []*cobra.Command{newCheckCommand(), newStatusCommand(), newRolloutCommand(), newPolicyCommand(), newUnlabelCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
		}
		root.AddCommand(group.commands...)
	}
	root.Long = `Pillion injects sidecars into Kubernetes pods. The webhook is the program
pillion-webhook, which the chart runs. The commands that read files run the same
functions, without a cluster.`
	root.SilenceErrors, root.SilenceUsage = true, true
	if strings.HasPrefix(name, "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + strings.TrimPrefix(name, "kubectl-")}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.Flags().Lookup("pillion-namespace") != nil && strings.HasPrefix(err.Error(), "unknown shorthand flag: 'n'") {
			err = fmt.Errorf("%w; --pillion-namespace names Pillion's namespace", err)
		}
		return usageError{Err: err}
	})
	root.SetHelpFunc(writeHelp)
	if err := registerCompletions(root); err != nil {
		panic(err) // two completions of one flag
	}
	return root
}

// groupOf returns a command that has commands below it, and does nothing by itself.
func groupOf(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short, Args: subcommands, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	group.AddCommand(commands...)
	return group
}

// noArgs refuses arguments as wrong usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{Err: fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args)}
	}
	return nil
}

// oneArg refuses another number of arguments than one as wrong usage. Takes is the beginning of the message.
func oneArg(takes string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{Err: fmt.Errorf("%s, got %d", takes, len(args))}
		}
		return nil
	}
}

// subcommands refuses an unknown subcommand as wrong usage.
func subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return usageError{Err: fmt.Errorf("unknown command %q%s", args[0], nearest.Hint(args[0], known))}
}

// refuseUnknownShells adds cobra's command completion. By itself it answers an unknown shell
// with its help, which a shell would then take for the script.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args, cmd.RunE = subcommands, root.RunE
		for _, shell := range cmd.Commands() {
			shell.Args = noArgs
		}
	}
}

// kubeconfigOf returns the settings of the file of a place, or of where kubectl looks.
func kubeconfigOf(p inspect.Place) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: p.Context})
}

// clusterConfig returns the connection of commands that a person runs. It looks where
// kubectl does: in the given file, $KUBECONFIG, ~/.kube/config, and the service account of
// the pod.
func clusterConfig(p inspect.Place) (*rest.Config, error) {
	config, err := kubeconfigOf(p).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("finding the cluster: there is no kubeconfig: give --kubeconfig FILE, set KUBECONFIG, or have one in ~/.kube/config, as for kubectl")
	case err != nil:
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config.UserAgent = "pillion/" + version
	return config, nil
}

// Command pillion-fn injects sidecars as a KRM function of kustomize and kpt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/tools/krm"
)

// version is set when the binary is linked.
var version = "development"

// errRefused is the error of a list whose results have the reason.
var errRefused = errors.New("refused")

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run runs the function and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(show.Writer(stderr))
	cmd.SetArgs(args)
	err := cmd.Execute()
	if err != nil && !errors.Is(err, errRefused) {
		fmt.Fprintf(cmd.ErrOrStderr(), "pillion-fn: %v\n", err)
	}
	if err != nil {
		return 1
	}
	return 0
}

func newCommand() *cobra.Command {
	var o manifests.Options
	cmd := &cobra.Command{
		Use:   "pillion-fn",
		Short: "Inject sidecars as a KRM function of kustomize and kpt",
		Long: `Pillion-fn is a function of the KRM Functions Specification. It reads a
ResourceList on standard input, injects into its pods as 'pillion inject' does,
and writes it to standard output. The SidecarTemplates and Namespaces among the
items count as those of --templates and --namespace-file.

The functionConfig is a ConfigMap. Its data has the flags below without their
dashes, and goes before them; 'values' is the YAML itself there, and no file.
Files are relative to the folder of the kustomization.

Warnings, refusals and other errors are results of the list, and go to standard
error as well. If a pod is refused, or with another error, no item changes, and
the exit code is 1.`,
		Example: `  kustomize build --enable-alpha-plugins --enable-exec examples
  kpt fn eval manifests --exec pillion-fn -- library=fluent-bit namespace=shop`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := manifests.ReadFile(cmd.InOrStdin(), "-")
			if err != nil {
				return err
			}
			list, err := krm.Read(data)
			if err != nil {
				return err
			}
			notes, err := inject(cmd.Context(), &o, cmd.Flags(), list)
			for _, n := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			results := resultsOf(notes)
			if err != nil && !errors.Is(err, errRefused) {
				results = append(results, krm.Result{Message: err.Error(), Severity: krm.Error})
			}
			return errors.Join(list.Write(cmd.OutOrStdout(), results), err)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// inject injects into the items of a list, and returns the notes about them. With an error, no
// item changes.
func inject(ctx context.Context, o *manifests.Options, flags *pflag.FlagSet, list *krm.ResourceList) ([]manifests.Note, error) {
	if err := configure(o, flags, list.Config); err != nil {
		return nil, err
	}
	documents := make([]workload.Document, len(list.Items))
	for i, item := range list.Items {
		documents[i] = workload.Document{Number: i + 1, Object: item}
		o.Objects = append(o.Objects, workload.Items(item)...)
	}
	// Standard input has the list, so a file named "-" is empty.
	session, err := o.Session(eof{}, "FILE", documents)
	if err != nil {
		return nil, err
	}
	session.File = ""
	report, err := session.Inject(ctx)
	if err == nil && report.IsRefused {
		err = errRefused
	}
	if err == nil {
		for i, r := range report.Results {
			list.Items[i] = r.After
		}
	}
	return report.Notes, err
}

// resultsOf returns the notes as results of the list.
func resultsOf(notes []manifests.Note) []krm.Result {
	severities := map[manifests.Severity]krm.Severity{manifests.Refusal: krm.Error, manifests.Warning: krm.Warning, manifests.Remark: krm.Info}
	var results []krm.Result
	for _, n := range notes {
		results = append(results, krm.Result{Message: n.Text, Severity: severities[n.Severity], Object: n.Object})
	}
	return results
}

// eof is an empty input.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

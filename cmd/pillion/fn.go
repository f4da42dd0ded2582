package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/offline/krm"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates/nearest"
)

func newFnCommand() *cobra.Command {
	var o offline
	cmd := &cobra.Command{
		Use:   "fn",
		Short: "Inject sidecars as a KRM function of kustomize and kpt",
		Long: `Fn is a function of the KRM Functions Specification. It reads a ResourceList on
standard input, injects into its pods as 'pillion inject' does, and writes it to
standard output. The SidecarTemplates and Namespaces among the items count as
those of --templates and --namespace-file.

The functionConfig is a ConfigMap. Its data has the flags below without their
dashes, and goes before them; 'values' is the YAML itself there, and no file.
Files are relative to the folder of the kustomization.

Warnings, refusals and other errors are results of the list, and go to standard
error as well. If a pod is refused, or with another error, no item changes, and
the exit code is 1.`,
		Example: `  kustomize build --enable-alpha-plugins --enable-exec examples
  kpt fn eval manifests --exec "pillion fn" -- library=fluent-bit namespace=shop`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := readFile(cmd, "-")
			if err != nil {
				return err
			}
			list, err := krm.Read(data)
			if err != nil {
				return err
			}
			told, err := o.function(cmd, list)
			if err != nil && !errors.Is(err, errRefused) {
				told = append(told, krm.Result{Message: err.Error(), Severity: krm.Error})
			}
			return errors.Join(list.Write(cmd.OutOrStdout(), told), err)
		},
	}
	o.settingFlags(cmd)
	return cmd
}

// configure sets the flags that a functionConfig has.
func (o *offline) configure(flags *pflag.FlagSet, config map[string]any) error {
	if config == nil {
		return nil
	}
	if config["apiVersion"] != "v1" || config["kind"] != "ConfigMap" {
		return fmt.Errorf("reading functionConfig: must be a ConfigMap of apiVersion v1, whose data has the flags of pillion fn; got apiVersion %v and kind %v", config["apiVersion"], config["kind"])
	}
	fields := []string{"apiVersion", "kind", "metadata", "data"}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("reading functionConfig: it has the unknown field %q%s; the flags of pillion fn are in data", name, nearest.Hint(name, fields))
		}
	}
	data, ok := config["data"].(map[string]any)
	if !ok && config["data"] != nil {
		return errors.New("reading functionConfig: data must be an object with the flags of pillion fn")
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			known = append(known, f.Name)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(data)) {
		text, ok := data[name].(string)
		if !ok {
			return fmt.Errorf("reading functionConfig: data[%q] must be text: put it in quotes", name)
		}
		if name == "values" {
			o.valuesText = text
			continue
		}
		if !slices.Contains(known, name) {
			return fmt.Errorf("reading functionConfig: data has the unknown key %q%s", name, nearest.Hint(name, known))
		}
		if err := flags.Set(name, text); err != nil {
			return fmt.Errorf("reading functionConfig: data[%q]: %w", name, err)
		}
	}
	return nil
}

// function injects into the items of a list, and returns what was told of them. With an error, no
// item changes.
func (o *offline) function(cmd *cobra.Command, list *krm.ResourceList) ([]krm.Result, error) {
	if err := o.configure(cmd.Flags(), list.Config); err != nil {
		return nil, err
	}
	o.file = "FILE"
	documents := make([]workload.Document, len(list.Items))
	for i, item := range list.Items {
		documents[i] = workload.Document{Number: i + 1, Object: item}
		o.beside = append(o.beside, itemsOf(item)...)
	}
	s, err := o.openFiles(cmd, documents)
	if err != nil {
		return nil, err
	}
	s.file = ""
	results, err := s.inject(cmd)
	for i, r := range results {
		list.Items[i] = r.after
	}
	severities := map[severity]krm.Severity{refusal: krm.Error, warning: krm.Warning, remark: krm.Info}
	var told []krm.Result
	for _, n := range s.notes {
		told = append(told, krm.Result{Message: n.text, Severity: severities[n.severity], Object: n.holder})
	}
	return told, err
}

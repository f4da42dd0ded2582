package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
)

// paramsCommand has the flags of the command.
type paramsCommand struct {
	source source
	output string
}

// paramsReport is what -o json prints.
type paramsReport struct {
	Template string `json:"template"`
	Hash     string `json:"hash"`
	// Namespace is the one whose values are shown.
	Namespace  string            `json:"namespace,omitempty"`
	Parameters []explain.Setting `json:"parameters"`
}

func newParamsCommand() *cobra.Command {
	var c paramsCommand
	cmd := &cobra.Command{
		Use:   "params TEMPLATE [PARAMETER…]",
		Short: "Show the parameters of a template and their annotations",
		Long: `Params lists the parameters of a template, or only those that you name: the
annotation that sets each, the default and what is allowed. Without --cluster it
reads files: the library and --templates.

With --cluster the template is the one in force there. With -n as well, params
adds the value that a plain pod of the namespace gets, and the level that it
comes from: Default or Namespace.`,
		Example: `  pillion params fluent-bit
  pillion params fluent-bit log-level
  pillion params fluent-bit --cluster -n shop
  pillion params fluent-bit -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{Err: errors.New("params takes the name of a template, and optionally names of parameters")}
			}
			return nil
		},
		RunE:              c.run,
		ValidArgsFunction: first(completeTemplates),
	}
	c.source.AddTemplateFlags(cmd.Flags())
	c.source.clusterFlag(cmd)
	cmd.Flags().StringVarP(&c.source.Namespace, "namespace", "n", "", "with --cluster: show the values that pods of this namespace get")
	textOrJSON(cmd.Flags(), &c.output)
	return cmd
}

func (c *paramsCommand) run(cmd *cobra.Command, args []string) error {
	if c.source.Namespace != "" && !c.source.inCluster {
		return usageError{Err: errors.New("-n shows the values that a namespace of a cluster gives: add --cluster")}
	}
	set, live, err := c.source.inForce(cmd)
	if err != nil {
		return err
	}
	if set == nil {
		return errRefused
	}
	return c.of(cmd.Context(), cmd.OutOrStdout(), set, live, args)
}

// of writes the parameters of a template of a set. Live is the cluster of the set, nil for files.
func (c *paramsCommand) of(ctx context.Context, w io.Writer, set *templates.Set, live *inspect.Live, args []string) error {
	if c.source.Namespace != "" {
		set = set.In(c.source.Namespace)
	}
	t, err := oneTemplate(set, args[0])
	if err != nil {
		return err
	}
	var given map[string]explain.Parameter
	if live != nil {
		if given, err = live.Params(ctx, args[0], c.source.Namespace); err != nil {
			return err
		}
	}
	return c.write(w, t, args[1:], given)
}

// oneTemplate returns the template of that name. A canary's is the version that its pods get, under
// the stable template's name.
func oneTemplate(set *templates.Set, name string) (*templates.Template, error) {
	if c, ok := set.Canary(name); ok {
		return c.Version, c.Unusable
	}
	entry, ok := set.Get(name)
	if !ok {
		return nil, fmt.Errorf("there is no template %q; the templates are: %s", name, inspect.TemplateNames(set))
	}
	return entry.Template, entry.Err
}

// parametersOf returns the parameters of a template, or those that are chosen by their names or
// annotations.
func parametersOf(t *templates.Template, chosen []string) ([]templates.Parameter, error) {
	all := t.Parameters()
	if len(chosen) == 0 {
		return all, nil
	}
	var some []templates.Parameter
	for _, name := range chosen {
		i := slices.IndexFunc(all, func(p templates.Parameter) bool {
			return name == parameterName(p) || name == p.Name || name == p.Annotation || name == p.SecondAnnotation
		})
		if i < 0 {
			names := make([]string, len(all))
			for i, p := range all {
				names[i] = parameterName(p)
			}
			return nil, fmt.Errorf("the template %s has no parameter %q%s (all of them: pillion params %s)", t.Name(), name, nearest.Hint(name, names), t.Name())
		}
		some = append(some, all[i])
	}
	return some, nil
}

// parameterName is a parameter's name in its annotation.
func parameterName(p templates.Parameter) string {
	return p.Annotation[strings.LastIndex(p.Annotation, "/")+1:]
}

// write writes the chosen parameters, all if none is. Given are the values of a namespace's pods,
// nil without one.
func (c *paramsCommand) write(to io.Writer, t *templates.Template, chosen []string, given map[string]explain.Parameter) error {
	all, err := parametersOf(t, chosen)
	if err != nil {
		return err
	}
	settings := []explain.Setting{}
	for _, p := range all {
		settings = append(settings, explain.Setting{Parameter: p.Parameter, Annotation: p.Annotation, SecondAnnotation: p.SecondAnnotation, Allowed: p.Allowed, Value: given[p.Name].Value, From: given[p.Name].From})
	}
	if c.output == "json" {
		return show.JSON(to, paramsReport{Template: t.Name(), Hash: t.Hash(), Namespace: c.source.Namespace, Parameters: settings})
	}
	return explain.Settings(to, styleFor(to, "auto"), settings)
}

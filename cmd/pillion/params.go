package main

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// plainJSON formats a JSON value as an annotation holds it.
func plainJSON(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// levels joins the names of the levels at which a parameter may be set.
func levels[T ~string](setBy []T) string {
	names := make([]string, len(setBy))
	for i, s := range setBy {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// paramsCommand has the flags of the command.
type paramsCommand struct {
	given  offline
	where  inspect.Place
	output string
}

// paramsReport is what -o json prints.
type paramsReport struct {
	Template string `json:"template"`
	Hash     string `json:"hash"`
	// Namespace is the one whose values are shown.
	Namespace  string            `json:"namespace,omitempty"`
	Parameters []parameterReport `json:"parameters"`
}

// parameterReport is one parameter as the template declares it, with the value that a plain pod of
// the namespace gets and its level.
type parameterReport struct {
	v1alpha1.Parameter
	Annotation string `json:"annotation"`
	Allowed    string `json:"allowed"`
	Value      any    `json:"value,omitempty"`
	From       string `json:"from,omitempty"`
}

func newParamsCommand() *cobra.Command {
	var c paramsCommand
	cmd := &cobra.Command{
		Use:   "params TEMPLATE [PARAMETER…]",
		Short: "Show the parameters of a template and their annotations",
		Long: `Params lists the parameters of a template, or only those that you name: the annotation
that sets each, the default and what is allowed. Without --cluster it reads files: the
library and --templates.

With --cluster the template, and the defaults of the installer's values, are those in
force there. With -n as well, params adds the value that a plain pod of the namespace
gets, and the level that it comes from: Default, Installer or Namespace.`,
		Example: `  pillion params fluent-bit
  pillion params fluent-bit log-level
  pillion params fluent-bit --cluster -n shop
  pillion params fluent-bit -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("params takes the name of a template, and optionally names of parameters")}
			}
			return nil
		},
		RunE: c.run,
	}
	c.given.templateFlags(cmd)
	c.given.kubeVersionFlag(cmd)
	c.given.clusterFlag(cmd, &c.where)
	cmd.Flags().StringVarP(&c.given.namespace, "namespace", "n", "", "with --cluster: show the values that pods of this namespace get")
	textOrJSON(cmd.Flags(), &c.output)
	return cmd
}

func (c *paramsCommand) run(cmd *cobra.Command, args []string) error {
	if c.given.namespace != "" && !c.given.inCluster {
		return usageError{errors.New("-n shows the values that a namespace of a cluster gives: add --cluster")}
	}
	set, live, err := c.given.inForce(cmd)
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
	if c.given.namespace != "" {
		set = set.In(c.given.namespace)
	}
	t, err := oneTemplate(set, args[0])
	if err != nil {
		return err
	}
	var given map[string]explain.Parameter
	if live != nil {
		if given, err = live.Params(ctx, args[0], c.given.namespace); err != nil {
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
			return name == parameterName(p) || name == p.Name || name == p.Annotation
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
	if c.output == "json" {
		report := paramsReport{Template: t.Name(), Hash: t.Hash(), Namespace: c.given.namespace, Parameters: []parameterReport{}}
		for _, p := range all {
			report.Parameters = append(report.Parameters, parameterReport{p.Parameter, p.Annotation, p.Allowed, given[p.Name].Value, given[p.Name].From})
		}
		return show.JSON(to, report)
	}
	var settings []explain.Setting
	for _, p := range all {
		s := explain.Setting{Annotation: p.Annotation, Type: string(p.Type), Default: "-", Allowed: p.Allowed, SetBy: cmp.Or(levels(p.SetBy), "the installer only"), Description: p.Description}
		switch {
		case len(p.Default) > 0:
			s.Default = plainJSON(p.Default)
		case p.Required:
			s.Default = "(required)"
		}
		if g, ok := given[p.Name]; ok {
			s.Value, s.From = explain.Value(g.Value), g.From
		}
		settings = append(settings, s)
	}
	return explain.Settings(to, styleFor(to, "auto"), settings)
}

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
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

func newParamsCommand() *cobra.Command {
	var o offline
	cmd := &cobra.Command{
		Use:     "params TEMPLATE",
		Short:   "Show the parameters of a template and their annotations",
		Example: `  pillion params fluent-bit`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("params takes one template name, got %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := o.set(cmd)
			if err != nil {
				return err
			}
			entry, ok := set.Get(args[0])
			if !ok {
				var names []string
				for _, e := range set.All() {
					names = append(names, e.Name)
				}
				return fmt.Errorf("there is no template %q; the templates are: %v", args[0], names)
			}
			if entry.Template == nil {
				return entry.Err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ANNOTATION\tTYPE\tDEFAULT\tALLOWED\tSET BY\tDESCRIPTION")
			for _, p := range entry.Template.Parameters() {
				def := "-"
				switch {
				case len(p.Default) > 0:
					def = plainJSON(p.Default)
				case p.Required:
					def = "(required)"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Annotation, p.Type, def, p.Allowed, levels(p.SetBy), p.Description)
			}
			return w.Flush()
		},
	}
	o.templateFlags(cmd)
	o.kubeVersionFlag(cmd)
	return cmd
}

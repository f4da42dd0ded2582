package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/standing"
	"github.com/pillion-dev/pillion/offline/workload"
)

func newExplainCommand() *cobra.Command {
	var o offline
	var output string
	cmd := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Say why a pod gets its sidecars, or does not",
		Long: `Explain shows for each pod of a file every rule of the decision, its input and its
result, and the outcome for each template. Give the pod's namespace with
--namespace-file: its annotations count.

For a pod that exists already, explain compares its record with the templates that it
would get if it were created now: injected already, outdated (with both hashes), or
missing.

It also says what refuses the pod after its injection: the API's rules, the namespace's
Pod Security level, and its LimitRanges and ResourceQuotas, if --namespace-file has them.`,
		Example: `  kubectl get ns shop -o yaml >ns.yaml
  kubectl -n shop get pod web -o yaml | pillion explain -f - --namespace-file ns.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("output %q; allowed are text, json", output)}
			}
			s, err := o.open(cmd)
			if err != nil {
				return err
			}
			pods, explained := 0, []explainedPod{}
			for _, d := range s.documents {
				_, n, err := changePods(s.file, d, func(p workload.Pod) (map[string]any, error) {
					out, err := s.outcome(cmd.Context(), p, true)
					if err != nil {
						return nil, err
					}
					ns, known := s.namespaces.of(p.Namespace)
					key := o.prefix + "/status"
					rec, _ := record.Parse(p.Object, key) // the run has warned of a record that cannot be read
					e := explanation{pod: p, namespace: ns.Name, known: known, out: out, standings: standings(p.Object, rec, out.Outcome, s.set), statusKey: key}
					if output == "json" {
						explained = append(explained, e.object())
						return p.Object, nil
					}
					return p.Object, e.write(cmd.OutOrStdout())
				})
				if err != nil {
					return err
				}
				pods += n
			}
			s.warnOfTheRest(cmd.ErrOrStderr())
			if pods == 0 {
				return fmt.Errorf("reading %s: there is neither a pod nor a workload in it", o.file)
			}
			if output == "json" {
				return writeExplained(cmd.OutOrStdout(), explained)
			}
			return nil
		},
	}
	o.podFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// explanation has the facts that explain writes about one pod.
type explanation struct {
	pod       workload.Pod
	namespace string
	// known reports whether --namespace-file has the namespace.
	known bool
	out   foretold
	// standings compare an existing pod with a new one. A new pod has none.
	standings []standing.Template
	statusKey string
}

func (e explanation) write(w io.Writer) error {
	fmt.Fprintf(w, "%s in namespace %s: %s\n", e.pod.Owner, e.namespace, e.verdict())
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "  RULE\tINPUT\tRESULT")
	steps, others := e.steps()
	for _, s := range steps {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Rule, cell(s.Input), cell(s.Result))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(others) > 0 {
		fmt.Fprintf(w, "  nothing asks for %s (%s)\n", strings.Join(others, ", "), reason.NotRequested)
	}
	now := ""
	if len(e.standings) > 0 {
		now = ", created now"
		if err := writeStandings(w, e.standings); err != nil {
			return err
		}
	}
	for _, t := range e.out.Templates {
		if len(t.Params) == 0 {
			continue
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(t.Params)) {
			list = append(list, fmt.Sprintf("%s=%s (%s)", name, shown(t.Params[name]), t.Origins[name]))
		}
		fmt.Fprintf(w, "  parameters of %s%s: %s\n", t.Name, now, strings.Join(list, ", "))
	}
	for _, warning := range e.out.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", warning)
	}
	if !e.out.Allowed {
		fmt.Fprintf(w, "  refused: %s\n", e.out.Message)
	}
	for _, t := range e.out.troubles {
		fmt.Fprintf(w, "  %s: %s\n", troubleWord(t), t)
	}
	for _, note := range e.notes() {
		fmt.Fprintf(w, "  note: %s\n", note)
	}
	return nil
}

// verdict says whether a new pod is injected, or how an existing pod compares with a new
// one. It ends in the reason code for a pod that is created now.
func (e explanation) verdict() string {
	changes := len(e.out.Operations) > 0
	lag := behind(e.standings, changes)
	switch {
	case !e.out.Allowed:
		return fmt.Sprintf("refused (%s)", e.out.Code)
	case e.out.refused():
		return fmt.Sprintf("injected (%s), and then refused by the cluster", e.out.Code)
	case lag != "" && !slices.ContainsFunc(e.standings, func(t standing.Template) bool { return t.Has != "" }):
		return fmt.Sprintf("not injected; %s; created now: %s", lag, e.out.Code)
	case lag != "":
		return fmt.Sprintf("injected, and %s; created now: %s", lag, e.out.Code)
	case changes:
		return fmt.Sprintf("injected (%s)", e.out.Code)
	case e.out.Code == reason.Injected:
		return fmt.Sprintf("injected already, nothing to change (%s)", e.out.Code)
	}
	return fmt.Sprintf("admitted as it is (%s)", e.out.Code)
}

// cell shortens a text for one cell of the table. The whole text is in a warning or the
// refusal.
func cell(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if runes := []rune(text); len(runes) > maxCell {
		return string(runes[:maxCell-1]) + "…"
	}
	return text
}

// maxCell is the width of the widest cell, in characters.
const maxCell = 120

// steps returns the rules, and the templates that nothing asks for.
func (e explanation) steps() (steps []policy.Step, others []string) {
	for _, t := range e.out.Templates {
		if t.Code == reason.NotRequested {
			others = append(others, t.Name)
		}
	}
	for _, s := range e.out.Steps {
		if s.Template != "" && slices.Contains(others, s.Template) {
			continue
		}
		if s.Level == policy.Namespace && !e.known {
			s.Input = "not known: no --namespace-file has it"
		}
		steps = append(steps, s)
	}
	return steps, others
}

// notes returns sentences about facts that the files do not have.
func (e explanation) notes() []string {
	var notes []string
	if !e.known {
		notes = append(notes, fmt.Sprintf("no --namespace-file has the namespace %s: it counts as one without annotations, and with no label but its name", e.namespace))
	}
	lost := standing.Named(e.standings, standing.Dropped)
	if len(lost) > 0 {
		notes = append(notes, fmt.Sprintf("%s was injected before (%s), and would not be injected with these files: check the namespace and --templates", strings.Join(lost, ", "), e.statusKey))
	}
	return notes
}

// shown returns a parameter's value as an annotation or JSON has it.
func shown(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}

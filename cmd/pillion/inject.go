package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

func newInjectCommand() *cobra.Command {
	var o offline
	var output string
	cmd := &cobra.Command{
		Use:   "inject -f FILE",
		Short: "Inject sidecars into the pods of a file",
		Long: `Inject does to the pods of a file what the webhook does to them in a cluster,
with the same functions. It takes YAML or JSON with several documents: pods,
anything with a pod template, and lists; the rest passes through. Nothing is
printed on standard output unless every pod could be injected.

With --cluster, templates and values are the server's there, and
namespaces with their annotations are read live, with your own rights. Nothing
in the cluster changes.`,
		Example: `  pillion inject -f deployment.yaml --namespace-file namespace.yaml
  kubectl get pod web -o yaml | pillion inject -f - -o diff
  pillion inject --cluster -n shop -f deployment.yaml -o diff`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.open(cmd)
			if err != nil {
				return err
			}
			if err := s.whole(cmd.ErrOrStderr()); err != nil {
				return err
			}
			results, err := s.inject(cmd)
			if err != nil {
				return err
			}
			return writers[output].all(cmd.OutOrStdout(), results)
		},
	}
	o.podFlags(cmd)
	o.clusterFlag(cmd)
	outputFlag(cmd.Flags(), &output, "yaml", "yaml, json, patch (the JSON patch of each pod) or diff", "yaml", "json", "patch", "diff")
	return cmd
}

// whole returns an error where something that decides about the pods could not be read in the
// cluster, and writes what else could not: a manifest that lacks a sidecar must not look like
// one that needs none.
func (s *session) whole(w io.Writer) error {
	if s.Live == nil {
		return nil
	}
	unread, notes := s.Namespaces.ReadFailures()
	for _, note := range slices.Concat(s.Live.Notes, notes) {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if unread || !s.Live.AllExact {
		return errors.New("you lack the rights to read the settings and templates; let the API server inject pods instead: kubectl apply --dry-run=server -f FILE -o yaml")
	}
	return nil
}

// result is one document after injection.
type result struct {
	before  workload.Document
	after   map[string]any
	pods    int
	patches []patch.Operation
	changed bool
}

// note is a sentence about a pod, or about all of them.
type note struct {
	severity severity
	// holder is the object with the pod. It is nil for a note about all of them.
	holder map[string]any
	about  string
	text   string
}

// severity is how a note begins.
type severity string

const (
	refusal severity = "refused"
	warning severity = "warning"
	remark  severity = "note"
)

func (n note) String() string {
	if n.holder == nil {
		return fmt.Sprintf("%s: %s", n.severity, n.text)
	}
	return fmt.Sprintf("%s: %s: %s", n.severity, n.about, n.text)
}

// inject injects into every pod. All warnings and refusals go to standard error, and are the
// notes of the session.
func (s *session) inject(cmd *cobra.Command) ([]result, error) {
	var results []result
	var refused, asked bool
	var quiet *workload.Pod // the first one, if nothing asks
	for _, d := range s.documents {
		r := result{before: d}
		var err error
		r.after, r.pods, err = changePods(s.file, d, func(p workload.Pod) (map[string]any, error) {
			out, err := s.Outcome(cmd.Context(), p)
			if err != nil {
				return nil, err
			}
			s.tell(cmd, notesOf(p, out)...)
			refused, asked = refused || !out.Allowed, asked || out.Code != reason.NotRequested
			if quiet == nil {
				quiet = &p
			}
			if len(out.PodTemplateOperations) == 0 {
				return p.Object, nil
			}
			r.patches = append(r.patches, out.PodTemplateOperations...)
			r.changed = true
			return out.PodTemplate, nil
		})
		if err != nil && s.file != "" {
			return nil, err
		}
		if err != nil {
			s.tell(cmd, note{severity: refusal, holder: d.Object, about: fmt.Sprintf("items[%d]", d.Number-1), text: err.Error()})
			refused = true
		}
		results = append(results, r)
	}
	for _, mistake := range s.UnreportedMistakes() {
		s.tell(cmd, note{severity: warning, text: mistake.Error()})
	}
	if quiet != nil && !asked {
		s.tell(cmd, note{severity: remark, text: s.silence(*quiet)})
	}
	if refused {
		return nil, errRefused
	}
	return results, nil
}

// silence says why nothing is injected where nothing asks, by the first pod.
func (s *session) silence(p workload.Pod) string {
	ns, known := s.Namespaces.Find(p.Namespace)
	why := fmt.Sprintf("neither the pods nor namespace %s ask for a template, and none selects them", ns.Name)
	if !known {
		why = fmt.Sprintf("the pods do not ask for a template, and the annotations of namespace %s are not known: --namespace-file FILE or --cluster gives them", ns.Name)
	}
	return fmt.Sprintf("nothing is injected: %s. To ask for a template, set the annotation %s: TEMPLATE", why, v1alpha1.InjectKey)
}

// tell writes notes to standard error, and keeps them.
func (s *session) tell(cmd *cobra.Command, notes ...note) {
	for _, n := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	s.notes = append(s.notes, notes...)
}

// notesOf are the notes about a pod.
func notesOf(p workload.Pod, out injector.Outcome) []note {
	var notes []note
	add := func(s severity, text string) {
		notes = append(notes, note{severity: s, holder: p.Holder(), about: p.Owner, text: text})
	}
	for _, text := range out.Warnings {
		add(warning, text)
	}
	if !out.Allowed {
		add(refusal, out.Message)
	}
	return notes
}

// writer writes documents in one of the formats of -o.
type writer func(io.Writer, []result) error

// all writes the documents to out, or nothing if one of them cannot be written.
func (write writer) all(out io.Writer, results []result) error {
	var text bytes.Buffer
	if err := write(&text, results); err != nil {
		return err
	}
	_, err := out.Write(text.Bytes())
	return err
}

var writers = map[string]writer{
	"yaml": writeYAML, "json": writeJSON, "patch": writePatch, "diff": writeDiff,
}

func writeYAML(w io.Writer, results []result) error {
	for i, r := range results {
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if !r.changed {
			fmt.Fprintln(w, string(bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(r.before.Raw), []byte("---")))))
			continue
		}
		text, err := workload.YAML(r.after)
		if err != nil {
			return err
		}
		fmt.Fprint(w, text)
	}
	return nil
}

func writeJSON(w io.Writer, results []result) error {
	var out any
	if len(results) == 1 {
		out = results[0].after
	} else {
		items := make([]any, len(results))
		for i, r := range results {
			items[i] = r.after
		}
		out = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	return show.JSON(w, out)
}

func writePatch(w io.Writer, results []result) error {
	for _, r := range results {
		if r.pods > 1 {
			return usageError{Err: errors.New("-o patch cannot tell the pods of a List apart; give them as documents of their own")}
		}
		if r.pods == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\n", patch.Marshal(r.patches))
	}
	return nil
}

// writeDiff writes a unified diff of each object that changes. Its header names the object,
// as those of git and kubectl name a file.
func writeDiff(w io.Writer, results []result) error {
	for _, r := range results {
		if !r.changed {
			continue
		}
		before, after := itemsOf(r.before.Object), itemsOf(r.after)
		for i := range before {
			if err := writeObjectDiff(w, before[i], after[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeObjectDiff(w io.Writer, before, after map[string]any) error {
	a, err := workload.YAML(before)
	if err != nil {
		return err
	}
	b, err := workload.YAML(after)
	if err != nil || a == b {
		return err
	}
	name := show.Printable(workload.NameOf(before))
	fmt.Fprintf(w, "diff -u before/%s after/%s\n", name, name)
	return difflib.WriteUnifiedDiff(w, difflib.UnifiedDiff{
		A: difflib.SplitLines(a), B: difflib.SplitLines(b), FromFile: "before/" + name, ToFile: "after/" + name, Context: 3,
	})
}

// itemsOf returns the items of a list, and of lists in it, or the object itself. An item that is no
// object is nil.
func itemsOf(object map[string]any) []map[string]any {
	items, ok := object["items"].([]any)
	if kind, _ := object["kind"].(string); !ok || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}
	}
	var all []map[string]any
	for _, item := range items {
		object, _ := item.(map[string]any)
		all = append(all, itemsOf(object)...)
	}
	return all
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// writeReport writes the notes of a report to standard error. If there is no error and no pod is refused, it writes
// the documents to standard output.
func writeReport(cmd *cobra.Command, report manifests.Report, err error, write writer) error {
	for _, n := range report.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	switch {
	case err != nil:
		return err
	case report.IsRefused:
		return errRefused
	}
	return write.all(cmd.OutOrStdout(), report.Results)
}

// writer writes documents in one of the formats of -o.
type writer func(io.Writer, []manifests.Result) error

// all writes the documents to out, or nothing if one of them cannot be written.
func (write writer) all(out io.Writer, results []manifests.Result) error {
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

func writeYAML(w io.Writer, results []manifests.Result) error {
	for i, r := range results {
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if !r.IsChanged {
			fmt.Fprintln(w, string(bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(r.Before.Raw), []byte("---")))))
			continue
		}
		text, err := workload.YAML(r.After)
		if err != nil {
			return err
		}
		fmt.Fprint(w, text)
	}
	return nil
}

func writeJSON(w io.Writer, results []manifests.Result) error {
	var out any
	if len(results) == 1 {
		out = results[0].After
	} else {
		items := make([]any, len(results))
		for i, r := range results {
			items[i] = r.After
		}
		out = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	return show.JSON(w, out)
}

func writePatch(w io.Writer, results []manifests.Result) error {
	for _, r := range results {
		if r.Pods > 1 {
			return usageError{Err: errors.New("-o patch cannot tell the pods of a List apart; give them as documents of their own")}
		}
		if r.Pods == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\n", patch.Marshal(r.Patches))
	}
	return nil
}

// writeDiff writes a unified diff of each object that changes. Its header names the object,
// as those of git and kubectl name a file.
func writeDiff(w io.Writer, results []manifests.Result) error {
	for _, r := range results {
		if !r.IsChanged {
			continue
		}
		before, after := workload.Items(r.Before.Object), workload.Items(r.After)
		for i := range before {
			if err := writeObjectDiff(w, before[i], after[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeShortDiff is [writeDiff] without the record of the injection.
func writeShortDiff(w io.Writer, results []manifests.Result) error {
	short := slices.Clone(results)
	for i := range short {
		for _, object := range []*map[string]any{&short[i].Before.Object, &short[i].After} {
			stripped, _, err := workload.Change(*object, func(p workload.Pod) (map[string]any, error) { return withoutRecord(p.Object), nil })
			if err != nil {
				return err
			}
			*object = stripped
		}
	}
	return writeDiff(w, short)
}

// withoutRecord returns a copy of a pod without the annotation of the record.
func withoutRecord(pod map[string]any) map[string]any {
	pod = runtime.DeepCopyJSON(pod)
	unstructured.RemoveNestedField(pod, "metadata", "annotations", v1alpha1.StatusKey)
	if annotations, there, _ := unstructured.NestedMap(pod, "metadata", "annotations"); there && len(annotations) == 0 {
		unstructured.RemoveNestedField(pod, "metadata", "annotations")
	}
	return pod
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

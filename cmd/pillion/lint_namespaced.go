package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// lint checks the templates of files beside those that the namespaces of the cluster have of their own:
// of one namespace, or of all where it is empty. Without files it checks the latter. With files it
// says of them only which the files put out of force.
func (u *templateUsers) lint(ctx context.Context, files []lint.Document, o lint.Options, namespace string) ([]lint.Result, error) {
	own, err := u.ownDocuments(ctx, namespace)
	if err != nil && (len(files) == 0 || !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)) {
		return nil, err
	}
	if len(files) == 0 {
		o.Compile.Prefix, o.Compile.ForeignSidecars = u.Compile.Prefix, u.Compile.ForeignSidecars
	}
	u.fallback = cmp.Or(namespace, "default")
	o.Namespace = u.fallback
	o.Cluster = func(name string) string {
		if e, ok := u.Templates.Find(name); ok {
			return cmp.Or(e.Source, name)
		}
		return ""
	}
	all := u.inPlace(files, own, o)
	documents := make([]lint.Document, len(all))
	for i, d := range all {
		documents[i] = d.Document
	}
	ofFiles := make([]lint.Result, len(files))
	var ofCluster []lint.Result
	for i, r := range lint.Run(documents, o) {
		if r.Scope.Namespaced && slices.Contains(u.Excluded, r.Scope.Namespace) {
			r.Cluster(lint.Warning, fmt.Sprintf("namespace %s is excluded (excludedNamespaces, or Pillion's own), so no pod there is injected", r.Scope.Namespace))
		}
		switch d := all[i]; {
		case d.file >= 0:
			ofFiles[d.file] = r
		case len(files) == 0:
			ofCluster = append(ofCluster, withoutLines(r))
		case d.counts:
			r.Findings = slices.DeleteFunc(r.Findings, func(f lint.Finding) bool { return f.Rule != "name-taken" && f.Rule != "namespace-room" })
			if len(r.Findings) > 0 {
				ofCluster = append(ofCluster, withoutLines(r))
			}
		}
	}
	if err != nil {
		u.withoutOwn(ofFiles, err)
	}
	return append(ofFiles, ofCluster...), nil
}

// ownDocument is a document of a file, or an object of the cluster.
type ownDocument struct {
	lint.Document
	// file is the place among the files' documents, -1 for an object.
	file int
	// name is NAMESPACE/NAME of an object. counts: its status does not say that it is out of force.
	name   string
	counts bool
}

// ownDocuments reads the templates that namespaces have of their own, in the order in which they
// count.
func (u *templateUsers) ownDocuments(ctx context.Context, namespace string) ([]ownDocument, error) {
	objects, err := u.OwnObjects(ctx, u.Prefix, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the API has no NamespacedSidecarTemplates of the group %s: Pillion is not installed with their CRD: %w", u.Prefix, err)
	case err != nil:
		return nil, err
	}
	var all []ownDocument
	for _, namespace := range slices.Sorted(maps.Keys(objects)) {
		store.OldestFirst(objects[namespace])
		for _, object := range objects[namespace] {
			d, err := ownDocumentOf(object)
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
	}
	return all, nil
}

func ownDocumentOf(object unstructured.Unstructured) (ownDocument, error) {
	namespace, name := object.GetNamespace(), object.GetName()
	source := templates.SourceIn(namespace, name)
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.NamespacedKind,
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": object.Object["spec"],
	})
	if err != nil {
		return ownDocument{}, fmt.Errorf("writing %s as JSON: %w", source, err)
	}
	d := ownDocument{Document: lint.Document{Source: source, Document: templates.Document{Manifest: manifest, Line: 1}}, file: -1, name: namespace + "/" + name, counts: true}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == store.Ready {
			d.counts = c["status"] == "True"
		}
	}
	return d, nil
}

// inPlace returns the objects of the cluster, each with the file's document in its place that changes
// it, and after them the other documents of the files.
func (u *templateUsers) inPlace(files []lint.Document, own []ownDocument, o lint.Options) []ownDocument {
	all := slices.Clone(own)
	for i, d := range files {
		e := compile(d, o.Compile, o.Namespace)
		same := func(other ownDocument) bool {
			return other.file < 0 && e.Namespace != "" && other.name == templateKey(e)
		}
		if place := slices.IndexFunc(all, same); place >= 0 {
			all[place] = ownDocument{Document: d, file: i}
		} else {
			all = append(all, ownDocument{Document: d, file: i})
		}
	}
	return all
}

// withoutLines returns the result for an object, whose author has another text.
func withoutLines(r lint.Result) lint.Result {
	for i := range r.Findings {
		r.Findings[i].Line = 0
	}
	return r
}

// withoutOwn says that the templates that namespaces have of their own could not be read, where they
// could matter: for those of the kind, and for names that are new in the cluster.
func (u *templateUsers) withoutOwn(results []lint.Result, err error) {
	for i := range results {
		r := &results[i]
		if _, known := u.Templates.Find(r.Template); known && !r.Scope.Namespaced {
			continue
		}
		r.Cluster(lint.Warning, "was not compared with the templates that namespaces of the cluster have of their own: "+rights.Named(err).Error()+". With -n NAMESPACE only those of that namespace are read")
	}
}

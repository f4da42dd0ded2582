package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pillion-dev/pillion/injector/owner"
)

// Document is one document of a file.
type Document struct {
	// Number counts the documents of the file, from 1. Several JSON objects after one
	// another are one document.
	Number int
	// Raw is the document's text.
	Raw []byte
	// Object is its content, numbers kept as json.Number.
	Object map[string]any
}

// ErrEmpty means that a file holds no object.
var ErrEmpty = errors.New("there is no object in it")

// Parse splits YAML or JSON into its documents. Empty documents are left out. A file
// without any object is [ErrEmpty].
func Parse(data []byte) ([]Document, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var documents []Document
	for n := 1; ; n++ {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		objects, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		for _, object := range objects {
			documents = append(documents, Document{Number: n, Raw: raw, Object: object})
		}
	}
	if len(documents) == 0 {
		return nil, ErrEmpty
	}
	return documents, nil
}

// ParseValues reads one object, nil of an empty file.
func ParseValues(data []byte) (map[string]any, error) {
	documents, err := Parse(data)
	switch {
	case errors.Is(err, ErrEmpty):
		return nil, nil
	case err != nil:
		return nil, err
	case len(documents) > 1:
		return nil, fmt.Errorf("%d documents; one is allowed", len(documents))
	}
	return documents[0].Object, nil
}

// decode reads one YAML document, or several JSON objects after one another.
func decode(raw []byte) ([]map[string]any, error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		if objects, err := decodeJSON(raw); err == nil {
			return objects, nil
		}
	}
	object, err := fromYAML(raw)
	if err != nil || object == nil {
		return nil, err
	}
	return []map[string]any{object}, nil
}

func decodeJSON(raw []byte) ([]map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var objects []map[string]any
	for {
		var object map[string]any
		err := d.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("a Kubernetes object is expected: %w", err)
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
}

// Pod is a pod, or a pod template, in a document.
type Pod struct {
	// Object has the pod's metadata and spec.
	Object map[string]any
	// Owner describes the object that holds it, such as Deployment/web.
	Owner string
	// Namespace is the namespace of the object that holds it, or "".
	Namespace string

	// owner is the object that holds it.
	owner map[string]any
}

// Holder returns the object that holds the pod: the pod itself, or the workload with its pod
// template. The caller must not change it.
func (p Pod) Holder() map[string]any { return p.owner }

// templatePaths are the places of pod templates: in everything with spec.template
// (Deployment, Job, custom workloads), in a CronJob, in a PodTemplate.
var templatePaths = [][]string{
	owner.TemplatePath("Deployment"),
	owner.TemplatePath("CronJob"),
	{"template"},
}

// Change calls change for every pod in object. It returns the object with the changed
// pods in their places, and the number of pods. A pod that API servers
// cannot decode is an error, and so is an error of change. The error names the object, and the item of a
// list. The input is not modified.
func Change(object map[string]any, change func(Pod) (map[string]any, error)) (map[string]any, int, error) {
	kind, _ := object["kind"].(string)
	if items, ok := object["items"].([]any); ok && isList(kind, items) {
		return changeItems(object, items, change)
	}
	checked := func(p Pod, at string) (map[string]any, error) {
		if _, err := Decode[corev1.Pod](p.Object); err != nil {
			return nil, fmt.Errorf("%s: %s%w", p.Owner, at, err)
		}
		changed, err := change(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Owner, err)
		}
		return changed, nil
	}
	if kind == "Pod" {
		changed, err := checked(describe(object, object), "")
		return changed, 1, err
	}
	for _, path := range templatePaths {
		if template, ok := podTemplate(object, path); ok {
			changed, err := checked(describe(object, template), strings.Join(path, ".")+".")
			if err != nil {
				return nil, 1, err
			}
			return replace(object, path, changed), 1, nil
		}
	}
	return object, 0, nil
}

// isList reports whether an object of the kind, with these items, is a list of objects. A custom
// resource of a kind such as PriorityList may have items that are no objects.
func isList(kind string, items []any) bool {
	isObject := func(item any) bool { _, ok := item.(map[string]any); return ok }
	return kind == "List" || strings.HasSuffix(kind, "List") && (len(items) == 0 || slices.ContainsFunc(items, isObject))
}

func changeItems(list map[string]any, items []any, change func(Pod) (map[string]any, error)) (map[string]any, int, error) {
	changed := make([]any, len(items))
	total := 0
	var failures []error
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, 0, fmt.Errorf("items[%d] must be an object; got %v", i, item)
		}
		result, n, err := Change(object, change)
		if err != nil {
			failures = append(failures, fmt.Errorf("items[%d]: %w", i, err))
		}
		changed[i] = result
		total += n
	}
	return replace(list, []string{"items"}, changed), total, errors.Join(failures...)
}

// podTemplate returns the object at path, if it looks like a pod template.
func podTemplate(object map[string]any, path []string) (map[string]any, bool) {
	at := object
	for _, name := range path {
		next, ok := at[name].(map[string]any)
		if !ok {
			return nil, false
		}
		at = next
	}
	spec, ok := at["spec"].(map[string]any)
	if !ok {
		return nil, false
	}
	_, ok = spec["containers"].([]any)
	return at, ok
}

func replace(object map[string]any, path []string, value any) map[string]any {
	changed := maps.Clone(object)
	if len(path) == 1 {
		changed[path[0]] = value
		return changed
	}
	changed[path[0]] = replace(object[path[0]].(map[string]any), path[1:], value)
	return changed
}

// NameOf names an object as KIND/NAMESPACE/NAME, without a namespace that it does not say.
func NameOf(object map[string]any) string {
	p := describe(object, object)
	if p.Namespace == "" {
		return p.Owner
	}
	kind, name, _ := strings.Cut(p.Owner, "/")
	return kind + "/" + p.Namespace + "/" + name
}

func describe(owner, pod map[string]any) Pod {
	meta, _ := owner["metadata"].(map[string]any)
	kind, _ := owner["kind"].(string)
	name, _ := meta["name"].(string)
	if name == "" {
		name, _ = meta["generateName"].(string)
	}
	namespace, _ := meta["namespace"].(string)
	return Pod{Object: pod, Owner: kind + "/" + name, Namespace: namespace, owner: owner}
}

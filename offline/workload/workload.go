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

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Document is one document of a file.
type Document struct {
	// Raw is the document as it was written.
	Raw []byte
	// Object is its content, numbers kept as json.Number.
	Object map[string]any
}

// ErrEmpty means that a file holds no object.
var ErrEmpty = errors.New("there is no object in it")

// Parse splits YAML or JSON into its documents. Documents that hold nothing are
// left out; a file without any object is [ErrEmpty].
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
			documents = append(documents, Document{Raw: raw, Object: object})
		}
	}
	if len(documents) == 0 {
		return nil, ErrEmpty
	}
	return documents, nil
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
}

// templatePaths are where the pods of workloads stand: everything with
// spec.template (Deployment, Job, custom workloads), CronJob, PodTemplate.
var templatePaths = [][]string{
	{"spec", "template"},
	{"spec", "jobTemplate", "spec", "template"},
	{"template"},
}

// CheckMetadata refuses an object (a pod, a pod template, a namespace) whose annotations or
// labels are not all text, as the API server does: an opt-out without quotes is no opt-out.
func CheckMetadata(object map[string]any) error {
	meta, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"annotations", "labels"} {
		at := "metadata." + field
		if meta[field] == nil {
			continue
		}
		entries, ok := meta[field].(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %s; want an object of texts", at, kindOf(meta[field]))
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			switch value := entries[key].(type) {
			case string, nil:
			case bool, json.Number:
				return fmt.Errorf("%s[%q] is %s, %v; want text: put it in quotes", at, key, kindOf(value), value)
			default:
				return fmt.Errorf("%s[%q] is %s; want text", at, key, kindOf(value))
			}
		}
	}
	return nil
}

// kindOf names the kind of a JSON value.
func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "text"
}

// Change calls change for every pod in object and returns the object with what
// it returned in the pods' places, and how many there were. A pod that does not pass
// [CheckMetadata] is an error. The input is not modified.
func Change(object map[string]any, change func(Pod) (map[string]any, error)) (map[string]any, int, error) {
	kind, _ := object["kind"].(string)
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		return changeItems(object, items, change)
	}
	checked := func(p Pod) (map[string]any, error) {
		if err := CheckMetadata(p.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Owner, err)
		}
		return change(p)
	}
	if kind == "Pod" {
		changed, err := checked(describe(object, object))
		return changed, 1, err
	}
	for _, path := range templatePaths {
		if template, ok := podTemplate(object, path); ok {
			changed, err := checked(describe(object, template))
			if err != nil {
				return nil, 1, err
			}
			return replace(object, path, changed), 1, nil
		}
	}
	return object, 0, nil
}

func changeItems(list map[string]any, items []any, change func(Pod) (map[string]any, error)) (map[string]any, int, error) {
	changed := make([]any, len(items))
	total := 0
	var failures []error
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, 0, fmt.Errorf("items[%d] of the list is not an object", i)
		}
		result, n, err := Change(object, change)
		if err != nil {
			failures = append(failures, err)
		}
		changed[i] = result
		total += n
	}
	return replace(list, []string{"items"}, changed), total, errors.Join(failures...)
}

// podTemplate returns what is at path, if it looks like a pod template.
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
	changed := make(map[string]any, len(object))
	for k, v := range object {
		changed[k] = v
	}
	if len(path) == 1 {
		changed[path[0]] = value
		return changed
	}
	changed[path[0]] = replace(object[path[0]].(map[string]any), path[1:], value)
	return changed
}

func describe(owner, pod map[string]any) Pod {
	meta, _ := owner["metadata"].(map[string]any)
	kind, _ := owner["kind"].(string)
	name, _ := meta["name"].(string)
	if name == "" {
		name, _ = meta["generateName"].(string)
	}
	namespace, _ := meta["namespace"].(string)
	return Pod{Object: pod, Owner: kind + "/" + name, Namespace: namespace}
}

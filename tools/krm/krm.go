package krm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/pillion-dev/pillion/injector/workload"
)

const (
	version = "config.kubernetes.io/v1"
	kind    = "ResourceList"
)

// ResourceList is what a function works on.
type ResourceList struct {
	// Items are the objects, in their order.
	Items []map[string]any
	// Config is the functionConfig, nil if there is none.
	Config map[string]any

	object map[string]any
	// written are the items as they came, in YAML. It is nil if they cannot be written like that.
	written []yamlv3.Node
}

// Read reads a ResourceList.
func Read(data []byte) (*ResourceList, error) {
	documents, err := workload.Parse(data)
	if err == nil && len(documents) != 1 {
		err = fmt.Errorf("must have one document; got %d", len(documents))
	}
	if err != nil {
		return nil, fmt.Errorf("reading a %s: %w", kind, err)
	}
	list := &ResourceList{object: documents[0].Object}
	if list.object["apiVersion"] != version || list.object["kind"] != kind {
		return nil, fmt.Errorf("reading a %s: must have apiVersion %s and kind %[1]s, as kustomize and kpt write them; got %v and %v", kind, version, list.object["apiVersion"], list.object["kind"])
	}
	if config := list.object["functionConfig"]; config != nil {
		var ok bool
		if list.Config, ok = config.(map[string]any); !ok {
			return nil, errors.New("reading functionConfig: it must be an object")
		}
	}
	items, ok := list.object["items"].([]any)
	if !ok && list.object["items"] != nil {
		return nil, fmt.Errorf("reading a %s: items must be a list", kind)
	}
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading a %s: items[%d] must be an object", kind, i)
		}
		list.Items = append(list.Items, object)
	}
	list.written = written(data, len(items))
	return list, nil
}

// written returns the items of a list as they are written in YAML, or nil if they cannot be found.
func written(data []byte, count int) []yamlv3.Node {
	var list struct {
		Items []yamlv3.Node `yaml:"items"`
	}
	if err := yamlv3.Unmarshal(data, &list); err != nil || len(list.Items) != count {
		return nil
	}
	return list.Items
}

// Write writes the list with its items, and with results. An item that is equal to what was read
// is written as it came: orchestrators read YAML 1.2, in which y is text and 0644 another number.
func (l *ResourceList) Write(w io.Writer, results []Result) error {
	text, err := l.text(results)
	if again, readErr := Read([]byte(text)); err == nil && (readErr != nil || !reflect.DeepEqual(again.Items, l.Items)) {
		l.written = nil // as with an alias for a part of an item that changed
		text, err = l.text(results)
	}
	if err != nil {
		return fmt.Errorf("writing a %s: %w", kind, err)
	}
	_, err = io.WriteString(w, text)
	return err
}

func (l *ResourceList) text(results []Result) (string, error) {
	out := map[string]any{"apiVersion": version, "kind": kind}
	if l.Config != nil {
		out["functionConfig"] = l.Config
	}
	items := make([]any, len(l.Items))
	for i, item := range l.Items {
		items[i] = item
		if l.written != nil && reflect.DeepEqual(any(item), l.object["items"].([]any)[i]) {
			items[i] = &l.written[i]
		}
	}
	out["items"] = items
	if len(results) > 0 {
		all := make([]any, len(results))
		for i, r := range results {
			all[i] = r.object()
		}
		out["results"] = all
	}
	return workload.YAML(out)
}

// Severity is how much a result matters.
type Severity string

// The severities of results.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Result is a sentence of a function about an object.
type Result struct {
	Message  string
	Severity Severity
	// Object is what the result is about. It is nil for all objects.
	Object map[string]any
}

func (r Result) object() map[string]any {
	out := map[string]any{"message": r.Message, "severity": string(r.Severity)}
	if r.Object == nil {
		return out
	}
	metadata, _ := r.Object["metadata"].(map[string]any)
	ref := map[string]any{}
	for field, value := range map[string]any{"apiVersion": r.Object["apiVersion"], "kind": r.Object["kind"], "name": metadata["name"], "namespace": metadata["namespace"]} {
		if text, _ := value.(string); text != "" {
			ref[field] = text
		}
	}
	out["resourceRef"] = ref
	if file := fileOf(metadata); file != nil {
		out["file"] = file
	}
	return out
}

// fileOf returns the file that an object is from, by the annotations that orchestrators set.
func fileOf(metadata map[string]any) map[string]any {
	annotations, _ := metadata["annotations"].(map[string]any)
	path, _ := annotations["internal.config.kubernetes.io/path"].(string)
	if path == "" {
		return nil
	}
	file := map[string]any{"path": path}
	text, _ := annotations["internal.config.kubernetes.io/index"].(string)
	if _, err := strconv.ParseUint(text, 10, 31); err == nil {
		file["index"] = json.Number(text)
	}
	return file
}

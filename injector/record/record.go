package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// MaxBytes bounds the annotation, read and written: half of what the API allows
// all annotations of a pod together.
const MaxBytes = 128 << 10

const version = "1"

// Record is what Pillion did to a pod.
type Record struct {
	// Templates has the hash of each template that the pod carries something of.
	Templates map[string]string
	// Required has the names of the sidecars of each template that was required of the pod, in order. They are
	// guarded in the running pod, by a template that may have other names by then. A template that gives resources
	// of the pod itself is there without sidecars as well.
	Required map[string][]string
	// Root is the pod's place. It is never nil in a record that [Parse] or [New]
	// gave.
	Root *Place

	key string
}

// New returns a record that says nothing, of a pod whose annotation is key.
func New(key string) Record {
	return Record{Templates: map[string]string{}, Required: map[string][]string{}, Root: &Place{}, key: key}
}

// Hash returns the hash of a template that the pod carries, and "" if the
// template left no trace in the pod.
func (r Record) Hash(template string) string { return r.Templates[template] }

// Parse reads the record from the pod's annotation key. A pod without the
// annotation has an empty record. A record that is malformed, too large or of
// another version counts as none: the error, fit for a warning, says why, and
// the record that is returned with it is empty and usable.
func Parse(pod map[string]any, key string) (Record, error) {
	r, err := ParseMetadata(pod, key)
	if err == nil {
		r.Complete(pod)
	}
	return r, err
}

// ParseMetadata is [Parse] for a pod of which only the metadata are known. The base pod that
// the record gives is right in its metadata.
func ParseMetadata(pod map[string]any, key string) (Record, error) {
	none := New(key)
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, ok := annotations[key]
	if !ok {
		return none, nil
	}
	text, ok := value.(string)
	if !ok {
		return none, fmt.Errorf("annotation %s: it is not text", key)
	}
	r, err := decode(text)
	if err != nil {
		return none, fmt.Errorf("annotation %s: %w", key, err)
	}
	r.key = key
	if annotations := r.Root.Child("metadata").Child("annotations"); annotations != nil {
		annotations.Forget(key) // the record is no part of the base pod
	}
	if p := r.Root.Child("metadata"); p != nil {
		p.prune(metadata, podschema.Pod().Child("metadata"))
	}
	return r, nil
}

// Complete makes of a record of [ParseMetadata] the one of [Parse], for the whole pod.
func (r Record) Complete(pod map[string]any) { r.Root.prune(pod, podschema.Pod()) }

func decode(text string) (Record, error) {
	if len(text) > MaxBytes {
		return Record{}, fmt.Errorf("%d bytes, more than the %d allowed", len(text), MaxBytes)
	}
	written, err := podschema.DecodeObject([]byte(text))
	if err != nil {
		return Record{}, fmt.Errorf("decoding it: %w", err)
	}
	if v, ok := written["v"]; !ok {
		return Record{}, fmt.Errorf("no version, this build knows %s", version)
	} else if v != json.Number(version) {
		return Record{}, fmt.Errorf("version %s, this build knows %s", podschema.Show(v), version)
	}
	r := Record{Templates: map[string]string{}, Root: &Place{}}
	if r.Templates, err = decodeTemplates(written["templates"]); err != nil {
		return Record{}, err
	}
	if r.Required, err = decodeRequired(written["required"]); err != nil {
		return Record{}, err
	}
	root, err := decodePlace(written["pod"])
	if err != nil {
		return Record{}, err
	}
	// Whatever a record says, the base pod keeps its metadata and its spec.
	for _, section := range []string{"metadata", "spec"} {
		if p := root.Child(section); p != nil {
			kept := &Place{Made: p.Made, In: p.In}
			if p.Made && len(p.Was) > 0 && p.Was[0] == nil {
				kept.Was = p.Was
			}
			r.Root.Set(section, kept)
		}
	}
	return r, nil
}

func decodeTemplates(v any) (map[string]string, error) {
	object, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("its templates are %s; an object is expected", podschema.Show(v))
	}
	hashes := make(map[string]string, len(object))
	for name, hash := range object {
		text, ok := hash.(string)
		if !ok || name == "" {
			return nil, errors.New("a template has no name, or no hash")
		}
		hashes[name] = text
	}
	return hashes, nil
}

func decodeRequired(v any) (map[string][]string, error) {
	object, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("its required templates are %s; an object is expected", podschema.Show(v))
	}
	sidecars := make(map[string][]string, len(object))
	for template, v := range object {
		items, ok := v.([]any)
		names := make([]string, len(items))
		for i, item := range items {
			name, isText := item.(string)
			names[i], ok = name, ok && isText
		}
		if !ok || template == "" {
			return nil, errors.New("a required template has no name, or no list of sidecars")
		}
		sidecars[template] = names
	}
	return sidecars, nil
}

// texts has memory for records, and for values of which there is a digest. What is larger than
// [MaxBytes] is not kept.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// Encode returns the annotation's value. The same record gives the same bytes.
func (r Record) Encode() string {
	templates := make(map[string]any, len(r.Templates))
	for name, hash := range r.Templates {
		templates[name] = hash
	}
	required := make(map[string]any, len(r.Required))
	for name, sidecars := range r.Required {
		list := make([]any, len(sidecars))
		for i, sidecar := range sidecars {
			list[i] = sidecar
		}
		required[name] = list
	}
	room := texts.Get().(*[]byte)
	defer texts.Put(room)
	b := (*room)[:0]
	if pod, says := r.Root.appendJSON(append(b, `{"pod":`...)); says {
		b = append(pod, ',')
	} else {
		b = append(b, '{')
	}
	if len(required) > 0 {
		b = append(rawjson.Append(append(b, `"required":`...), required), ',')
	}
	b = rawjson.Append(append(b, `"templates":`...), templates)
	if b = append(b, `,"v":`+version+`}`...); cap(b) <= MaxBytes {
		*room = b
	}
	return string(b)
}

// Empty reports whether the record says nothing.
func (r Record) Empty() bool { return len(r.Templates) == 0 && r.Root.Empty() }

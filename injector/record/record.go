package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// MaxBytes bounds the annotation's size: three quarters of the API's limit for all annotations of a pod.
const MaxBytes = 192 << 10

const version = "1"

// Record has Pillion's writes to a pod.
type Record struct {
	// Templates has the hash of each injected template.
	Templates map[string]string
	// Set has the entries by [podschema.Path.String].
	Set map[string]Entry
}

// Entry is one write of Pillion: a whole item, a field, or an object that holds other values.
type Entry struct {
	// Sum is the [Sum] of the value. It is empty if Pillion removed the value, or if the API server
	// derives it and Pillion does not know which it will be.
	Sum string
	// Was is the original value, if Had is set. It may be null.
	Was any
	Had bool
	// RemovedItems are the items of the key that Pillion removed.
	RemovedItems []RemovedItem
	// Created is set for an object or list that Pillion created for other values. Base removes it when it is
	// empty.
	Created bool
}

// RemovedItem is a removed item, with its index in the list.
type RemovedItem struct {
	At   int
	Item any
}

// New returns an empty record.
func New() Record {
	return Record{Templates: map[string]string{}, Set: map[string]Entry{}}
}

// Clone returns a record that can be changed without changing r.
func (r Record) Clone() Record {
	return Record{Templates: maps.Clone(r.Templates), Set: maps.Clone(r.Set)}
}

// Empty reports whether the record has neither templates nor entries.
func (r Record) Empty() bool { return len(r.Templates) == 0 && len(r.Set) == 0 }

// Hash returns the recorded hash of a template, "" for none.
func (r Record) Hash(template string) string { return r.Templates[template] }

// Parse decodes the record in the pod's annotation. It returns an empty record for a pod without the
// annotation. For a malformed, too large or unknown record it returns an empty record and an error, which is
// fit for a warning.
func Parse(pod map[string]any) (Record, error) {
	none := New()
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, ok := annotations[v1alpha1.StatusKey]
	if !ok {
		return none, nil
	}
	text, ok := value.(string)
	if !ok {
		return none, fmt.Errorf(inAnnotation, fmt.Errorf(notText, podschema.Show(value)))
	}
	r, err := decode(text)
	if err != nil {
		return none, fmt.Errorf(inAnnotation, err)
	}
	return r, nil
}

func decode(text string) (Record, error) {
	if len(text) > MaxBytes {
		return Record{}, fmt.Errorf(tooLarge, len(text), MaxBytes)
	}
	written, err := podschema.DecodeObject([]byte(text))
	if err != nil {
		return Record{}, fmt.Errorf(notJSON, err)
	}
	if v, ok := written["v"]; !ok {
		return Record{}, fmt.Errorf(noVersion, version)
	} else if v != json.Number(version) {
		return Record{}, fmt.Errorf(otherVersion, podschema.Show(v), version)
	}
	r := Record{Templates: map[string]string{}, Set: map[string]Entry{}}
	templates, ok := objectIn(written, "templates")
	if !ok {
		return Record{}, fmt.Errorf(notTemplates, podschema.Show(written["templates"]))
	}
	for name, hash := range templates {
		text, ok := hash.(string)
		if !ok || name == "" {
			return Record{}, errors.New(noHash)
		}
		r.Templates[name] = text
	}
	set, ok := objectIn(written, "set")
	if !ok {
		return Record{}, fmt.Errorf(notSet, podschema.Show(written["set"]))
	}
	for _, path := range slices.Sorted(maps.Keys(set)) { // the same record gives the same error
		if r.Set[path], err = decodeEntry(path, set[path]); err != nil {
			return Record{}, err
		}
	}
	return r, nil
}

// objectIn returns the object in a field, nil if the field is absent.
func objectIn(o map[string]any, name string) (map[string]any, bool) {
	object, ok := o[name].(map[string]any)
	return object, ok || o[name] == nil
}

func decodeEntry(path string, v any) (Entry, error) {
	if _, err := podschema.ParsePath(path); err != nil {
		return Entry{}, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return Entry{}, fmt.Errorf(notEntry, podschema.Clip(path), podschema.Show(v))
	}
	var e Entry
	e.Sum, _ = object["sum"].(string)
	e.Created = object["made"] == true
	e.Was, e.Had = object["was"]
	gone, _ := object["gone"].([]any)
	for _, v := range gone {
		pair, _ := v.([]any)
		if len(pair) != 2 {
			return Entry{}, fmt.Errorf(noIndex, podschema.Clip(path))
		}
		at, _ := pair[0].(json.Number)
		index, err := at.Int64()
		if err != nil || index < 0 {
			return Entry{}, fmt.Errorf(wrongIndex, podschema.Clip(path), podschema.Show(pair[0]))
		}
		e.RemovedItems = append(e.RemovedItems, RemovedItem{int(min(index, MaxBytes)), pair[1]})
	}
	return e, nil
}

// Encode returns the annotation's value. The same record gives the same bytes.
func (r Record) Encode() string {
	b := append(make([]byte, 0, 128*(len(r.Set)+1)), `{"set":`...)
	b = appendObject(b, r.Set, Entry.append)
	b = append(b, `,"templates":`...)
	b = appendObject(b, r.Templates, func(hash string, b []byte) []byte { return rawjson.AppendText(b, hash) })
	return string(append(b, `,"v":`+version+`}`...))
}

// appendObject appends an object with sorted fields.
func appendObject[V any](b []byte, fields map[string]V, value func(V, []byte) []byte) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(fields[name], append(rawjson.AppendText(b, name), ':'))
	}
	return append(b, '}')
}

// append appends an entry's JSON with sorted fields.
func (e Entry) append(b []byte) []byte {
	begin := len(b)
	field := func(name string) { b = append(b, `,"`+name+`":`...) }
	if len(e.RemovedItems) > 0 {
		field("gone")
		for i, g := range e.RemovedItems {
			b = append(b, "[,"[min(i, 1)], '[')
			b = append(strconv.AppendInt(b, int64(g.At), 10), ',')
			b = append(rawjson.Append(b, g.Item), ']')
		}
		b = append(b, ']')
	}
	if e.Created {
		field("made")
		b = append(b, "true"...)
	}
	if e.Sum != "" {
		field("sum")
		b = rawjson.AppendText(b, e.Sum)
	}
	if e.Had {
		field("was")
		b = rawjson.Append(b, e.Was)
	}
	if len(b) == begin {
		return append(b, "{}"...)
	}
	b[begin] = '{'
	return append(b, '}')
}

// Tree is a record by the segments of its paths. Nil is an empty one.
type Tree struct {
	Entry *Entry
	In    map[string]*Tree
}

// Tree returns the record as a tree.
func (r Record) Tree() *Tree {
	root := &Tree{}
	for text, e := range r.Set {
		path, err := podschema.ParsePath(text)
		if err != nil {
			continue // decoding has refused it
		}
		at := root
		for _, segment := range path.Segments() {
			if at.In == nil {
				at.In = map[string]*Tree{}
			}
			if at.In[segment] == nil {
				at.In[segment] = &Tree{}
			}
			at = at.In[segment]
		}
		at.Entry = &e
	}
	// A record cannot remove the metadata or the spec of the base pod.
	for _, section := range []string{"metadata", "spec"} {
		if t := root.In[section]; t != nil && t.Entry != nil && !t.Entry.Created {
			t.Entry = nil
		}
	}
	return root
}

// Child returns the tree of a segment, nil for none. It works on nil.
func (t *Tree) Child(segment string) *Tree {
	if t == nil {
		return nil
	}
	return t.In[podschema.RecordKey(segment)]
}

// Find returns the index in a list of the item of each segment. Of several items of one key it returns the
// recorded one, or else the last.
func (t *Tree) Find(id podschema.Identity, items []any) map[string]int {
	if len(t.In) == 0 {
		return nil
	}
	index := make(map[string]int, min(len(t.In), len(items)))
	if !id.Set() {
		for i, key := range podschema.KeysIn(id, items, t.In) {
			// Of several items of one key, the one with the recorded digest counts.
			if e := t.In[key].Entry; e != nil && e.Sum != "" {
				if was, found := index[key]; found && t.In[key].isAsWritten(id.Elem, items[was]) {
					continue
				}
			}
			index[key] = i
		}
		return index
	}
	for i, item := range items {
		if key, ok := id.Key(item); ok {
			if key = podschema.RecordKey(key); t.In[key] != nil {
				index[key] = i
			}
		}
	}
	return index
}

func (t *Tree) isAsWritten(elem *podschema.Type, item any) bool {
	return t.Entry.Sum == Sum(elem, item, t)
}

// Sum returns the digest of a value that Pillion wrote. The digest of a container leaves out its image, which
// has its own entry, the mount of the service account's token, and changes by others below it.
func Sum(t *podschema.Type, v any, below *Tree) string {
	container, ok := v.(map[string]any)
	if !ok || t != nil && !t.IsContainer() && (below == nil || len(below.In) == 0) {
		return podschema.Digest(t, v)
	}
	container = below.object(container, t)
	if t.IsContainer() {
		container = maps.Clone(container)
		// The default of the pull policy depends on the image.
		if podschema.IsDefault(t, "imagePullPolicy", container) {
			delete(container, "imagePullPolicy")
		}
		delete(container, "image")
		if mounts, ok := container["volumeMounts"].([]any); ok {
			container["volumeMounts"] = slices.DeleteFunc(slices.Clone(mounts), isTokenMount)
		}
	}
	return podschema.Digest(t, container)
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

func isTokenMount(v any) bool {
	mount, _ := v.(map[string]any)
	return mount["mountPath"] == tokenPath
}

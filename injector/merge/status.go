package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// MaxStatusBytes bounds the status annotation, read and written: half of what
// the API allows all annotations of a pod together.
const MaxStatusBytes = 128 << 10

const statusVersion = 1

// Status is what a pod says that Pillion did to it. It can be forged, so it is
// believed only so far that nothing is ever removed from a pod because of it.
type Status struct {
	Templates []Applied `json:"templates"` // sorted by name

	key string // the annotation it was looked for in
}

// Applied is what one template did. All paths are keyed paths, such as
// /spec/initContainers/name=fluent-bit or /spec/containers/name=web/env/name=FOO;
// sets' items are "=" and their canonical JSON. "~", "/" and, in a value of a
// key with several fields, "," are written ~0, ~1 and ~2.
type Applied struct {
	Name   string `json:"name"`
	Hash   string `json:"hash"`
	Params string `json:"params,omitempty"`
	// Items are the parts that it added, and parts that the API server derives
	// from them.
	Items []string `json:"items,omitempty"`
	// Created are the objects and lists that were absent and were made to hold
	// items.
	Created []string `json:"created,omitempty"`
	// Overwrote has the values that stood where it put its own, by path; null
	// where null stood.
	Overwrote map[string]any `json:"overwrote,omitempty"`
	// Removed has the list items that it took out, by the list's path.
	Removed map[string][]Removed `json:"removed,omitempty"`
	// Wrote has a digest of every value that it wrote, eight hexadecimal digits
	// each, sorted and without separators. What still has its digest nobody has
	// changed since. A status of an older build has none: nothing is known then.
	Wrote string `json:"wrote,omitempty"`
}

// Removed is an item that was taken out of a list.
type Removed struct {
	// At is its index in the list without Pillion's own items.
	At    int `json:"at"`
	Value any `json:"value"`
}

// Hash returns the template hash that the pod carries, and "" if the template
// left no trace in it.
func (s Status) Hash(template string) string {
	for _, a := range s.Templates {
		if a.Name == template {
			return a.Hash
		}
	}
	return ""
}

// ParseStatus reads the status from the pod's annotation statusKey. A pod
// without one has an empty status. A status that is malformed, too large or of
// another version is treated as absent: the error, fit for a warning, says why,
// and the Status returned with it is empty and usable.
func ParseStatus(pod map[string]any, statusKey string) (Status, error) {
	none := Status{key: statusKey}
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, ok := annotations[statusKey]
	if !ok {
		return none, nil
	}
	text, ok := value.(string)
	if !ok {
		return none, fmt.Errorf("ignoring annotation %s: it is not text", statusKey)
	}
	s, err := decodeStatus(text)
	if err != nil {
		return none, fmt.Errorf("ignoring annotation %s: %w", statusKey, err)
	}
	s.key = statusKey
	found := indexes{}
	for _, a := range s.Templates {
		leaveOutNowhere(pod, found, a.Overwrote, a.Removed)
	}
	return s, nil
}

// leaveOutNowhere takes out what a record would give back in places that the pod
// does not have. It means nothing now, and would mean something as soon as
// another template makes such a place.
func leaveOutNowhere(pod map[string]any, found indexes, overwrote map[string]any, removed map[string][]Removed) {
	maps.DeleteFunc(overwrote, func(path string, v any) bool {
		_, _, have, field := known().lookUp(pod, path, found)
		return !have && (!field || v == nil)
	})
	maps.DeleteFunc(removed, func(path string, _ []Removed) bool {
		v, t, have, field := known().lookUp(pod, path, found)
		_, isList := v.([]any)
		_, keyed := known().identityOf(t)
		return !keyed || have && !isList || !have && !field
	})
}

// writtenStatus is the annotation's JSON.
type writtenStatus struct {
	Version int `json:"v"`
	Status
}

func decodeStatus(text string) (Status, error) {
	if len(text) > MaxStatusBytes {
		return Status{}, fmt.Errorf("%d bytes, more than the %d allowed", len(text), MaxStatusBytes)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var s writtenStatus
	if err := d.Decode(&s); err != nil {
		return Status{}, fmt.Errorf("decoding it: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Status{}, errors.New("something follows its JSON")
	}
	if s.Version != statusVersion {
		return Status{}, fmt.Errorf("version %d, this build knows %d", s.Version, statusVersion)
	}
	names := map[string]bool{}
	for _, a := range s.Templates {
		if a.Name == "" || names[a.Name] {
			return Status{}, fmt.Errorf("template %q is named twice or is no name", a.Name)
		}
		names[a.Name] = true
	}
	slices.SortFunc(s.Templates, func(a, b Applied) int { return strings.Compare(a.Name, b.Name) })
	return s.Status, nil
}

// encodeStatus is deterministic: everything in it is sorted.
func encodeStatus(s Status) string {
	return string(bytes.TrimSpace(encode(writtenStatus{Version: statusVersion, Status: s})))
}

// record is an [Applied] while it is being changed.
type record struct {
	name, hash, params string
	items, created     map[string]bool
	overwrote          map[string]any
	removed            map[string][]Removed
	wrote              map[string]bool // digests
	signs              bool            // whether digests of what is written are kept
}

func newRecord(name string) *record {
	return &record{name: name, items: map[string]bool{}, created: map[string]bool{}, overwrote: map[string]any{}, removed: map[string][]Removed{}, wrote: map[string]bool{}}
}

func (a Applied) record() *record {
	r := newRecord(a.Name)
	r.hash, r.params = a.Hash, a.Params
	for _, path := range a.Items {
		r.items[path] = true
	}
	for _, path := range a.Created {
		r.created[path] = true
	}
	maps.Copy(r.overwrote, a.Overwrote)
	for path, removed := range a.Removed {
		r.removed[path] = slices.Clone(removed)
	}
	r.wrote = digestsIn(a.Wrote)
	return r
}

// applied returns the record as it is written.
func (r *record) applied() Applied {
	a := Applied{Name: r.name, Hash: r.hash, Params: r.params, Overwrote: r.overwrote, Removed: r.removed, Wrote: digestText(r.wrote)}
	for path := range r.items {
		if _, ok := r.overwrote[path]; !ok {
			a.Items = append(a.Items, path)
		}
	}
	slices.Sort(a.Items)
	a.Created = slices.Sorted(maps.Keys(r.created))
	return a
}

// trace reports whether the template did anything to the pod.
func (r *record) trace() bool {
	return len(r.items)+len(r.created)+len(r.overwrote)+len(r.removed) > 0
}

// lists reports whether the item at path is the template's.
func (r *record) lists(path string) bool {
	_, overwrote := r.overwrote[path]
	return overwrote || r.items[path]
}

// stakes returns every path that the record names, and those that lead there.
func (r *record) stakes() map[string]bool {
	all := map[string]bool{}
	note := func(path string) {
		for path != "" && !all[path] {
			all[path] = true
			path = parent(path)
		}
	}
	for path := range r.items {
		note(path)
	}
	for path := range r.created {
		note(path)
	}
	for path := range r.overwrote {
		note(path)
	}
	for path := range r.removed {
		note(path)
	}
	return all
}

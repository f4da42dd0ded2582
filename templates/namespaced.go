package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/regexps"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// NamespacedSource begins the [Options.Source] of a NamespacedSidecarTemplate of the cluster;
// NAMESPACE/NAME follows.
const NamespacedSource = v1alpha1.NamespacedKind + "/"

// SourceIn returns the [Options.Source] of a NamespacedSidecarTemplate of the cluster.
func SourceIn(namespace, name string) string { return NamespacedSource + namespace + "/" + name }

// isObject reports whether a source is an object of the cluster: its author has another text, so
// lines say nothing.
func isObject(source string) bool {
	return strings.HasPrefix(source, ClusterSource) || strings.HasPrefix(source, NamespacedSource)
}

// MaxInNamespace is how many NamespacedSidecarTemplates of a namespace count: the oldest, by
// metadata.creationTimestamp, then name.
const MaxInNamespace = 20

// Scope says for which namespaces a manifest is, by its kind.
type Scope struct {
	// Namespaced: the manifest is a NamespacedSidecarTemplate. Namespace is its
	// metadata.namespace, empty where the manifest names none.
	Namespaced bool
	Namespace  string
}

// Scope returns for which namespaces the manifest is.
func (t *Template) Scope() Scope { return t.scope }

// namespacedFields are the fields of the spec that a NamespacedSidecarTemplate may have. A field
// that is new in SidecarTemplates is none of them until somebody has judged it.
var namespacedFields = []string{
	"description", "injectByDefault", "order", "suspend", "match", "overridable", "matchConditions", "validations",
	"parameters", "variables", "files", "onConflict", "podResources", "containerSecurity", "onError", "allowUnknownFields", "os", "inject",
}

// namespacedFields refuses what reaches beyond the namespace.
func (c *compiler) namespacedFields(raw any, at *manifest.Path) {
	spec, _ := raw.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		if !slices.Contains(namespacedFields, field) && !c.hasProblemIn(at.Field(field).String()) {
			c.problem(at.Field(field), "is not for a "+v1alpha1.NamespacedKind+"; take it out, or have a cluster admin write a "+v1alpha1.Kind)
		}
	}
	match, _ := spec["match"].(map[string]any)
	if match["namespaceSelector"] != nil {
		c.problem(at.Fields("match", "namespaceSelector"), fmt.Sprintf("is not for a %s, which is for its own namespace; take it out", v1alpha1.NamespacedKind))
	}
}

// NamespaceTemplates are the templates of one namespace. They are immutable.
type NamespaceTemplates struct {
	entries []Entry

	mu sync.Mutex
	// combined is what [Set.In] returned last, and of the set that it was asked of.
	combined, of *Set
}

// NewNamespaceTemplates returns the templates of one namespace. Of several with one name the last
// counts.
func NewNamespaceTemplates(entries []Entry) *NamespaceTemplates {
	return &NamespaceTemplates{entries: slices.Clone(entries)}
}

// Entries returns the templates, also those whose name a template of the cluster has. The caller
// may change the slice.
func (n *NamespaceTemplates) Entries() []Entry {
	if n == nil {
		return nil
	}
	return slices.Clone(n.entries)
}

// WithNamespaces returns the set with other templates of namespaces, by the namespaces' names. The
// caller must not change the map afterwards.
func (s *Set) WithNamespaces(all map[string]*NamespaceTemplates) *Set {
	copied := *s.origin
	copied.namespaces = all
	return &copied
}

// WithCluster returns the set with other templates of the cluster, and the same of namespaces.
func (s *Set) WithCluster(entries []Entry) *Set {
	copied := *newSet(entries)
	copied.namespaces, copied.reading = s.namespaces, s.reading
	return &copied
}

// reading reads the templates of namespaces when they are first asked for.
type reading struct {
	read func(namespace string) []Entry
	mu   sync.Mutex
	done map[string]*NamespaceTemplates
}

func (r *reading) of(namespace string) *NamespaceTemplates {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.done[namespace]
	if !ok {
		n = NewNamespaceTemplates(r.read(namespace))
		r.done[namespace] = n
	}
	return n
}

// ReadingNamespaces returns the set with templates of namespaces that are read once each, when
// [Set.In] is first asked for the namespace. It is for commands, which look at few namespaces.
func (s *Set) ReadingNamespaces(read func(namespace string) []Entry) *Set {
	copied := *s.origin
	copied.reading = &reading{read: read, done: map[string]*NamespaceTemplates{}}
	return &copied
}

// ErrUnread is the [Entry.Err] of a template of a namespace that is there and was not read yet.
var ErrUnread = errors.New("it has not been read yet; create the pod again in some seconds")

// Unread reports whether a set that [Set.In] returned has templates of the namespace that were not
// read yet, so that it is not known which pods they are for.
func (s *Set) Unread() bool {
	return s.own != nil && slices.ContainsFunc(s.own.entries, func(e Entry) bool { return errors.Is(e.Err, ErrUnread) })
}

// Namespaces returns the templates that namespaces have of their own, by the namespaces' names. The
// caller must not change the map.
func (s *Set) Namespaces() map[string]*NamespaceTemplates { return s.namespaces }

// In returns the set that counts for a namespace: that of the cluster, and after it the
// namespace's own templates. A name that a template of the cluster has is the cluster's. It is made
// when it is first asked for, and takes no more than the namespace's own templates.
func (s *Set) In(namespace string) *Set {
	n := s.namespaces[namespace]
	if n == nil && s.reading != nil {
		n = s.reading.of(namespace)
	}
	if n == nil || len(n.entries) == 0 {
		return s
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of != s.origin {
		n.combined, n.of = s.with(n.entries), s.origin
	}
	return n.combined
}

// with returns the set for a namespace that has entries of its own.
func (s *Set) with(entries []Entry) *Set {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { _, shadowed := s.Find(e.Name); return shadowed })
	combined := *s.origin
	combined.origin, combined.namespaces, combined.reading, combined.own = &combined, nil, nil, newSet(entries)
	combined.defaults = combined.following(slices.Clone(s.defaults), combined.own.defaults)
	combined.reads = s.reads.and(combined.own.reads)
	return &combined
}

// following adds places of the namespace's own entries to places of the cluster's.
func (s *Set) following(places, own []int) []int {
	for _, place := range own {
		places = append(places, len(s.entries)+place)
	}
	return places
}

// and returns what both read.
func (r *NamespaceReads) and(other *NamespaceReads) *NamespaceReads {
	return &NamespaceReads{
		selected: r.selected.Union(other.selected), labels: r.labels.Union(other.labels), annotations: r.annotations.Union(other.annotations),
		whole: r.whole || other.whole,
	}
}

// WorkPerExpression is how many bytes an expression takes compiled, as a program.
const WorkPerExpression = 24 << 10

// workPerByte is how many bytes the rest of a template takes for each of its text.
const workPerByte = 8

// Cost returns how many bytes a manifest or spec takes compiled, about.
func Cost(text []byte) int64 { return Work(text) + workPerByte*int64(len(text)) }

// Work returns how many bytes the expressions of a manifest or spec take compiled, about. One with
// regular expressions takes as much more as those of a template of a namespace may take together.
func Work(text []byte) int64 {
	n := 0
	for _, begin := range []string{"${", `"expression"`, `"messageExpression"`, `"$if"`, `"$for"`, `"$each"`} {
		n += bytes.Count(text, []byte(begin))
	}
	work := int64(min(n, expression.MaxExpressions)) * WorkPerExpression
	for _, begin := range []string{`"pattern"`, "matches", "find"} {
		if bytes.Contains(text, []byte(begin)) {
			return work + regexps.NamespacedSize*regexps.BytesOfOne
		}
	}
	return work
}

// What the templates of one namespace may be: each spec's bytes as JSON, and the [Cost] of all.
const (
	maxNamespacedBytes = 64 << 10
	MaxNamespaceCost   = 2 << 20
)

// TooLarge returns why the spec of a NamespacedSidecarTemplate, as JSON, is larger than it may be, or
// nil.
func TooLarge(spec []byte) error {
	switch {
	case len(spec) > maxNamespacedBytes:
		return fmt.Errorf("the spec has %d bytes as JSON, and may have %d; split the template", len(spec), maxNamespacedBytes)
	case Cost(spec) > MaxNamespaceCost:
		return fmt.Errorf("the spec has more expressions than the templates of a namespace may have, which are some %d; say in a variable once what many places say", MaxNamespaceCost/WorkPerExpression)
	}
	return nil
}

// NamespaceRoom is what templates of one namespace have taken of what they may be together. The zero
// value is for a namespace without any.
type NamespaceRoom struct {
	templates int
	cost      int64
}

// Take counts a template more, by its spec as JSON, or returns why it finds no room.
func (r *NamespaceRoom) Take(spec []byte) error {
	if r.templates++; r.templates > MaxInNamespace {
		return fmt.Errorf("is one too many: a namespace may have %d templates of its own; put two into one, or delete one", MaxInNamespace)
	}
	if err := TooLarge(spec); err != nil {
		return err
	}
	cost := Cost(spec)
	if r.cost+cost > MaxNamespaceCost {
		return fmt.Errorf("finds no room beside the other templates of the namespace, which may have some %d expressions together; say in a variable once what many places say", MaxNamespaceCost/WorkPerExpression)
	}
	r.cost += cost
	return nil
}

// maxDemandBytes bounds what is kept of a spec that is out of force.
const maxDemandBytes = 8 << 10

// WithoutRoom returns an error for a template that is out of force, though it compiles. It knows
// which pods want the template, and keeps nothing else of it.
func (t *Template) WithoutRoom(why string) *CompileError {
	return &CompileError{Template: t.name, Scope: t.scope, Problems: []Problem{{Message: why}}, Broken: t.demand()}
}

// WithoutRoom is [Template.WithoutRoom] for the spec, as JSON, of a NamespacedSidecarTemplate that is
// too expensive to be compiled. Of the spec it reads only which pods want the template.
func WithoutRoom(namespace, name string, spec []byte, why string, o Options) *CompileError {
	unknown := &CompileError{Template: name, Scope: Scope{Namespaced: true, Namespace: namespace}, Problems: []Problem{{Message: why}}}
	var all map[string]json.RawMessage
	if json.Unmarshal(spec, &all) != nil {
		return unknown
	}
	demand := map[string]json.RawMessage{"inject": json.RawMessage("{}")}
	for _, field := range []string{"match", "injectByDefault", "suspend", "onError"} {
		if value, ok := all[field]; ok {
			demand[field] = value
		}
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.NamespacedKind,
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": demand,
	})
	if err != nil || len(manifest) > maxDemandBytes {
		return unknown
	}
	t, _, err := Compile(manifest, o)
	var mistakes *CompileError
	switch {
	case err == nil:
		return t.WithoutRoom(why)
	case errors.As(err, &mistakes):
		unknown.Broken = mistakes.Broken
	}
	return unknown
}

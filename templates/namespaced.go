package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
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

// WorkPerExpression is how many bytes an expression takes compiled, about.
const WorkPerExpression = 24 << 10

// workPerByte is how many bytes the rest of a template takes for each of its text.
const workPerByte = 8

// Cost returns how many bytes a manifest or spec takes compiled, about.
func Cost(text []byte) int64 { return Work(text) + workPerByte*int64(len(text)) }

// Work returns how many bytes the expressions of a manifest or spec take compiled, about.
func Work(text []byte) int64 {
	n := 0
	for _, begin := range []string{"${", `"expression"`, `"messageExpression"`, `"$if"`, `"$for"`, `"$each"`} {
		n += bytes.Count(text, []byte(begin))
	}
	return int64(min(n, expression.MaxExpressions)) * WorkPerExpression
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

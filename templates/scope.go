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

// isObject reports whether a source is an object of the cluster. Its author has another text, so its errors
// have no lines.
func isObject(source string) bool {
	return strings.HasPrefix(source, ClusterSource) || strings.HasPrefix(source, NamespacedSource)
}

// MaxInNamespace bounds the NamespacedSidecarTemplates of a namespace. The oldest count, by
// metadata.creationTimestamp, then name.
const MaxInNamespace = 20

// Scope has the namespaces for which a manifest is, by its kind.
type Scope struct {
	// Namespaced is set for a NamespacedSidecarTemplate. Namespace is its metadata.namespace, which may be
	// empty.
	Namespaced bool
	Namespace  string
}

// Scope returns the namespaces for which the template is.
func (t *Template) Scope() Scope { return t.scope }

// namespacedFields are the fields of the spec that a NamespacedSidecarTemplate may have. New fields of
// SidecarTemplates are refused until they are listed here.
var namespacedFields = []string{
	"description", "injectByDefault", "order", "suspend", "match", "overridable", "matchConditions", "validations",
	"parameters", "variables", "files", "onConflict", "podResources", "containerSecurity", "onError", "allowUnknownFields", "os", "inject",
}

// namespacedFields refuses the fields that reach beyond the namespace.
func (c *compiler) namespacedFields(raw any, at *manifest.Path) {
	spec, _ := raw.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		if !slices.Contains(namespacedFields, field) && !c.hasProblemIn(at.Field(field).String()) {
			c.problem(at.Field(field), "is not for a "+v1alpha1.NamespacedKind+"; remove it, or have a cluster admin write a "+v1alpha1.Kind)
		}
	}
	match, _ := spec["match"].(map[string]any)
	if match["namespaceSelector"] != nil {
		c.problem(at.Fields("match", "namespaceSelector"), fmt.Sprintf("is not for a %s, which is for its own namespace; remove it", v1alpha1.NamespacedKind))
	}
}

// WorkPerExpression is the approximate memory of a compiled expression, in bytes.
const WorkPerExpression = 24 << 10

// workPerByte is the approximate memory of the rest of a template for each byte of its text.
const workPerByte = 8

// Cost returns the approximate memory of a compiled manifest or spec, in bytes.
func Cost(text []byte) int64 { return Work(text) + workPerByte*int64(len(text)) }

// Work returns the approximate memory of the compiled expressions of a manifest or spec, in bytes.
func Work(text []byte) int64 {
	n := 0
	for _, begin := range []string{"${", `"expression"`, `"messageExpression"`, `"$if"`, `"$for"`, `"$each"`} {
		n += bytes.Count(text, []byte(begin))
	}
	return int64(min(n, expression.MaxExpressions)) * WorkPerExpression
}

// maxNamespacedBytes bounds the spec of a NamespacedSidecarTemplate, as JSON.
const maxNamespacedBytes = 64 << 10

// TooLarge returns an error if the spec of a NamespacedSidecarTemplate, as JSON, is too large.
func TooLarge(spec []byte) error {
	if len(spec) > maxNamespacedBytes {
		return fmt.Errorf("the spec has %d bytes as JSON, and may have %d; split the template", len(spec), maxNamespacedBytes)
	}
	return nil
}

// maxDemandBytes bounds the part of a spec that stays when the template is out of force.
const maxDemandBytes = 8 << 10

// Demand returns the part of a spec, as JSON, that selects pods, as a spec without a fragment. It returns nil
// if that part cannot be read, or is too long.
func Demand(spec []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(spec, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(field string, _ json.RawMessage) bool {
		return !slices.Contains([]string{"match", "injectByDefault", "suspend", "onError"}, field)
	})
	all["inject"] = json.RawMessage("{}")
	demand, err := json.Marshal(all)
	if err != nil || len(demand) > maxDemandBytes {
		return nil
	}
	return demand
}

// ManifestOf returns the manifest of an object of the cluster, as JSON. A template of the cluster has no namespace.
func ManifestOf(namespace, name string, spec []byte) []byte {
	object := map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "metadata": map[string]string{"name": name}, "spec": json.RawMessage(spec)}
	if namespace != "" {
		object["kind"], object["metadata"] = v1alpha1.NamespacedKind, map[string]string{"name": name, "namespace": namespace}
	}
	if spec == nil {
		delete(object, "spec")
	}
	manifest, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("templates: writing a spec that is JSON: %v", err))
	}
	return manifest
}

// OutOfForce returns an error for a manifest (JSON) that is not compiled, for a reason. The error has the
// template's selectors, and nothing else of it.
func OutOfForce(manifest []byte, why string, o Options) *CompileError {
	var object struct {
		Metadata struct{ Namespace, Name string } `json:"metadata"`
		Spec     json.RawMessage                  `json:"spec"`
	}
	_ = json.Unmarshal(manifest, &object) // without a spec there are no selectors
	name, namespace := object.Metadata.Name, object.Metadata.Namespace
	refusal := &CompileError{Source: o.Source, Template: name, Scope: Scope{Namespaced: namespace != "", Namespace: namespace}, Problems: []Problem{{Message: why}}}
	t, _, err := Compile(ManifestOf(namespace, name, Demand(object.Spec)), o)
	var mistakes *CompileError
	switch {
	case err == nil:
		refusal.Broken = t.selecting()
	case errors.As(err, &mistakes):
		refusal.Broken = mistakes.Broken
	}
	return refusal
}

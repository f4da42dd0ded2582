package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// GuardOptions are what the guard works with. All fields are required but
// ExcludedNamespaces.
type GuardOptions struct {
	// Compile has the prefix and the installer's values.
	Compile templates.Options
	// ExcludedNamespaces are those that Pillion keeps out of.
	ExcludedNamespaces []string
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Namespaces returns all namespaces that are known.
	Namespaces func() []templates.Namespace
}

type guard struct {
	options GuardOptions
	// prefix is the annotation prefix and the API group of the SidecarTemplates.
	prefix string
}

// NewGuard returns the webhook that refuses bad SidecarTemplates, with the messages
// of lint, and the deletion of SidecarTemplates in use.
func NewGuard(o GuardOptions) Webhook {
	return guard{options: o, prefix: cmp.Or(o.Compile.Prefix, templates.DefaultPrefix)}
}

func (guard) Name() string { return "guard" }

func (g guard) Review(ctx context.Context, r *Review) (Response, error) {
	if r.Kind.Kind != v1alpha1.Kind || r.Kind.Group != g.prefix {
		return Response{}, Malformed("the review is about %s; this webhook is for the SidecarTemplates of %s", r.Kind.String(), g.prefix)
	}
	if err := r.memory.holdFor(ctx, "", compileWork(r.Object), r.Object, r.OldObject); err != nil {
		return Response{}, err
	}
	switch r.Operation {
	case "CREATE", "UPDATE":
		return g.write(r)
	case "DELETE":
		return g.delete(r)
	}
	return Allowed(), nil
}

// workPerExpression is how many bytes an expression takes compiled, as a program.
const workPerExpression = 24 << 10

// compileWork returns how many bytes it takes to compile a manifest.
func compileWork(manifest part) int64 {
	n := bytes.Count(manifest, []byte("${")) + bytes.Count(manifest, []byte(`"expression"`))
	return int64(min(n, expression.MaxExpressions)) * workPerExpression
}

// sidecarTemplate has the fields that the guard reads before it compiles a template.
type sidecarTemplate struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

func readTemplate(raw []byte) (*sidecarTemplate, error) {
	if isAbsent(raw) {
		return nil, Malformed("the review's request has no object")
	}
	var t sidecarTemplate
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, Malformed("the review's object is no SidecarTemplate: %v", err)
	}
	return &t, nil
}

// write answers for a template that is created or updated. The metadata of a bad
// template may change: its finalizers could otherwise not be removed.
func (g guard) write(r *Review) (Response, error) {
	object, err := readTemplate(r.Object)
	if err != nil {
		return Response{}, err
	}
	if r.Operation == "UPDATE" {
		old, err := readTemplate(r.OldObject)
		if err != nil {
			return Response{}, err
		}
		if same, err := sameJSON(old.Spec, object.Spec); err != nil || same {
			return Allowed(), err
		}
	}
	options := g.options.Compile
	options.Source = templates.ClusterSource + object.Metadata.Name
	t, warned, err := templates.Compile(r.Object, options)
	var mistakes *templates.CompileError
	if errors.As(err, &mistakes) {
		unplaced := *mistakes
		unplaced.Source = "" // kubectl names the object already
		return refused(reason.TemplateInvalid, unplaced.Error()+"\n`pillion lint FILE` says the same, with lines"), nil
	}
	if err != nil {
		return Response{}, fmt.Errorf("compiling the SidecarTemplate %s: %w", object.Metadata.Name, err)
	}
	var warnings []string
	for _, w := range append(warned, t.TextHazards()...) {
		w.Source = ""
		warnings = append(warnings, w.String())
	}
	if e, ok := g.options.Templates().Get(object.Metadata.Name); ok && e.Source != "" && e.Source != options.Source {
		warnings = append(warnings, fmt.Sprintf("the name %s belongs to %s, which counts; this object has no effect", object.Metadata.Name, e.Source))
	}
	return Allowed(warnings...), nil
}

// refused denies with a message of one line or several, and ends it in the code.
func refused(code reason.Code, message string) Response {
	return Denied(code, strings.Split(message+" ("+string(code)+")", "\n")...)
}

func sameJSON(a, b json.RawMessage) (bool, error) {
	x, err := decodeAny(a)
	if err != nil {
		return false, Malformed("the old object's spec cannot be read: %v", err)
	}
	y, err := decodeAny(b)
	if err != nil {
		return false, Malformed("the object's spec cannot be read: %v", err)
	}
	return reflect.DeepEqual(x, y), nil
}

func decodeAny(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return podschema.Decode(raw)
}

// delete answers for the deletion of a template. Without the template, pods that ask
// for it are refused, and if it is required, pods go without it.
func (g guard) delete(r *Review) (Response, error) {
	object, err := readTemplate(r.OldObject)
	if err != nil {
		return Response{}, err
	}
	name, key := object.Metadata.Name, g.prefix+"/allow-delete"
	if value, ok := object.Metadata.Annotations[key]; ok && value != "false" {
		return Allowed(), nil
	}
	entry, ok := g.options.Templates().Get(name)
	if !ok || entry.Source != "" && entry.Source != templates.ClusterSource+name {
		return Allowed(), nil // pods get another template by that name, or none
	}
	why := g.usedBy(name, entry)
	if why == "" {
		return Allowed(), nil
	}
	return refused(reason.TemplateInUse, fmt.Sprintf("the SidecarTemplate %s is in use: %s. If its deletion is meant all the same: kubectl annotate sidecartemplates.%s %s %s=true",
		name, why, g.prefix, name, key)), nil
}

// usedBy says why the template is still needed. It is empty if nothing needs it.
func (g guard) usedBy(name string, entry templates.Entry) string {
	if entry.Required() {
		return "it is required (spec.required), and pods would go without it"
	}
	injectKey, byDefault := g.prefix+"/inject", entry.InjectByDefault()
	var named, asked []string
	for _, ns := range g.options.Namespaces() {
		value, ok := ns.Annotations[injectKey]
		ask, err := policy.ParseAsk(value, ok, policy.Namespace)
		switch {
		case err != nil || slices.Contains(g.options.ExcludedNamespaces, ns.Name):
		case ask.Mode == policy.Names && slices.Contains(ask.Names, name):
			named = append(named, ns.Name)
		case ask.Mode == policy.Default && byDefault:
			asked = append(asked, ns.Name)
		}
	}
	var why []string
	if len(named) > 0 {
		why = append(why, fmt.Sprintf("named by %s %s, so their pods would be refused", injectKey, inNamespaces(named)))
	}
	if len(asked) > 0 {
		why = append(why, fmt.Sprintf(`part of what %s: "true" means %s, so their pods would go without it`, injectKey, inNamespaces(asked)))
	}
	return strings.Join(why, "; ")
}

// inNamespaces lists a few namespaces.
func inNamespaces(names []string) string {
	slices.Sort(names)
	const most = 5
	text := "in the namespace "
	if len(names) > 1 {
		text = "in the namespaces "
	}
	if len(names) > most {
		return text + strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text + strings.Join(names, ", ")
}

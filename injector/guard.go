package injector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// GuardOptions are what [Handler.Guard] works with besides the handler's own.
type GuardOptions struct {
	// Compile has the prefix and the installer's values.
	Compile templates.Options
	// Namespaces returns all namespaces that are known.
	Namespaces func() []templates.Namespace
}

// Guard returns the webhook that refuses bad SidecarTemplates, with the messages
// of lint, and the deletion of those in use.
func (h *Handler) Guard(o GuardOptions) http.Handler {
	g := &guard{options: o, templates: h.Templates, pipeline: h.Pipeline}
	return h.validating("templates", g.judge)
}

type guard struct {
	options   GuardOptions
	templates func() *templates.Set
	pipeline  *Pipeline
}

func (g *guard) judge(_ context.Context, r *reviewRequest) (verdict, error) {
	if r.Kind.Kind != v1alpha1.Kind || r.Kind.Group != g.pipeline.config.Prefix {
		return verdict{}, bad("the review is about %s; this webhook is for the SidecarTemplates of %s", r.Kind.String(), g.pipeline.config.Prefix)
	}
	switch r.Operation {
	case "CREATE", "UPDATE":
		return g.write(r)
	case "DELETE":
		return g.delete(r)
	}
	return allow(), nil
}

// sidecarTemplate is what the guard reads of an object before it is compiled.
type sidecarTemplate struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

func readTemplate(raw json.RawMessage) (*sidecarTemplate, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, bad("the review's request has no object")
	}
	var t sidecarTemplate
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, bad("the review's object is no SidecarTemplate: %v", err)
	}
	return &t, nil
}

// write judges a template that is made or changed. Metadata of a bad one may be
// changed: it could otherwise not even be deleted.
func (g *guard) write(r *reviewRequest) (verdict, error) {
	object, err := readTemplate(r.Object)
	if err != nil {
		return verdict{}, err
	}
	if r.Operation == "UPDATE" {
		old, err := readTemplate(r.OldObject)
		if err != nil {
			return verdict{}, err
		}
		if same, err := sameJSON(old.Spec, object.Spec); err != nil || same {
			return allow(), err
		}
	}
	options := g.options.Compile
	options.Source = templates.ClusterSource + object.Metadata.Name
	t, warned, err := templates.Compile(r.Object, options)
	var mistakes *templates.CompileError
	if errors.As(err, &mistakes) {
		unplaced := *mistakes
		unplaced.Source = "" // the API server has told whose object it is
		return refuse(reason.TemplateInvalid, unplaced.Error()+"\n`pillion lint FILE` says the same, with lines"), nil
	}
	if err != nil {
		return verdict{}, fmt.Errorf("compiling the SidecarTemplate %s: %w", object.Metadata.Name, err)
	}
	var warnings []string
	for _, w := range append(warned, t.TextHazards()...) {
		w.Source = ""
		warnings = append(warnings, w.String())
	}
	if e, ok := g.templates().Get(object.Metadata.Name); ok && e.Source != "" && e.Source != options.Source {
		warnings = append(warnings, fmt.Sprintf("the name %s belongs to %s, which counts; this object has no effect", object.Metadata.Name, e.Source))
	}
	return allow(warnings...), nil
}

func sameJSON(a, b json.RawMessage) (bool, error) {
	x, err := decodeAny(a)
	if err != nil {
		return false, bad("the old object's spec cannot be read: %v", err)
	}
	y, err := decodeAny(b)
	if err != nil {
		return false, bad("the object's spec cannot be read: %v", err)
	}
	return reflect.DeepEqual(x, y), nil
}

func decodeAny(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// delete judges the deletion of a template: pods that ask for one that is gone are
// refused, and those that had to have a required one go without it.
func (g *guard) delete(r *reviewRequest) (verdict, error) {
	object, err := readTemplate(r.OldObject)
	if err != nil {
		return verdict{}, err
	}
	name, key := object.Metadata.Name, g.pipeline.config.Prefix+"/allow-delete"
	if value, ok := object.Metadata.Annotations[key]; ok && value != "false" {
		return allow(), nil
	}
	entry, ok := g.templates().Get(name)
	if !ok || entry.Source != "" && entry.Source != templates.ClusterSource+name {
		return allow(), nil // it is not what pods get by that name
	}
	why := g.usedBy(name, entry)
	if why == "" {
		return allow(), nil
	}
	return refuse(reason.TemplateInUse, fmt.Sprintf("the SidecarTemplate %s is in use: %s. If its deletion is meant all the same: kubectl annotate sidecartemplates.%s %s %s=true",
		name, why, g.pipeline.config.Prefix, name, key)), nil
}

// usedBy says who would miss the template, or nothing.
func (g *guard) usedBy(name string, entry templates.Entry) string {
	if isRequired(entry) {
		return "it is required (spec.required), and pods would go without it"
	}
	byDefault := choice(entry).InjectByDefault
	var named, asked []string
	for _, ns := range g.options.Namespaces() {
		value, ok := ns.Annotations[g.pipeline.injectKey]
		ask, err := policy.ParseAsk(value, ok, policy.Namespace)
		switch {
		case err != nil || slices.Contains(g.pipeline.config.ExcludedNamespaces, ns.Name):
		case ask.Mode == policy.Names && slices.Contains(ask.Names, name):
			named = append(named, ns.Name)
		case ask.Mode == policy.Default && byDefault:
			asked = append(asked, ns.Name)
		}
	}
	var why []string
	if len(named) > 0 {
		why = append(why, fmt.Sprintf("named by %s %s, so their pods would be refused", g.pipeline.injectKey, inNamespaces(named)))
	}
	if len(asked) > 0 {
		why = append(why, fmt.Sprintf(`part of what %s: "true" means %s, so their pods would go without it`, g.pipeline.injectKey, inNamespaces(asked)))
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

package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// GuardOptions are what the guard works with. All fields are required but
// ExcludedNamespaces, Problems, Workloads, Namespaced and Mirrors.
type GuardOptions struct {
	// Compile has the prefix and the installer's values.
	Compile templates.Options
	// ExcludedNamespaces are those that Pillion keeps out of.
	ExcludedNamespaces []string
	// Problems returns why no pod can have a template that compiles. It ends with its context. The error
	// says why that is not known. Nil: nobody is asked.
	Problems func(ctx context.Context, d templates.Document, t *templates.Template) ([]templates.Problem, error)
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Namespaces are those that are known. The maps of one hold until the next one.
	Namespaces func() iter.Seq[templates.Namespace]
	// Workloads returns the workloads and pods that name a template; with byDefault also those
	// that ask by "true". It ends with its context. Nil where they may not be read.
	Workloads func(ctx context.Context, template string, byDefault bool) usage.Found
	// Namespaced returns how many NamespacedSidecarTemplates a namespace has, as far as that is known.
	// Nil: they are not served.
	Namespaced func(namespace string) int
	// Mirrors says that the templates that the cluster has no objects of have mirrors there, which
	// this process writes. Its own writes must not be sent to the guard.
	Mirrors bool
}

// A template that is written waits for the API server's judgement of sample pods, and one that is deleted
// for the cluster's workloads: waitTime at most, and answerTime less than the API server waits.
const (
	waitTime   = 3 * time.Second
	answerTime = time.Second
)

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
	namespaced := r.Kind.Kind == v1alpha1.NamespacedKind
	if !namespaced && r.Kind.Kind != v1alpha1.Kind || r.Kind.Group != g.prefix {
		return Response{}, Malformed("the review is about %s; this webhook is for the SidecarTemplates of %s", r.Kind.String(), g.prefix)
	}
	// What compiles is the spec, and not the copy of it that kubectl keeps in an annotation. An object
	// that cannot be read is refused below.
	var compiles struct {
		Spec part `json:"spec"`
	}
	_ = read(r.Object, &compiles)
	if err := r.memory.hold(ctx, "", templates.Work(compiles.Spec)+rawjson.MaxSize(len(r.Object)+len(r.OldObject))); err != nil {
		return Response{}, err
	}
	switch r.Operation {
	case "CREATE", "UPDATE":
		if namespaced {
			return g.writeNamespaced(ctx, r)
		}
		return g.write(ctx, r)
	case "DELETE":
		if namespaced {
			return Allowed(), nil // those who ask for it are the namespace's own
		}
		return g.delete(ctx, r)
	}
	return Allowed(), nil
}

// write answers for a template that is created or updated. The metadata of a bad
// template may change: its finalizers could otherwise not be removed.
func (g guard) write(ctx context.Context, r *Review) (Response, error) {
	object, spec, err := readObject(r.Object, v1alpha1.Kind)
	if err != nil {
		return Response{}, err
	}
	if r.Operation == "CREATE" {
		if answer, ok := g.createReadOnly(object); ok {
			return answer, nil
		}
	}
	if r.Operation == "UPDATE" {
		old, oldSpec, err := readObject(r.OldObject, v1alpha1.Kind)
		if err != nil {
			return Response{}, err
		}
		same, err := sameJSON(oldSpec, spec)
		if err != nil {
			return Response{}, err
		}
		if answer, ok := g.updateReadOnly(old, object, same); ok {
			return answer, nil
		}
		if same {
			return Allowed(), nil
		}
	}
	options := g.options.Compile
	options.Source = templates.ClusterSource + object.Name
	t, warnings, mistakes := g.compile(ctx, r.Object, options)
	if mistakes != nil {
		return invalidTemplate(*mistakes), nil
	}
	set := g.options.Templates()
	if _, canary := t.Canary(); canary && r.Operation == "UPDATE" {
		if e, ok := set.Get(object.Name); ok && e.Source == options.Source {
			if answer, refused := g.becomesCanary(ctx, object, e); refused {
				return answer, nil
			}
		}
	}
	if e, ok := set.Find(object.Name); ok && e.Source != "" && e.Source != options.Source {
		warnings = append(warnings, fmt.Sprintf("the name %s is taken by %s, which is in force; this object has no effect", object.Name, e.Source))
	}
	return Allowed(append(warnings, canaryWarnings(set, t)...)...), nil
}

// compile compiles a manifest, and has the API server judge the pods that get the template. It returns the
// mistakes, or the template with warnings.
func (g guard) compile(ctx context.Context, manifest part, options templates.Options) (*templates.Template, []string, *templates.CompileError) {
	t, warned, err := templates.Compile(manifest, options)
	var mistakes *templates.CompileError
	if errors.As(err, &mistakes) {
		return nil, nil, mistakes
	}
	if g.options.Problems != nil {
		ctx, cancel := limited(ctx)
		defer cancel()
		// What is not known refuses nothing. The controller asks again, and says why.
		if problems, _ := g.options.Problems(ctx, templates.Document{Manifest: manifest, Line: 1}, t); len(problems) > 0 {
			return nil, nil, &templates.CompileError{Template: t.Name(), Problems: problems}
		}
	}
	var warnings []string
	for _, w := range append(warned, t.TextHazards()...) {
		w.Source = ""
		warnings = append(warnings, w.String())
	}
	return t, warnings, nil
}

// canaryWarnings says why a canary would select nobody, though it compiles alone.
func canaryWarnings(set *templates.Set, t *templates.Template) []string {
	if _, ok := t.Canary(); !ok {
		return nil
	}
	c, _ := templates.NewSet(append(set.All(), templates.Entry{Name: t.Name(), Template: t})).Canary(t.Name())
	if c.Unusable == nil {
		return nil
	}
	return []string{fmt.Sprintf("the canary %s selects no pods: %v", t.Name(), c.Unusable)}
}

// invalidTemplate refuses a template for its mistakes.
func invalidTemplate(mistakes templates.CompileError) Response {
	mistakes.Source = "" // kubectl names the object already
	return refused(reason.TemplateInvalid, mistakes.Error()+"\n`pillion lint FILE --server` says the same, with lines")
}

// refused denies with a message of one line or several, and ends it in the code.
func refused(code reason.Code, message string) Response {
	return Denied(code, strings.Split(message+" ("+string(code)+")", "\n")...)
}

func sameJSON(a, b part) (bool, error) {
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
	return rawjson.Decode(raw)
}

// delete answers for the deletion of a template. Without the template, pods that ask
// for it are refused, and if it is required, pods go without it.
func (g guard) delete(ctx context.Context, r *Review) (Response, error) {
	object, _, err := readObject(r.OldObject, v1alpha1.Kind)
	if err != nil {
		return Response{}, err
	}
	name, key := object.Name, g.prefix+"/allow-delete"
	if templates.IsMirror(g.prefix, object.Labels.value) {
		return g.deleteReadOnly(object), nil
	}
	if value, ok := object.Annotations.value[key]; ok && value != "false" {
		return Allowed(), nil
	}
	entry, ok := g.options.Templates().Get(name)
	if !ok || entry.Source != "" && entry.Source != templates.ClusterSource+name {
		return Allowed(), nil // pods get another template by that name, or none
	}
	why, unread := g.uses(ctx, entry)
	if len(why) == 0 {
		if len(unread) > 0 {
			return Allowed("not looked at, and pods may name " + name + ": " + strings.Join(unread, ", ")), nil
		}
		return Allowed(), nil
	}
	resource := "sidecartemplates." + g.prefix
	return refused(reason.TemplateInUse, fmt.Sprintf(`the SidecarTemplate %s is in use: %s. To have it injected nowhere, and no pod refused: kubectl patch %s %s --type=merge -p '{"spec":{"suspend":true}}'. To delete it nevertheless: kubectl annotate %s %s %s=true`,
		name, strings.Join(why, "; "), resource, name, resource, name, key)), nil
}

// becomesCanary refuses an edit by which a template in use becomes a canary: pods cannot ask for one.
func (g guard) becomesCanary(ctx context.Context, object *objectMeta, entry templates.Entry) (Response, bool) {
	if value, ok := object.Annotations.value[g.prefix+"/allow-delete"]; ok && value != "false" {
		return Response{}, false
	}
	why, _ := g.uses(ctx, entry)
	if len(why) == 0 {
		return Response{}, false
	}
	return refused(reason.TemplateInUse, fmt.Sprintf("the SidecarTemplate %s is in use, and pods cannot ask for a canary: %s. Leave it as it is, and give the canary another metadata.name", entry.Name, strings.Join(why, "; "))), true
}

// uses says what uses a template of the cluster, and what could not be looked at.
func (g guard) uses(ctx context.Context, entry templates.Entry) (why, unread []string) {
	why = g.usedBy(entry.Name, entry)
	found := g.workloads(ctx, entry.Name, entry.InjectByDefault())
	if found.Total > 0 {
		why = append(why, fmt.Sprintf("named by %s, so their new pods would not get what they ask for", show.SomeOf(found.Names, mostListed, found.Total)))
	}
	if len(why) > 0 && len(found.Unread) > 0 {
		why = append(why, "not looked at: "+strings.Join(found.Unread, ", "))
	}
	return why, found.Unread
}

// workloads returns what names the template, as far as there is time to read it.
func (g guard) workloads(ctx context.Context, name string, byDefault bool) usage.Found {
	if g.options.Workloads == nil {
		return usage.Found{Unread: []string{"workloads and pods (rbac.readWorkloads is off)"}}
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	return g.options.Workloads(ctx, name, byDefault)
}

// limited returns a context that ends soon enough for an answer.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Now().Add(waitTime)
	if end, ok := ctx.Deadline(); ok && end.Add(-answerTime).Before(limit) {
		limit = end.Add(-answerTime)
	}
	return context.WithDeadline(ctx, limit)
}

// usedBy says why namespaces need the template. It is empty if they do not.
func (g guard) usedBy(name string, entry templates.Entry) []string {
	var why []string
	if entry.Required() {
		why = append(why, "it is required (spec.required), and pods would go without it")
	}
	injectKey, byDefault := templates.InjectKey(g.prefix), entry.InjectByDefault()
	rules := usage.Rules{Prefix: g.prefix, Excluded: g.options.ExcludedNamespaces}
	var named, asked []string
	for ns := range g.options.Namespaces() {
		switch ask := rules.Asks(ns); {
		case ask.Mode == policy.Names && slices.Contains(ask.Names, name):
			named = append(named, ns.Name)
		case ask.Mode == policy.Default && byDefault:
			asked = append(asked, ns.Name)
		}
	}
	if len(named) > 0 {
		why = append(why, fmt.Sprintf("named by %s %s, so their pods would be refused", injectKey, inNamespaces(named)))
	}
	if len(asked) > 0 {
		why = append(why, fmt.Sprintf(`part of what %s: "true" means %s, so their pods would go without it`, injectKey, inNamespaces(asked)))
	}
	return why
}

// mostListed bounds how many users of a template a message names.
const mostListed = 10

// inNamespaces lists a few namespaces.
func inNamespaces(names []string) string {
	slices.Sort(names)
	if len(names) == 1 {
		return "in the namespace " + names[0]
	}
	return "in the namespaces " + show.Some(names, mostListed)
}

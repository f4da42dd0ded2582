package webhook

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	apiversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// GuardOptions configure the guard. All fields are required but ExcludedNamespaces, Problems
// and Namespaced.
type GuardOptions struct {
	// Compile has the installer's values.
	Compile templates.Options
	// ExcludedNamespaces are the namespaces without injection.
	ExcludedNamespaces []string
	// Problems returns the API server's objections to pods with a template that compiles. It returns
	// when its context ends. The error means that the API server gave no answer. If Problems is nil,
	// the guard checks no sample pods.
	Problems func(ctx context.Context, d templates.Document, t *templates.Template) ([]templates.Problem, error)
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Namespaces returns the cached namespaces. The maps of one are valid until the next one.
	Namespaces func() iter.Seq[templates.Namespace]
	// Namespaced returns the number of cached NamespacedSidecarTemplates of a namespace. It is nil if
	// the API does not serve them.
	Namespaced func(namespace string) int
	// Version is the version of this program.
	Version string
}

// The check of sample pods by the API server takes waitTime at most, and leaves answerTime until the deadline of the
// review.
const (
	waitTime   = 3 * time.Second
	answerTime = time.Second
)

type guard struct {
	options GuardOptions
}

// NewGuard returns the webhook that refuses bad SidecarTemplates, with the messages
// of lint, and the deletion of SidecarTemplates in use.
func NewGuard(o GuardOptions) Webhook {
	return guard{options: o}
}

func (guard) Name() string { return "guard" }

func (g guard) Review(ctx context.Context, r *Review) (Response, error) {
	namespaced := r.Kind.Kind == v1alpha1.NamespacedKind
	if !namespaced && r.Kind.Kind != v1alpha1.Kind || r.Kind.Group != v1alpha1.Group {
		return Response{}, Malformed("the review is about %s; this webhook is for the SidecarTemplates of %s", r.Kind.String(), v1alpha1.Group)
	}
	// Only the spec is compiled, not its copy in kubectl's annotation. A malformed object is refused
	// below.
	var manifest struct {
		Spec part `json:"spec"`
	}
	_ = decodeJSON(r.Object, &manifest)
	if err := r.memory.acquire(ctx, "", templates.Work(manifest.Spec)+rawjson.MaxSize(len(r.Object)+len(r.OldObject))); err != nil {
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
			return Allowed(), nil // only pods of its own namespace use it
		}
		return g.delete(r)
	}
	return Allowed(), nil
}

// readWrite reads the object of a CREATE or UPDATE. The object is nil if an update leaves the spec
// as it is: the metadata of a bad template may change, or its finalizers could not be removed.
func readWrite(r *Review, kind string) (*objectMeta, part, error) {
	object, spec, err := readObject(r.Object, kind)
	if err != nil || r.Operation == "CREATE" {
		return object, spec, err
	}
	_, oldSpec, err := readObject(r.OldObject, kind)
	if err != nil {
		return nil, nil, err
	}
	if same, err := sameJSON(oldSpec, spec); err != nil || same {
		return nil, nil, err
	}
	return object, spec, nil
}

// write answers for a template that is created or updated.
func (g guard) write(ctx context.Context, r *Review) (Response, error) {
	object, _, err := readWrite(r, v1alpha1.Kind)
	if err != nil || object == nil {
		return Allowed(), err
	}
	options := g.options.Compile
	options.Source = templates.ClusterSource + object.Name
	t, warnings, mistakes := g.compile(ctx, r.Object, options)
	if mistakes != nil {
		return g.invalid(object, *mistakes), nil
	}
	set := g.options.Templates()
	if _, canary := t.Canary(); canary && r.Operation == "UPDATE" {
		if e, ok := set.Get(object.Name); ok {
			if answer, refused := g.becomesCanary(object, e); refused {
				return answer, nil
			}
		}
	}
	return Allowed(append(warnings, canaryWarnings(set, t)...)...), nil
}

// compile compiles a manifest, and checks pods with the template by dry run. It returns the mistakes, or the template
// with warnings.
func (g guard) compile(ctx context.Context, manifest part, options templates.Options) (*templates.Template, []string, *templates.CompileError) {
	t, warned, err := templates.Compile(manifest, options)
	var mistakes *templates.CompileError
	if errors.As(err, &mistakes) {
		return nil, nil, mistakes
	}
	if g.options.Problems != nil {
		ctx, cancel := limited(ctx)
		defer cancel()
		// Without an answer of the API server, the template is admitted. The controller checks it again.
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

// canaryWarnings returns the reason why a canary that compiles would select no pods.
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

// invalid answers for a template with mistakes. It only warns if the template's label names a newer version of Pillion:
// during an upgrade, old replicas do not know new fields, and keep the last good version.
func (g guard) invalid(object *objectMeta, mistakes templates.CompileError) Response {
	label := object.Labels.value[v1alpha1.VersionLabel]
	if !isNewer(label, g.options.Version) {
		return invalidTemplate(mistakes)
	}
	mistakes.Source = ""
	return Allowed(fmt.Sprintf("the label of %s names Pillion %s; this replica has version %s, cannot compile the template, and keeps the last good version: %v", object.Name, label, g.options.Version, &mistakes))
}

// isNewer reports whether version a is newer than version b. It returns false if one of them is no version.
func isNewer(a, b string) bool {
	x, err := apiversion.ParseGeneric(a)
	y, wrong := apiversion.ParseGeneric(b)
	return errors.Join(err, wrong) == nil && y.LessThan(x)
}

// invalidTemplate refuses a template for its mistakes.
func invalidTemplate(mistakes templates.CompileError) Response {
	mistakes.Source = "" // kubectl names the object already
	return refused(reason.TemplateInvalid, mistakes.Error()+"\n`pillion lint FILE --server` says the same, with lines")
}

// refused denies with a message of one or more lines, and appends the code.
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

// delete answers for the deletion of a template. It refuses the deletion if a namespace
// requests the template, or if the template is required.
func (g guard) delete(r *Review) (Response, error) {
	object, _, err := readObject(r.OldObject, v1alpha1.Kind)
	if err != nil {
		return Response{}, err
	}
	entry, ok := g.options.Templates().Get(object.Name)
	if !ok || g.mayDelete(object) {
		return Allowed(), nil
	}
	why := g.uses(entry)
	if len(why) == 0 {
		return Allowed(), nil
	}
	// The chart refuses an upgrade with the same words.
	return refused(reason.TemplateInUse, fmt.Sprintf(`the SidecarTemplate %[1]s is in use: %[2]s. To have it injected nowhere, and no pod refused: kubectl patch sidecartemplate %[1]s --type=merge -p '{"spec":{"suspend":true}}'. To delete it nevertheless: kubectl annotate sidecartemplate %[1]s %[3]s=true`,
		object.Name, strings.Join(why, "; "), v1alpha1.AllowDeleteKey)), nil
}

// mayDelete reports whether an annotation of the object permits its deletion while it is in use.
func (g guard) mayDelete(object *objectMeta) bool {
	value, ok := object.Annotations.value[v1alpha1.AllowDeleteKey]
	return ok && value != "false"
}

// becomesCanary refuses an edit by which a template in use becomes a canary: pods cannot ask for one.
func (g guard) becomesCanary(object *objectMeta, entry templates.Entry) (Response, bool) {
	why := g.uses(entry)
	if len(why) == 0 || g.mayDelete(object) {
		return Response{}, false
	}
	return refused(reason.TemplateInUse, fmt.Sprintf("the SidecarTemplate %s is in use, and pods cannot ask for a canary: %s. Leave it as it is, and give the canary another metadata.name", entry.Name, strings.Join(why, "; "))), true
}

// limited returns a context that ends soon enough for an answer.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Now().Add(waitTime)
	if end, ok := ctx.Deadline(); ok && end.Add(-answerTime).Before(limit) {
		limit = end.Add(-answerTime)
	}
	return context.WithDeadline(ctx, limit)
}

// uses returns the reasons why namespaces need the template.
func (g guard) uses(entry templates.Entry) []string {
	var why []string
	if entry.Required() {
		why = append(why, "it is required (spec.required), and pods would go without it")
	}
	injectKey, registration := v1alpha1.InjectKey, entries.Registration{Excluded: g.options.ExcludedNamespaces}
	var named, asked []string
	for ns := range g.options.Namespaces() {
		value, ok := ns.Annotations[injectKey]
		ask, err := policy.ParseAnnotation(value, ok, policy.Namespace)
		switch {
		case err != nil || registration.KeepsOut(ns):
		case ask.Mode == policy.Names && slices.Contains(ask.Names, entry.Name):
			named = append(named, ns.Name)
		case ask.Mode == policy.Default && entry.InjectByDefault():
			asked = append(asked, ns.Name)
		}
	}
	if len(named) > 0 {
		why = append(why, fmt.Sprintf("named by %s %s, whose pods would be refused", injectKey, inNamespaces(named)))
	}
	if len(asked) > 0 {
		why = append(why, fmt.Sprintf(`part of what %s: "true" means %s, whose pods would go without it`, injectKey, inNamespaces(asked)))
	}
	return why
}

// maxListed bounds how many users of a template a message names.
const maxListed = 10

// inNamespaces lists a few namespaces.
func inNamespaces(names []string) string {
	slices.Sort(names)
	if len(names) == 1 {
		return "in the namespace " + names[0]
	}
	return "in the namespaces " + show.Some(names, maxListed)
}

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

// GuardOptions are what the guard works with. All fields are required but
// ExcludedNamespaces, Problems and Namespaced.
type GuardOptions struct {
	// Compile has the installer's values.
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
	// Namespaced returns how many NamespacedSidecarTemplates a namespace has, as far as that is known.
	// Nil: they are not served.
	Namespaced func(namespace string) int
	// Version is that of this program.
	Version string
}

// A template that is written waits for the API server's judgement of sample pods: waitTime at most, and answerTime
// less than the API server waits.
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
		return g.delete(r)
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
	if r.Operation == "UPDATE" {
		_, oldSpec, err := readObject(r.OldObject, v1alpha1.Kind)
		if err != nil {
			return Response{}, err
		}
		if same, err := sameJSON(oldSpec, spec); err != nil || same {
			return Allowed(), err
		}
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

// invalid answers for a template with mistakes. It only warns of one that is labelled with a newer version of Pillion:
// during an upgrade the replicas that are about to be replaced do not know what is new, and keep the last good version.
func (g guard) invalid(object *objectMeta, mistakes templates.CompileError) Response {
	label := object.Labels.value[v1alpha1.VersionLabel]
	if !isNewer(label, g.options.Version) {
		return invalidTemplate(mistakes)
	}
	mistakes.Source = ""
	return Allowed(fmt.Sprintf("%s is for Pillion %s, and this replica is of version %s, which keeps the last good version. It says: %v", object.Name, label, g.options.Version, &mistakes))
}

// isNewer reports whether a version is newer than another one, as far as both are known.
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

// mayDelete reports whether an object says that it may be deleted though it is in use.
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

// uses says why namespaces need the template. It is empty if they do not.
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

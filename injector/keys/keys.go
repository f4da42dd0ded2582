package keys

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Level is the kind of object that has the keys.
type Level string

// The levels of objects with keys.
const (
	Namespace Level = "namespace"
	// Workload is the metadata of a workload itself: of a Deployment, not of its pod template.
	Workload Level = "workload"
	// Pod is the metadata of a pod, or of a pod template.
	Pod Level = "pod"
)

// Field is the field of the metadata that has the key.
type Field string

// The fields with keys.
const (
	Annotation Field = "annotation"
	Label      Field = "label"
)

// MaxFindings bounds the findings of an object, which may have tens of thousands of keys.
const MaxFindings = 10

// Finding is a key with a mistake.
type Finding struct {
	Field      Field
	Key, Value string
	// Says completes the sentence that begins with the key. The last finding of too many has only this text.
	Says string
	// OnWorkload is set for a pod's annotation on its workload.
	OnWorkload bool
}

// String returns the finding as a sentence, without control characters.
func (f Finding) String() string {
	if f.Key == "" {
		return f.Says
	}
	return fmt.Sprintf("%s %s %s", f.Field, show.Plain(f.Key), f.Says)
}

// Object is the metadata of one object.
type Object struct {
	Level Level
	// Kind names the object in sentences, such as Deployment. Default: the level.
	Kind                string
	Labels, Annotations map[string]string
	// PodLabels and PodAnnotations are those of a workload's pod template. A key that is on both objects is
	// checked there.
	PodLabels, PodAnnotations map[string]string
}

// Rules have the templates and settings by which keys are checked.
type Rules struct {
	Templates *templates.Set
	// Namespace has the labels of the object's namespace. Check suggests only templates that are available
	// there.
	Namespace map[string]string
	// Concerned reports whether the pipeline itself refuses unknown parameters of a template. Nil means all
	// templates.
	Concerned func(template string) bool
	// TemplatesUnread means that Templates is not known. Every key of a template then counts as a parameter.
	TemplatesUnread bool
}

// Check returns a finding for each key of Pillion's with a mistake, labels before annotations, in
// the order of the keys.
func Check(r Rules, o Object) []Finding {
	o.Kind = cmp.Or(o.Kind, string(o.Level))
	if r.Templates == nil {
		r.Templates = templates.NewSet(nil)
	}
	found := r.check(o, Label, o.Labels, o.PodLabels)
	found = append(found, r.check(o, Annotation, o.Annotations, o.PodAnnotations)...)
	if len(found) > MaxFindings {
		found = append(found[:MaxFindings], Finding{Says: "more keys under " + v1alpha1.Group + " have no effect, too"})
	}
	return found
}

// check returns the findings of one field, at most one more than allowed.
func (r Rules) check(o Object, field Field, entries, ofPods map[string]string) (found []Finding) {
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		template, name, under := Under(key)
		near := otherDomain.FindStringSubmatch(key)
		if _, both := ofPods[key]; !under && near == nil || both || isWritten(o.Level, field, template, name) {
			continue
		}
		f := Finding{Field: field, Key: key, Value: entries[key]}
		switch isAnnotation := r.isAnnotation(template, name); {
		case !under:
			f.Says = "is not one of Pillion's; did you mean the annotation " + near[1] + v1alpha1.Group + "/" + near[2] + o.ofPods() + "?"
		case isAnnotation && field == Label:
			f.Says = "has no effect as a label: write it as an annotation" + o.ofPods()
		case isAnnotation && o.Level == Workload:
			f.Says, f.OnWorkload = fmt.Sprintf("has no effect on the %s itself: it belongs to its pods, in %s", o.Kind, o.podAnnotations()), true
		case isAnnotation, template != "" && o.Level == Pod && r.refuses(template):
			continue
		default:
			f.Says = "is not recognised" + r.instead(o, template, name)
		}
		if found = append(found, f); len(found) > MaxFindings {
			break
		}
	}
	return found
}

// otherDomain matches a key under another domain of Pillion's name, such as pillion.io/inject.
var otherDomain = regexp.MustCompile(`^([a-z0-9-]+\.)?pillion(?:\.[a-z]+)?/(.+)$`)

// Under reports whether a key is Pillion's, or one of a template, and returns
// the template's name, "" for a key of Pillion itself.
func Under(key string) (template, name string, ok bool) {
	domain, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", "", false
	}
	if domain == v1alpha1.Group {
		return "", name, true
	}
	template, ok = strings.CutSuffix(domain, "."+v1alpha1.Group)
	return template, name, ok
}

// namespaceLabels are the labels of namespaces, by their names after the prefix.
var namespaceLabels = []string{"injection", "required", "proof"}

// isWritten reports whether Pillion itself writes the key, or the key is a label of namespaces.
func isWritten(level Level, field Field, template, name string) bool {
	switch {
	case level == Namespace:
		return field == Label && template == "" && slices.Contains(namespaceLabels, name)
	case level == Pod && field == Label:
		return template == "" && name == "injected" || template != "" && name == "hash"
	}
	return level == Pod && (template == "" && name == "status" || strings.HasSuffix(template, ".files"))
}

// isAnnotation reports whether Pillion reads an annotation of pods or namespaces. All annotations of a broken
// template count.
func (r Rules) isAnnotation(template, name string) bool {
	if template == "" {
		return name == "inject"
	}
	if r.TemplatesUnread {
		return true
	}
	parameters, isTemplate := r.parameters(template, name)
	return isTemplate && (parameters == nil || slices.Contains(parameters, name))
}

// parameters returns the annotation names of a template's parameters, without the prefix and in all versions.
// For a parameter of type map it returns the entry that name may mean. It returns nil for a broken template.
func (r Rules) parameters(template, name string) (names []string, isTemplate bool) {
	e, isTemplate := r.Templates.Get(template)
	if e.Template == nil {
		return nil, isTemplate
	}
	versions := []*templates.Template{e.Template}
	for _, canary := range r.Templates.CanariesOf(template) {
		if canary.InForce() {
			versions = append(versions, canary.Version)
		}
	}
	_, key, _ := strings.Cut(name, ".")
	names = []string{}
	for _, version := range versions {
		for _, p := range version.Parameters() {
			suffix := strings.TrimPrefix(p.Annotation, template+"."+v1alpha1.Group+"/")
			if p.Type == v1alpha1.Map {
				suffix = strings.TrimSuffix(suffix, "KEY") + cmp.Or(key, "KEY")
			}
			names = append(names, suffix)
		}
	}
	return names, true
}

// refuses reports whether the pipeline refuses pods with an unknown parameter of a template.
func (r Rules) refuses(template string) bool {
	_, isTemplate := r.Templates.Get(template)
	return isTemplate && (r.Concerned == nil || r.Concerned(template))
}

// instead completes the message about an unknown key.
func (r Rules) instead(o Object, template, name string) string {
	inject := "the annotation " + v1alpha1.InjectKey + o.ofPods()
	parameters, isTemplate := r.parameters(template, name)
	switch {
	case isTemplate && name == "inject":
		return fmt.Sprintf("; to ask for the template write %s into %s", template, inject)
	case isTemplate:
		return fmt.Sprintf(": the template %s has no such parameter%s", template, nearest.Hint(name, parameters))
	case template != "":
		var names []string
		for _, e := range r.Templates.Entries() {
			if !e.Suspended() && e.AvailableTo(r.Namespace) {
				names = append(names, e.Name)
			}
		}
		return fmt.Sprintf(": there is no template %s%s", show.Value(template), nearest.Hint(template, names))
	}
	if near, ok := nearest.Name(name, namespaceLabels[:1]); ok && near != name && o.Level == Namespace {
		return "; did you mean the label " + v1alpha1.Group + "/" + near + "?"
	}
	if _, ok := nearest.Name(name, []string{"inject"}); ok || strings.HasPrefix(name, "inject") || strings.HasPrefix(name, "sidecar") {
		return "; did you mean " + inject + "?"
	}
	return fmt.Sprintf(" on a %s: %s asks for a template, and TEMPLATE.%s/PARAMETER sets a parameter", o.Kind, inject, v1alpha1.Group)
}

func (o Object) podAnnotations() string {
	return strings.Join(append(owner.TemplatePath(o.Kind), "metadata", "annotations"), ".")
}

// ofPods completes the name of an annotation if the object is a workload.
func (o Object) ofPods() string {
	if o.Level != Workload {
		return ""
	}
	return " of its pods (" + o.podAnnotations() + ")"
}

package keys

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Level says what an object is.
type Level string

// The levels at which keys stand.
const (
	Namespace Level = "namespace"
	// Workload is the metadata of a workload itself: of a Deployment, not of its pod template.
	Workload Level = "workload"
	// Pod is the metadata of a pod, or of a pod template.
	Pod Level = "pod"
)

// Field is the field of the metadata that a key stands in.
type Field string

// The fields with keys.
const (
	Annotation Field = "annotation"
	Label      Field = "label"
)

// Mistake is what is wrong with a key.
type Mistake string

// The mistakes, in the words of a program. [Finding.Says] has the sentence.
const (
	// OnWorkload: the annotation is read from pods, and stands on the workload.
	OnWorkload Mistake = "OnWorkload"
	// WrongField: a label stands in the place of an annotation, or the other way round.
	WrongField Mistake = "WrongField"
	// WrongObject: the key means something on objects of another kind.
	WrongObject Mistake = "WrongObject"
	// WrongValue: the label of a namespace has a value that it cannot have.
	WrongValue Mistake = "WrongValue"
	// UnknownKey: Pillion has no such key.
	UnknownKey Mistake = "UnknownKey"
	// UnknownTemplate: the key is a parameter's, and there is no such template.
	UnknownTemplate Mistake = "UnknownTemplate"
	// UnknownParameter: the template has no such parameter.
	UnknownParameter Mistake = "UnknownParameter"
	// NotInjected: nothing asks for the template whose parameter it is.
	NotInjected Mistake = "NotInjected"
	// More stands for the findings beyond the first [MaxFindings].
	More Mistake = "More"
)

// MaxFindings is how many keys of an object are told of one by one.
const MaxFindings = 10

// Bounds of the work on one object, which may have tens of thousands of keys.
const (
	// maxCompared is how many keys are compared with what all templates select and are named.
	// An honest object has few: most of its keys mean something at first sight.
	maxCompared = 50
)

// Finding is one key that means nothing.
type Finding struct {
	Field      Field
	Key, Value string
	Mistake    Mistake
	// Says is what is wrong, and what to write: a clause that goes on after the key.
	Says string
	// Instead is the key to write, "" if none is near.
	Instead string
}

// String returns the finding as a sentence, without control characters.
func (f Finding) String() string {
	if f.Mistake == More {
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
	// PodLabels and PodAnnotations are those of a workload's pod template. What its tools write
	// to both is judged there.
	PodLabels, PodAnnotations map[string]string
}

// Rules are what the keys are judged by.
type Rules struct {
	// Prefix is the annotation prefix. Default: [templates.DefaultPrefix].
	Prefix    string
	Templates *templates.Set
	// Namespace has the labels of the object's namespace: no template is proposed that is not
	// available there.
	Namespace map[string]string
	// Concerned reports whether something asks for a template in the pod, or speaks against
	// it: then the pipeline has said what is wrong. Nil: of all templates.
	Concerned func(template string) bool
}

// Check returns a finding for each key under the prefix that means nothing, labels before
// annotations, in the order of the keys. The same input gives the same findings.
func Check(r Rules, o Object) []Finding {
	r.Prefix = cmp.Or(r.Prefix, templates.DefaultPrefix)
	if r.Templates == nil {
		r.Templates = templates.NewSet(nil)
	}
	c := checker{Rules: r, object: o}
	for _, field := range []Field{Label, Annotation} {
		entries, below := o.Labels, o.PodLabels
		if field == Annotation {
			entries, below = o.Annotations, o.PodAnnotations
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if value, ok := below[key]; !ok || value != entries[key] {
				c.check(field, key, entries[key])
			}
		}
	}
	if c.more > 0 {
		c.found = append(c.found, Finding{Mistake: More, Says: fmt.Sprintf("%d more keys under %s may have no effect either", c.more, c.Prefix)})
	}
	return c.found
}

// Under reports whether a key is under a prefix, or under a template's part of it, and returns
// the template's name, "" for a key of Pillion itself.
func Under(prefix, key string) (template, name string, ok bool) {
	domain, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", "", false
	}
	if domain == prefix {
		return "", name, true
	}
	template, ok = strings.CutSuffix(domain, "."+prefix)
	return template, name, ok
}

// own are Pillion's own keys, by their names after the prefix.
var own = map[string]struct {
	field Field
	level Level
	// pillions is set for a key that only Pillion, or its chart, writes.
	pillions bool
	// of names the object, where no level does.
	of string
}{
	"inject":       {field: Annotation, level: Pod}, // and of namespaces: see check
	"status":       {field: Annotation, level: Pod, pillions: true},
	"injected":     {field: Label, level: Pod, pillions: true},
	"injection":    {field: Label, level: Namespace},
	"required":     {field: Label, level: Namespace, pillions: true},
	"proof":        {field: Label, level: Namespace, pillions: true},
	"allow-delete": {field: Annotation, of: "SidecarTemplate"},
	"mirror":       {field: Label, of: "SidecarTemplate", pillions: true},
	"source":       {field: Annotation, of: "SidecarTemplate", pillions: true},
	"uninstall":    {field: Label, of: "ConfigMap", pillions: true},
	// Which version of a release writes mirrors.
	"mirror-revision": {field: Annotation, of: "ValidatingAdmissionPolicy", pillions: true},
}

// injectionValues are those of the label that says whether Pillion is called.
var injectionValues = []string{templates.InjectionEnabled, templates.InjectionEnforced, templates.InjectionDisabled}

// checker is one object while it is looked at.
type checker struct {
	Rules
	object Object
	found  []Finding
	// more are the keys that were not looked at, compared those that were compared with all
	// templates.
	more, compared int
	// without are the labels of a namespace, but for the one that is compared.
	without map[string]string
	// available are the names of the templates that the namespace may have.
	available []string
	listed    bool
}

func (c *checker) add(f Finding) { c.found = append(c.found, f) }

func (c *checker) check(field Field, key, value string) {
	template, name, ok := Under(c.Prefix, key)
	if !ok || c.means(field, template, name, value) || ofLongerPrefix(template) {
		return
	}
	if len(c.found) >= MaxFindings || c.compared >= maxCompared {
		c.more++
		return
	}
	c.compared++
	if field == Label && c.selected(key) || c.ofAnotherInstall(template, name) {
		return
	}
	f := Finding{Field: field, Key: key, Value: value}
	if template == "" {
		c.ownKey(&f, name)
	} else {
		c.parameter(&f, template, name)
	}
	c.add(f)
}

// means reports whether a key means something where it stands, or is somebody else's to judge.
func (c *checker) means(field Field, template, name, value string) bool {
	level := c.object.Level
	if template == "" {
		k, known := own[name]
		switch {
		case !known || k.of != "" || k.field != field:
			return false
		case name == "inject":
			return level != Workload
		case name == "injection" && level == Namespace:
			return slices.Contains(injectionValues, value)
		}
		return k.level == level
	}
	if of, ok := strings.CutSuffix(template, ".files"); ok && level == Pod && field == Annotation && !strings.Contains(of, ".") {
		return true // the text of a template's file
	}
	if field == Label {
		return level == Pod && name == "hash" // of a template that was injected
	}
	entry, known := c.Templates.Get(template)
	switch {
	case !known || level == Workload:
		return false
	case level == Namespace:
		return c.isParameter(entry, name)
	}
	return c.Concerned == nil || c.Concerned(template)
}

// selected reports whether a template selects namespaces or pods by the label.
func (c *checker) selected(key string) bool {
	if c.object.Level == Workload {
		return false
	}
	if c.object.Level == Namespace {
		if c.without == nil {
			c.without = maps.Clone(c.object.Labels)
		}
		delete(c.without, key)
		defer func() { c.without[key] = c.object.Labels[key] }()
	}
	for place := range c.Templates.Len() {
		e := c.Templates.At(place)
		names := func(namespace, pod labels.Selector) bool {
			selector := pod
			if c.object.Level == Namespace {
				selector = namespace
			}
			requirements, _ := selector.Requirements()
			return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == key })
		}
		if namespace, pod, ok := e.Match(); ok && names(namespace, pod) {
			return true
		}
		if slices.ContainsFunc(e.Exceptions(), func(e templates.Exception) bool { return names(e.Selectors()) }) {
			return true
		}
		if c.object.Level == Namespace && e.AvailableTo(c.object.Labels) != e.AvailableTo(c.without) {
			return true
		}
	}
	return c.selectedByCanary(key)
}

// selectedByCanary reports whether a canary selects namespaces or pods by the label.
func (c *checker) selectedByCanary(key string) bool {
	return slices.ContainsFunc(c.Templates.Canaries(), func(canary templates.Canary) bool {
		declared, _ := canary.Template.Canary()
		selector := declared.PodSelector
		if c.object.Level == Namespace {
			selector = declared.NamespaceSelector
		}
		if selector == nil {
			return false
		}
		_, named := selector.MatchLabels[key]
		return named || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
	})
}

// ofLongerPrefix reports whether a key is a template's of an install with a longer prefix, such
// as beta.pillion.dev: no template has a dot in its name.
func ofLongerPrefix(template string) bool {
	return strings.Contains(template, ".") && !strings.HasSuffix(template, ".files")
}

// ofAnotherInstall reports whether a key is an install's own that has a longer prefix, such as
// beta.pillion.dev: it looks like that of a template beta.
func (c *checker) ofAnotherInstall(template, name string) bool {
	if template == "" || strings.Contains(template, ".") {
		return false
	}
	_, known := c.Templates.Get(template)
	_, reserved := own[name]
	if known || !reserved {
		return false
	}
	_, near := nearest.Name(template, c.names())
	return !near
}

// ownKey says what is wrong with a key of Pillion itself.
func (c *checker) ownKey(f *Finding, name string) {
	level, inject := c.object.Level, templates.InjectKey(c.Prefix)
	k, known := own[name]
	switch {
	case !known || f.Field == Annotation && name == "injection" && !slices.Contains(injectionValues, f.Value):
		f.Mistake = UnknownKey
		c.nearKey(f, name)
	case level == Namespace && name == "injection" && f.Field == Label:
		f.Mistake, f.Says = WrongValue, fmt.Sprintf("must be one of %[2]s; got %[1]s", show.Value(f.Value), strings.Join(injectionValues, ", "))
	case k.of != "":
		f.Mistake, f.Says = WrongObject, fmt.Sprintf("has no effect on a %s: it is for a %s", c.kind(), k.of)
	case name == "inject" && f.Field == Label:
		f.Mistake, f.Instead = WrongField, inject
		f.Says = fmt.Sprintf("has no effect as a label: %s is an annotation%s", inject, c.ofPods())
	case name == "inject":
		c.onWorkload(f)
	case name == "injection" && level != Namespace:
		f.Mistake, f.Instead = WrongObject, inject
		f.Says = fmt.Sprintf("has no effect on a %s: it is a label of namespaces; for one pod use the annotation %s", c.kind(), inject)
	case k.level == level: // the other field
		f.Mistake, f.Instead = WrongField, f.Key
		f.Says = fmt.Sprintf("has no effect here: %s is %s", f.Key, an(k.field))
	default:
		f.Mistake = WrongObject
		f.Says = fmt.Sprintf("has no effect on a %s: it is %s of %ss", c.kind(), an(k.field), k.level)
	}
	if k.pillions {
		f.Instead = ""
		f.Says += ", and Pillion writes it itself; remove it"
	}
}

// nearKey proposes a key for one that does not exist.
func (c *checker) nearKey(f *Finding, name string) {
	inject := templates.InjectKey(c.Prefix)
	known := []string{"inject"}
	if c.object.Level == Namespace && f.Field == Label {
		known = append(known, "injection")
	}
	near, ok := nearest.Name(name, known)
	switch {
	case ok && near == "injection":
		f.Instead = c.Prefix + "/injection"
		f.Says = fmt.Sprintf("is not recognised; did you mean %s?", f.Instead)
	case ok || strings.HasPrefix(name, "inject") || strings.HasPrefix(name, "sidecar"):
		f.Instead = inject
		f.Says = fmt.Sprintf("is not recognised; did you mean the annotation %s%s?", inject, c.ofPods())
	default:
		f.Says = fmt.Sprintf("is not recognised: to ask for a template use the annotation %s%s, for its parameters TEMPLATE.%s/PARAMETER", inject, c.ofPods(), c.Prefix)
	}
}

// parameter says what is wrong with a key of a template.
func (c *checker) parameter(f *Finding, template, name string) {
	if of, ok := strings.CutSuffix(template, ".files"); ok {
		f.Mistake = WrongObject
		f.Says = fmt.Sprintf("has no effect on a %s: Pillion itself writes the files of the template %s into annotations of pods; remove it", c.kind(), show.Plain(of))
		return
	}
	entry, known := c.Templates.Get(template)
	if !known {
		f.Mistake = UnknownTemplate
		f.Says = fmt.Sprintf("is not recognised: there is no template %s", show.Value(template))
		if stable, ok := c.Templates.Canary(template); ok {
			f.Instead = stable.Of + "." + c.Prefix + "/" + name
			f.Says = fmt.Sprintf("has no effect: %s is a canary of the template %s, whose parameters hold for it: %s", show.Value(template), show.Value(stable.Of), show.Plain(f.Instead))
		} else if near, ok := nearest.Name(template, c.names()); ok {
			f.Instead = near + "." + c.Prefix + "/" + name
			f.Says += "; did you mean " + show.Plain(f.Instead) + "?"
		} else {
			f.Says += c.list()
		}
		return
	}
	if !c.isParameter(entry, name) {
		f.Mistake = UnknownParameter
		f.Says = fmt.Sprintf("is not recognised: the template %s has no such parameter", template)
		if c.object.Level == Namespace {
			f.Says = fmt.Sprintf("is no parameter of the template %s, so pods that get the template are refused", template)
		}
		switch suffix := nearParameter(entry, c.Prefix, name); {
		case name == "inject":
			f.Instead = templates.InjectKey(c.Prefix)
			f.Says += fmt.Sprintf("; to have it injected set %s: %s", f.Instead, template)
		case suffix != "":
			f.Instead = template + "." + c.Prefix + "/" + suffix
			f.Says += "; did you mean " + show.Plain(f.Instead) + "?"
		default:
			f.Says += "; pillion params " + template + " lists its parameters"
		}
		return
	}
	f.Instead = f.Key
	switch {
	case f.Field == Label:
		f.Mistake = WrongField
		f.Says = "has no effect as a label: parameters of templates are annotations" + c.ofPods()
	case c.object.Level == Workload:
		c.onWorkload(f)
	default:
		f.Mistake, f.Instead = NotInjected, templates.InjectKey(c.Prefix)
		f.Says = fmt.Sprintf("has no effect: nothing asks for the template %s in this pod; ask for it with the annotation %s, or remove this one", template, f.Instead)
	}
}

// onWorkload says where an annotation of pods belongs. One that the pods have with another value
// has no place to go to: what they say is meant.
func (c *checker) onWorkload(f *Finding) {
	f.Mistake = OnWorkload
	in := strings.Join(append(owner.TemplatePath(c.object.Kind), "metadata", "annotations"), ".")
	if own, ok := c.object.PodAnnotations[f.Key]; ok {
		f.Instead = ""
		f.Says = fmt.Sprintf("has no effect on the %s itself: its pods have the value %s, in %s; remove this one", c.kind(), show.Value(own), in)
		return
	}
	f.Instead = f.Key
	f.Says = fmt.Sprintf("has no effect on the %s itself: it belongs to its pods, in %s", c.kind(), in)
}

// ofPods says whose annotation a key is, where the object is neither pod nor namespace.
func (c *checker) ofPods() string {
	if c.object.Level != Workload {
		return ""
	}
	return " of its pods (" + strings.Join(append(owner.TemplatePath(c.object.Kind), "metadata", "annotations"), ".") + ")"
}

func (c *checker) kind() string { return cmp.Or(c.object.Kind, string(c.object.Level)) }

func an(f Field) string {
	if f == Annotation {
		return "an annotation"
	}
	return "a label"
}

// names are those of the templates that the namespace may have.
func (c *checker) names() []string {
	if !c.listed {
		c.listed = true
		for place := range c.Templates.Len() {
			if e := c.Templates.At(place); !e.Suspended() && e.AvailableTo(c.Namespace) {
				c.available = append(c.available, e.Name)
			}
		}
		slices.Sort(c.available)
	}
	return c.available
}

// list says which templates there are, if they are few.
func (c *checker) list() string {
	const most = 8
	if n := len(c.names()); n == 0 || n > most {
		return ""
	}
	return "; the templates are " + strings.Join(c.names(), ", ")
}

// suffixes are the names of parameters' annotations after the prefix, and mapped those of maps
// among them, which a key follows.
func suffixes(e templates.Entry, prefix string) (plain, mapped []string) {
	for _, p := range e.Template.Parameters() {
		suffix := strings.TrimPrefix(p.Annotation, e.Name+"."+prefix+"/")
		if p.Type == v1alpha1.Map {
			mapped = append(mapped, strings.TrimSuffix(suffix, "KEY"))
		} else {
			plain = append(plain, suffix)
		}
	}
	return plain, mapped
}

// isParameter reports whether a name is that of a parameter's annotation, in some version of the
// template.
func (c *checker) isParameter(e templates.Entry, name string) bool {
	if isParameter(e, c.Prefix, name) {
		return true
	}
	return slices.ContainsFunc(c.Templates.CanariesOf(e.Name), func(canary templates.Canary) bool {
		return canary.InForce() && isParameter(templates.Entry{Name: e.Name, Template: canary.Version}, c.Prefix, name)
	})
}

// isParameter reports whether a name is that of a parameter's annotation. Of a broken template
// every name counts.
func isParameter(e templates.Entry, prefix, name string) bool {
	if e.Template == nil {
		return true
	}
	plain, mapped := suffixes(e, prefix)
	return slices.Contains(plain, name) || slices.ContainsFunc(mapped, func(begin string) bool { return strings.HasPrefix(name, begin) && len(name) > len(begin) })
}

// nearParameter returns the name of a parameter's annotation that was probably meant, or "".
func nearParameter(e templates.Entry, prefix, name string) string {
	plain, mapped := suffixes(e, prefix)
	for _, begin := range mapped {
		suffix := begin + "KEY"
		if _, key, ok := strings.Cut(name, "."); ok {
			suffix = begin + key
		}
		plain = append(plain, suffix)
	}
	near, _ := nearest.Name(name, plain)
	return near
}

package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Note says what is not carried over, and what to do.
type Note struct {
	// Of is the object that it is about, as KIND/NAME, and At the place in it. At may be empty.
	Of, At string
	Text   string
}

func (n Note) String() string {
	if n.At == "" {
		return n.Of + ": " + n.Text
	}
	return n.Of + ": " + n.At + ": " + n.Text
}

// Import makes templates of documents. A document of another kind gets a note.
func Import(documents []workload.Document) ([]map[string]any, []Note) {
	i := importer{names: map[string]bool{}}
	for _, d := range documents {
		i.objects = append(i.objects, d.Object)
	}
	for _, object := range i.objects {
		i.object(object)
	}
	if len(i.templates) == 0 && len(i.notes) == 0 {
		i.noteAbout("the file", "", "has nothing in it that changes pods")
	}
	return i.templates, i.notes
}

type importer struct {
	// objects are all of the file: a policy looks for its binding there.
	objects   []map[string]any
	templates []map[string]any
	notes     []Note
	names     map[string]bool
}

// format is a kind of object that has templates, and how it is read.
type format struct {
	kind string
	read func(*importer, map[string]any)
}

func formats() []format {
	return []format{
		{"ConfigMap", (*importer).configMap},
		{"SidecarSet", (*importer).sidecarSet},
		{"IstioOperator", (*importer).istioValues},
		{"Istio", (*importer).istioValues},
		{"ClusterPolicy", (*importer).kyverno},
		{"Policy", (*importer).kyverno},
		{"MutatingPolicy", (*importer).admissionPolicy},
		{"MutatingAdmissionPolicy", (*importer).admissionPolicy},
		{"MutatingAdmissionPolicyBinding", func(*importer, map[string]any) {}}, // read with its policy
	}
}

func (i *importer) object(o map[string]any) {
	kind, _ := o["kind"].(string)
	items, isList := o["items"].([]any)
	known := formats()
	is := slices.IndexFunc(known, func(f format) bool { return f.kind == kind })
	switch {
	case isList && strings.HasSuffix(kind, "List"):
		for _, item := range items {
			if below, ok := item.(map[string]any); ok {
				i.objects = append(i.objects, below)
			}
		}
		for _, item := range items {
			if below, ok := item.(map[string]any); ok {
				i.object(below)
			}
		}
	case is >= 0:
		known[is].read(i, o)
	case kind == "" && o["sidecarInjectorWebhook"] != nil:
		i.istioTemplates("the Helm values", at(o, "sidecarInjectorWebhook"))
	case kind == "" && o["templates"] != nil:
		i.istioTemplates("the Istio configuration", o)
	case kind == "" && o["name"] != nil:
		i.tumblr(o)
	default:
		i.noteAbout(workload.NameOf(o), "", "is of no format that is read here; docs/how-to/migrate.md lists them")
	}
}

func (i *importer) noteAbout(of, at, text string) {
	i.notes = append(i.notes, Note{Of: of, At: at, Text: text})
}

// draft is the template under construction.
type draft struct {
	*importer
	of, name   string
	spec       map[string]any
	conditions []any
	// isSuspended is set if the pods that get the template, or a part of its fragment, are not known.
	isSuspended bool
	// code finds what is no data in a text, and source tells it as it was written.
	code   *regexp.Regexp
	source func(string) string
	// anchors: keys such as +(name) are Kyverno's.
	anchors bool
	// overwrite: the format replaces a label or an annotation of the pod.
	overwrite bool
}

func (i *importer) draft(of, name string) *draft {
	return &draft{importer: i, of: of, name: name, spec: map[string]any{"description": "Imported from " + of + "."}, source: func(text string) string { return text }}
}

// addNote reports a field that the template lacks.
func (d *draft) addNote(at, text string) { d.noteAbout(d.of, at, text) }

// suspend reports a condition, or a part of the fragment, that the template lacks and that no pod may do without.
func (d *draft) suspend(at, text string) {
	d.isSuspended = true
	d.addNote(at, text)
}

// set sets a value in the template's spec. Lists and objects are added to what is there.
func (d *draft) set(value any, path ...string) {
	at := d.spec
	for _, name := range path[:len(path)-1] {
		below, ok := at[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[name] = below
		}
		at = below
	}
	last := path[len(path)-1]
	switch value := value.(type) {
	case []any:
		have, _ := at[last].([]any)
		at[last] = append(have, value...)
	case map[string]any:
		have, ok := at[last].(map[string]any)
		if !ok {
			have = map[string]any{}
			at[last] = have
		}
		maps.Copy(have, value)
	default:
		at[last] = value
	}
}

var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// finish adds the template, if it injects something.
func (d *draft) finish() {
	if at(d.spec, "inject") == nil {
		d.addNote("", "nothing in it can be injected: no template is made")
		return
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(d.name), "-"), "-")
	name = strings.TrimRight(name[:min(len(name), 63)], "-")
	name = cmp.Or(name, "imported")
	for n, base := 2, name; d.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base[:min(len(base), 60)], n)
	}
	d.names[name] = true
	if name != d.name {
		d.addNote("name", fmt.Sprintf("%q is no DNS label, or taken: the template is %q", d.name, name))
	}
	template := map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "metadata": map[string]any{"name": name}, "spec": d.spec}
	if len(d.conditions) > 0 {
		d.spec["matchConditions"] = d.conditions
		if err := compile(template); err != nil && compile(without(template, "matchConditions")) == nil {
			delete(d.spec, "matchConditions")
			d.suspend("conditions", fmt.Sprintf("do not hold for every pod: %v. Write them in matchConditions", err))
		}
	}
	for _, list := range append([]string{"volumes"}, containerLists...) {
		for _, item := range listAt(d.spec, "inject", "spec", list) {
			if name := textAt(item, "name"); name != "" && len(validation.IsDNS1123Label(name)) > 0 {
				d.addNote(list, fmt.Sprintf("the name %s is no DNS label, and the API refuses it: write another one", show.Value(name)))
			}
		}
	}
	if d.isSuspended {
		d.spec["suspend"] = true
		d.addNote("", "the template is suspended: remove spec.suspend when all of this is done")
	}
	if err := compile(template); err != nil {
		d.addNote("", fmt.Sprintf("the template has to be corrected: %v", err))
	}
	d.templates = append(d.templates, template)
}

// without returns a template whose spec lacks a field.
func without(template map[string]any, field string) map[string]any {
	template = maps.Clone(template)
	spec := maps.Clone(template["spec"].(map[string]any))
	delete(spec, field)
	template["spec"] = spec
	return template
}

func compile(template map[string]any) error {
	text, err := json.Marshal(template)
	if err != nil {
		return err
	}
	_, _, err = templates.Compile(text, templates.Options{})
	return err
}

// rule is how a field is imported. An empty rule ignores the field.
type rule struct {
	apply func(d *draft, at string, value any)
	// omission is why the field is not imported, and what to do. A suspension suspends the template as well.
	omission, suspension string
}

// fields applies rules to the fields of an object.
func (d *draft) fields(object map[string]any, at string, rules map[string]rule) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		r, known := rules[name]
		switch {
		case !known:
			d.addNote(at+name, "is no field of this format"+nearest.Hint(name, slices.Sorted(maps.Keys(rules))))
		case r.apply != nil:
			r.apply(d, at+name, object[name])
		case r.omission != "":
			d.addNote(at+name, r.omission)
		case r.suspension != "":
			d.suspend(at+name, r.suspension)
		}
	}
}

// to carries data over to a place of the spec.
func to(path ...string) rule {
	return rule{apply: func(d *draft, at string, value any) {
		if data, ok := d.data(value, at); ok {
			d.set(data, path...)
		}
	}}
}

// selects carries a label selector over to match.
func selects(selector string) rule {
	return rule{apply: func(d *draft, at string, value any) {
		labels, isObject := value.(map[string]any)
		if have := labels["matchLabels"]; !isObject || have != nil && objectAt(have) == nil || strings.ContainsAny(fmt.Sprint(value), "*?{") {
			d.suspend(at, "is no label selector of Kubernetes: write it in match or matchConditions")
			return
		}
		d.restrict(selector, value)
	}}
}

// restrict adds a label selector to what match has: both must select.
func (d *draft) restrict(selector string, value any) {
	labels, _ := value.(map[string]any)
	d.set(map[string]any{}, "match")
	have := objectAt(d.spec, "match", selector, "matchLabels")
	for _, key := range slices.Sorted(maps.Keys(objectAt(labels, "matchLabels"))) {
		label := at(labels, "matchLabels", key)
		if have[key] != nil && have[key] != label {
			d.set([]any{map[string]any{"key": key, "operator": "In", "values": []any{label}}}, "match", selector, "matchExpressions")
			continue
		}
		d.set(map[string]any{key: label}, "match", selector, "matchLabels")
	}
	if expressions := labels["matchExpressions"]; expressions != nil {
		d.set(expressions, "match", selector, "matchExpressions")
	}
}

// inNamespaces restricts match to namespaces, by their names.
func (d *draft) inNamespaces(operator string, names []any) {
	d.restrict("namespaceSelector", map[string]any{"matchExpressions": []any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": operator, "values": names}}})
}

// when adds a matchCondition, by a name that no other has.
func (d *draft) when(name, expression string) {
	for n, base := 2, name; slices.ContainsFunc(d.conditions, func(c any) bool { return textAt(c, "name") == name }); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	d.conditions = append(d.conditions, map[string]any{"name": name, "expression": expression})
}

// at returns the value at a path of an object, nil if there is none.
func at(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func objectAt(v any, path ...string) map[string]any {
	object, _ := at(v, path...).(map[string]any)
	return object
}

func listAt(v any, path ...string) []any {
	list, _ := at(v, path...).([]any)
	return list
}

func textAt(v any, path ...string) string {
	text, _ := at(v, path...).(string)
	return text
}

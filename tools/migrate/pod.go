package migrate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/show"
)

// containerLists are the lists of a pod with containers.
var containerLists = []string{"initContainers", "containers"}

const patchDirective = "is a directive of a strategic merge patch: write it anew, as $patch or $unset of the template"

// eachOf is the $each that reaches the pod's containers in a list.
var eachOf = map[string]string{"initContainers": "Init", "containers": "App"}

// identities are fields without which an item of a list means something else.
var identities = []string{"name", "image", "mountPath", "value", "valueFrom"}

// anchor is a key of Kyverno's patches: a mark, and the field in parentheses.
var anchor = regexp.MustCompile(`\A([+=^<X]?)\((.*)\)\z`)

// anchored splits a key of Kyverno's into its mark and the field. It reports false for any other
// key, and where such keys have no meaning.
func (d *draft) anchored(key string) (mark, field string, ok bool) {
	found := anchor.FindStringSubmatch(key)
	if found == nil || !d.anchors {
		return "", "", false
	}
	return found[1], found[2], true
}

// data returns a value as a template has it: without null, and with ${ as text. What is no data is
// left out, with a note. It reports false if nothing is left.
func (d *draft) data(v any, at string) (any, bool) {
	switch v := v.(type) {
	case nil:
		return nil, false
	case code:
		d.workedOut(at, string(v))
		return nil, false
	case string:
		if d.code != nil && d.code.MatchString(v) {
			d.workedOut(at, d.source(v))
			return nil, false
		}
		return strings.ReplaceAll(v, "${", "$${"), true
	case []any:
		items := make([]any, 0, len(v))
		for i, item := range v {
			if data, ok := d.data(item, fmt.Sprintf("%s[%d]", at, i)); ok {
				items = append(items, data)
			}
		}
		return items, len(items) > 0 || len(v) == 0
	case map[string]any:
		return d.objectData(v, at)
	}
	return v, true
}

// object returns an object. Another value, such as an expression, suspends the template.
func (d *draft) object(v any, at string) map[string]any {
	object, isObject := v.(map[string]any)
	if isObject || v == nil {
		return object
	}
	if _, isData := d.data(v, at); isData {
		d.suspend(at, "is no object: write what it adds as inject")
	}
	return nil
}

// list returns a list. Another value suspends the template.
func (d *draft) list(v any, at string) []any {
	list, isList := v.([]any)
	if isList || v == nil {
		return list
	}
	if _, isData := d.data(v, at); isData {
		d.suspend(at, "is no list: write it as one")
	}
	return nil
}

// workedOutKey reports whether a key is no data, and holds it.
func (d *draft) workedOutKey(key, at string) bool {
	if d.code == nil || !d.code.MatchString(key) {
		return false
	}
	d.workedOut(at, d.source(key))
	return true
}

// workedOut notes a value that is no data.
func (d *draft) workedOut(at, source string) {
	d.suspend(at, fmt.Sprintf("is worked out by %s: write it as ${…} over pod, or as a parameter", show.Value(source)))
}

func (d *draft) objectData(v map[string]any, at string) (any, bool) {
	object := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		name, keep := key, false
		if d.workedOutKey(key, at) {
			continue
		}
		if directive.Is(key) && !strings.HasPrefix(key, "${") {
			d.suspend(at+"."+key, patchDirective)
			return nil, false
		}
		if mark, field, ok := d.anchored(key); ok {
			if name, keep = field, mark == "+"; !keep {
				d.suspend(at+"."+key, "is a condition inside the pod: write it as $if, or as a matchCondition")
				return nil, false
			}
		}
		data, ok := d.data(v[key], at+"."+name)
		switch {
		case !ok && v[key] != nil && slices.Contains(identities, name):
			d.addNote(at, "is left out as a whole, since it has no "+name)
			return nil, false
		case !ok:
		case keep && isScalar(data):
			object[name] = map[string]any{directive.OnConflict: directive.KeepPod, "value": data}
		default:
			object[strings.ReplaceAll(name, "${", "$${")] = data
		}
	}
	return object, len(object) > 0 || len(v) == 0
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// within returns the pod in an object, by its place. A field outside of the pod suspends the template.
func (d *draft) within(v any, inside, place string) map[string]any {
	for step := range strings.SplitSeq(strings.TrimPrefix(inside, "/"), "/") {
		if step == "" {
			continue
		}
		object := d.object(v, place)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if key != step && key != "apiVersion" && key != "kind" {
				d.suspend(place+"."+key, "is about the workload, and a template sees its pods: write a condition on the pod, and leave the rest where it is")
			}
		}
		v, place = object[step], place+"."+step
	}
	return d.object(v, place)
}

// pod carries the parts of a pod over: labels, annotations and the spec.
func (d *draft) pod(pod map[string]any, at string) {
	for _, name := range slices.Sorted(maps.Keys(pod)) {
		if d.workedOutKey(name, at) {
			continue
		}
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			metadata := d.object(pod[name], at+name)
			for _, field := range slices.Sorted(maps.Keys(metadata)) {
				if field != "labels" && field != "annotations" {
					d.addNote(at+"metadata."+field, "a template sets only metadata.labels, metadata.annotations and spec")
					continue
				}
				d.marks(field, d.object(metadata[field], at+"metadata."+field), at+"metadata."+field)
			}
		case "spec":
			spec := d.object(pod[name], at+name)
			for _, field := range slices.Sorted(maps.Keys(spec)) {
				d.podField(field, spec[field], at+"spec."+field)
			}
		default:
			d.addNote(at+name, "is no field of a pod; a template sets metadata.labels, metadata.annotations and spec")
		}
	}
}

// marks carries labels or annotations over.
func (d *draft) marks(field string, entries map[string]any, at string) {
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		name, keep := key, false
		if d.workedOutKey(key, at) {
			continue
		}
		if mark, marked, ok := d.anchored(key); ok {
			if name, keep = marked, mark == "+"; !keep {
				d.whenMarked(field, mark, name, entries[key], at)
				continue
			}
		}
		value, ok := d.data(entries[key], at+"."+name)
		if ok && d.overwrite && !keep {
			value = map[string]any{directive.OnConflict: directive.Overwrite, "value": value}
		}
		if ok {
			d.set(value, "inject", "metadata", field, name)
		}
	}
}

// whenMarked is a condition on a label or an annotation.
func (d *draft) whenMarked(field, mark, key string, value any, at string) {
	text, ok := value.(string)
	switch {
	case !ok || mark != "" || strings.ContainsAny(text, "*?|&!<>{"):
		d.suspend(at+"."+key, fmt.Sprintf("the condition %s is not carried over: write it in matchConditions, as pod.metadata.%s[%s] == …", show.Value(fmt.Sprint(value)), field, show.Value(key)))
	case field == "labels":
		d.restrict("podSelector", map[string]any{"matchLabels": map[string]any{key: text}})
	default:
		d.when(conditionName(key), fmt.Sprintf("pod.metadata.?annotations[?%q] == optional.of(%q)", key, text))
	}
}

// conditionName makes a name of a condition of a key.
func conditionName(key string) string {
	return strings.Trim(notInName.ReplaceAllString(strings.ToLower(key), "-"), "-")
}

// podField carries a field of a pod's spec over.
func (d *draft) podField(field string, value any, at string) {
	if d.workedOutKey(field, "spec") {
		return
	}
	if directive.Is(field) {
		d.suspend(at, patchDirective)
		return
	}
	if _, _, ok := d.anchored(field); ok {
		data, ok := d.data(map[string]any{field: value}, at)
		if ok {
			d.set(data, "inject", "spec")
		}
		return
	}
	items, isList := value.([]any)
	if slices.Contains(containerLists, field) && isList {
		for i, item := range items {
			d.container(field, item, fmt.Sprintf("%s[%d]", at, i), nil)
		}
		return
	}
	data, ok := d.data(value, at)
	if !ok {
		return
	}
	if object, isObject := data.(map[string]any); isObject && d.overwrite {
		object[directive.OnConflict] = directive.Overwrite
	} else if isScalar(data) && d.overwrite {
		data = map[string]any{directive.OnConflict: directive.Overwrite, "value": data}
	}
	d.set(data, "inject", "spec", field)
}

// container carries a container over. One without an image extends the containers of its name,
// where the pod has one. More are fields of the template's own.
func (d *draft) container(list string, item any, at string, more map[string]any) {
	fields, _ := item.(map[string]any)
	fields = maps.Clone(fields)
	each := ""
	for key, value := range fields {
		mark, field, ok := d.anchored(key)
		if !ok || mark == "+" {
			continue
		}
		text, _ := value.(string)
		every := text == "*" || text == "?*"
		if mark != "" || field != "name" || text == "" || !every && strings.ContainsAny(text, "*?|&!<>{") {
			d.suspend(at, fmt.Sprintf("is for containers by the condition %s: write it with $each and $if", show.Value(key)))
			return
		}
		delete(fields, key)
		if each = eachOf[list]; !every {
			fields["name"] = value
		}
	}
	data, ok := d.data(fields, at)
	container, _ := data.(map[string]any)
	name, _ := container["name"].(string)
	switch {
	case !ok || container == nil:
		return
	case each != "":
		delete(container, "name")
		container[directive.Each], list = each, "containers"
		if name != "" {
			container[directive.If] = fmt.Sprintf("container.name == %q", name)
		}
	case name == "":
		d.suspend(at, "is a container without a name")
		return
	case container["image"] == nil:
		delete(container, "name")
		container[directive.Each], container[directive.If], list = "All", fmt.Sprintf("container.name == %q", name), "containers"
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(container)), func(key string) bool { return !directive.Is(key) }) {
		return // nothing is left of what it changes
	}
	if d.overwrite && container[directive.Each] != nil {
		container[directive.OnConflict] = directive.Overwrite
	}
	maps.Copy(container, more)
	d.set([]any{container}, "inject", "spec", list)
}

// unescaper reads a segment of a JSON pointer (RFC 6901).
var unescaper = strings.NewReplacer("~1", "/", "~0", "~")

// patch carries the operations of a JSON patch over that add something. Inside is the place of the
// pod in the object: nothing, or /spec/template.
func (d *draft) patch(operations []any, inside, at string) {
	for i, operation := range operations {
		at := fmt.Sprintf("%s[%d]", at, i)
		if code, isCode := objectAt(operation)["path"].(code); isCode {
			d.workedOut(at+".path", string(code))
			continue
		}
		path, isBelow := strings.CutPrefix(textAt(operation, "path"), inside)
		value, steps := objectAt(operation)["value"], strings.Split(strings.TrimPrefix(path, "/"), "/")
		for i := range steps {
			steps[i] = unescaper.Replace(steps[i])
		}
		list, isList := value.([]any)
		object, isObject := value.(map[string]any)
		empty := isList && len(list) == 0 || isObject && len(object) == 0
		switch {
		case textAt(operation, "op") != "add" || !isBelow:
			d.suspend(at, fmt.Sprintf("%s %s: only what is added to a pod is carried over; $patch and $unset take something away", show.Value(fmt.Sprint(objectAt(operation)["op"])), show.Value(fmt.Sprint(objectAt(operation)["path"]))))
		case path == "/spec/containers":
			d.suspend(at, "replaces the pod's own containers: write what it changes in them, with $each")
		case empty && len(steps) == 2: // makes room for the next operation
		case len(steps) == 2 && steps[0] == "spec":
			d.podField(steps[1], value, at)
		case len(steps) == 3 && steps[0] == "spec" && slices.Contains(containerLists, steps[1]):
			more := map[string]any{}
			if steps[2] == "0" {
				more[directive.Position] = "First"
			}
			d.container(steps[1], value, at, more)
		case len(steps) == 3 && steps[0] == "spec" && steps[2] == "-":
			d.podField(steps[1], []any{value}, at)
		case len(steps) >= 2 && steps[0] == "metadata" && (steps[1] == "labels" || steps[1] == "annotations"):
			if len(steps) == 3 {
				value = map[string]any{steps[2]: value}
			}
			d.marks(steps[1], d.object(value, at), at)
		default:
			d.suspend(at, fmt.Sprintf("adds to %s, an item by its place: write an item with $each, or with the container's name", show.Value(path)))
		}
	}
}

package apply

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// schemaPod draws pods and fragments from nothing but the API's schema: any
// field, any list, with few values, so that pods and templates meet often.
type schemaPod struct {
	*rapid.T
	fragment bool
	// plain is set in items without names, whose scalars have no directives.
	plain bool
}

// directed returns a scalar of a fragment, sometimes with a directive of its own.
func (g schemaPod) directed(v any) any {
	if !g.fragment || g.plain || rapid.IntRange(0, 7).Draw(g.T, "scalar's directive") > 0 {
		return v
	}
	return map[string]any{directive.OnConflict: pick(g.T, directive.OnConflict, Deny, KeepPod, Overwrite), "value": v}
}

func (g schemaPod) scalar(t *podschema.Type, name string) any {
	number := func() any { return json.Number(pick(g.T, name, "0", "1", "30")) }
	switch t.Scalar() {
	case podschema.String:
		return pick(g.T, name, "a", "b", "Always")
	case podschema.Number:
		return number()
	case podschema.Boolean:
		return some(g.T, name)
	default:
		return pick[any](g.T, name, "1", "64Mi", json.Number("1"))
	}
}

func (g schemaPod) value(t *podschema.Type, name string, depth int) any {
	if t.IsWhole() {
		g.fragment = false // no directive stands inside one value
	}
	switch t.Kind() {
	case podschema.Scalar:
		return g.directed(g.scalar(t, name))
	case podschema.Map:
		m := map[string]any{}
		for range rapid.IntRange(0, 2).Draw(g.T, name) {
			m[pick(g.T, "key", "a", "b", "c/d~e")] = g.value(t.Elem(), name, depth-1)
		}
		g.directives(t, m)
		return m
	case podschema.List:
		return g.list(t, name, depth)
	default:
		return g.object(t, depth, 3)
	}
}

func (g schemaPod) object(t *podschema.Type, depth, most int) map[string]any {
	o := map[string]any{}
	if depth > 0 {
		for range rapid.IntRange(0, most).Draw(g.T, "fields") {
			name := rapid.SampledFrom(t.FieldNames()).Draw(g.T, "field")
			ft, _ := t.Field(name)
			if name == "ephemeralContainers" || name == "containers" || name == "initContainers" || o[name] != nil {
				continue
			}
			o[name] = g.value(ft, name, depth-1)
		}
	}
	chosen := false
	for _, name := range t.Unions() { // an API server never sends two
		if chosen {
			delete(o, name)
		}
		chosen = chosen || o[name] != nil
	}
	g.directives(t, o)
	return o
}

// directives adds some of the directives that the fragment's place allows.
func (g schemaPod) directives(t *podschema.Type, o map[string]any) {
	if !g.fragment || t.Atomic() || rapid.IntRange(0, 5).Draw(g.T, "directive") > 0 {
		return
	}
	if some(g.T, "policy") {
		o[directive.OnConflict] = pick(g.T, directive.OnConflict, Deny, KeepPod, Overwrite)
		return
	}
	name := "a"
	if t.Kind() == podschema.Struct {
		name = rapid.SampledFrom(t.FieldNames()).Draw(g.T, directive.Unset)
	}
	if o[name] == nil && name != "containers" && name != "initContainers" && !t.IsWhole() {
		o[directive.Unset] = []any{name}
	}
}

func (g schemaPod) list(t *podschema.Type, name string, depth int) []any {
	l := []any{}
	seen := map[string]bool{}
	id, keyed := t.Identity()
	if name == "containers" {
		return g.containers(t)
	}
	items := g
	items.plain = g.plain || len(t.Keys()) == 0
	for range rapid.IntRange(0, 2).Draw(g.T, name) {
		item := items.value(t.Elem(), name, depth)
		if object, ok := item.(map[string]any); ok && keyed {
			for _, k := range id.Keys {
				kt, _ := t.Elem().Field(k.Name)
				object[k.Name] = g.scalar(kt, k.Name)
				object[directive.Unset] = nil
				delete(object, directive.Unset)
			}
			if g.fragment && len(t.Keys()) > 0 {
				g.itemDirective(object)
			}
		}
		if !keyed && g.fragment {
			item = withoutDirectives(item)
		}
		if key, ok := id.Key(item); keyed && (!ok || seen[key]) {
			continue
		} else if keyed {
			seen[key] = true
		}
		l = append(l, item)
	}
	return l
}

func (g schemaPod) itemDirective(item map[string]any) {
	switch pick(g.T, "item", "", "", "", "first", "delete", "replace") {
	case "first":
		item[directive.Position] = "First"
	case "delete":
		item[directive.Patch] = "delete"
	case "replace":
		item[directive.Patch] = "replace"
	}
}

func withoutDirectives(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := map[string]any{}
		for name, value := range v {
			if !strings.HasPrefix(name, "$") {
				c[name] = withoutDirectives(value)
			}
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = withoutDirectives(v[i])
		}
		return c
	default:
		return v
	}
}

func (g schemaPod) containers(t *podschema.Type) []any {
	var l []any
	for i := range rapid.IntRange(1, 2).Draw(g.T, "containers") {
		c := g.object(t.Elem(), 4, 4)
		delete(c, directive.Unset)
		delete(c, "image")
		c["name"] = fmt.Sprint("c", i)
		if !g.fragment {
			c["image"] = "app:1"
		}
		l = append(l, c)
	}
	return l
}

func (g schemaPod) pod(prefix string) map[string]any {
	specType, _ := podschema.Pod().Field("spec")
	containers, _ := specType.Field("containers")
	spec := g.object(specType, 5, 5)
	delete(spec, directive.OnConflict)
	delete(spec, "serviceAccount") // the old name of serviceAccountName
	spec["containers"] = g.list(containers, "containers", 4)
	if some(g.T, "init") {
		c := g.object(containers.Elem(), 4, 4)
		delete(c, directive.Unset)
		c["name"], c["image"] = pick(g.T, "init name", "i", prefix), "x"
		spec["initContainers"] = []any{c}
	}
	return map[string]any{"metadata": map[string]any{"labels": g.value(podschema.At("metadata.labels"), "labels", 1)}, "spec": spec}
}

func TestLawsHoldForEveryPodThatTheSchemaAllows(t *testing.T) {
	injected, tried := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		pod := normal(schemaPod{T: rt}.pod("p"))
		var frags []Fragment
		for i := range rapid.IntRange(1, 2).Draw(rt, "templates") {
			name := fmt.Sprint("t", i)
			object := schemaPod{T: rt, fragment: true}.pod(name)
			frags = append(frags, Fragment{Template: name, Hash: "v1", OnConflict: pick(rt, "onConflict", KeepPod, Overwrite, Overwrite, Deny), Overridable: some(rt, "overridable"), Object: normal(object)})
		}
		// Extensions name only containers that the pod has.
		names := strings.Fields(names(t, at(t, pod, "spec", "containers")))
		for _, f := range frags {
			spec := f.Object["spec"].(map[string]any)
			spec["containers"] = slices.DeleteFunc(spec["containers"].([]any), func(c any) bool { return !slices.Contains(names, objectOf(c)["name"].(string)) })
		}
		tried++
		first, err := mergeInto(t, pod, frags...)
		if refused(t, err) {
			return
		}
		injected++
		rec := recordOf(t, first.Pod)
		wantSame(rt, fmt.Sprintf("base(inject(p)) = p for %s", text(frags)), rec.Base(first.Pod), pod)
		again, err := mergeInto(t, first.Pod, frags...)
		if err != nil || len(again.Operations) > 0 {
			rt.Fatalf("inject(inject(p)) = inject(p): %v, operations %s\nof   %s\nfrags %s", err, text(again.Operations), text(first.Pod), text(frags))
		}
		if text(again.Warnings) != text(first.Warnings) {
			rt.Fatalf("warnings %s\nat first %s\nof   %s\nfrags %s", text(again.Warnings), text(first.Warnings), text(pod), text(frags))
		}
	})
	if injected*5 < tried {
		t.Fatalf("only %d of %d pods were injected", injected, tried)
	}
	t.Logf("laws tested on %d of %d pods that the schema allows", injected, tried)
}

// Every list and every map of the API has a rule. A new list of a newer schema fails this
// test, and somebody has to decide on its rule.
func TestEveryListOfTheSchemaHasItsRule(t *testing.T) {
	rules := map[string][]string{}
	seen := map[*podschema.Type]bool{}
	var walk func(t *podschema.Type, path string)
	walk = func(t *podschema.Type, path string) {
		if t.Kind() == podschema.List {
			id, ok := t.Identity()
			rule := "one value"
			switch {
			case ok && id.Set():
				rule = "set"
			case ok:
				var keys []string
				for _, k := range id.Keys {
					keys = append(keys, k.Name)
				}
				rule = "by " + strings.Join(keys, "+")
			}
			rules[rule] = append(rules[rule], path)
			path += "[]"
			t = t.Elem()
		}
		if t.Kind() == podschema.Map {
			walk(t.Elem(), path+".*")
			return
		}
		if seen[t] {
			return
		}
		seen[t] = true
		for _, name := range t.FieldNames() {
			f, _ := t.Field(name)
			walk(f, path+"."+name)
		}
	}
	spec, _ := podschema.Pod().Field("spec")
	walk(spec, "spec")
	var got []string
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		slices.Sort(rules[rule])
		for _, path := range rules[rule] {
			got = append(got, rule+": "+path)
		}
	}
	if want := listRules; strings.Join(got, "\n") != strings.TrimSpace(want) {
		t.Fatalf("the schema's lists are now\n%s", strings.Join(got, "\n"))
	}
}

//go:embed testdata/lists.txt
var listRules string

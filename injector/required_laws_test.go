package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// changeAnywhere returns a copy of a pod that an attacker has changed in a few places.
func changeAnywhere(t *rapid.T, pod map[string]any) map[string]any {
	pod, err := DecodePod(podschema.Encode(pod))
	errtest.ExpectNone(t, err)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		changeOne(t, pod, 0)
	}
	if rapid.Bool().Draw(t, "without the record") {
		delete(pod["metadata"].(map[string]any), "annotations")
	}
	return pod
}

var otherValues = []any{"x", "", "auditor", "First", true, false, json.Number("1"), "r", "s", "data", "/data", "/d/", "app", "kube-api-access-x7k2p"}

// changeOne changes one place of a value. Depth keeps it from the parts that every pod has.
func changeOne(t *rapid.T, v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return
		}
		key := rapid.SampledFrom(keys).Draw(t, "key")
		switch kind := rapid.IntRange(0, 9).Draw(t, "in an object"); {
		case kind < 7 || depth < 1:
			if _, scalar := v[key].(string); scalar && depth > 0 {
				v[key] = rapid.SampledFrom(otherValues).Draw(t, "value")
			} else {
				changeOne(t, v[key], depth+1)
			}
		case kind == 7:
			delete(v, key)
		default:
			name := rapid.SampledFrom([]string{"command", "args", "env", "volumeMounts", "lifecycle", "name", "image", "hostNetwork", "restartPolicy", "r.pillion.dev/hash"}).Draw(t, "field")
			v[name] = rapid.SampledFrom([]any{"x", []any{"x"}, []any{map[string]any{"name": "OPTS", "value": "y"}}, []any{map[string]any{"name": "data", "mountPath": "/data/"}}}).Draw(t, "value")
		}
	case []any:
		if len(v) == 0 {
			return
		}
		i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
		switch rapid.IntRange(0, 4).Draw(t, "in a list") {
		case 0:
			j := rapid.IntRange(0, len(v)-1).Draw(t, "other item")
			v[i], v[j] = v[j], v[i]
		case 1:
			if one, ok := v[i].(map[string]any); ok && len(v) > 1 {
				other, _ := v[(i+1)%len(v)].(map[string]any)
				one["name"], other["name"] = other["name"], one["name"]
			}
		default:
			changeOne(t, v[i], depth+1)
		}
	}
}

// valid reports whether an API server may take a pod, as far as the changes above can break one.
func valid(pod map[string]any) bool {
	spec, ok := pod["spec"].(map[string]any)
	metadata, ok2 := pod["metadata"].(map[string]any)
	if !ok || !ok2 || !fragmenttest.Fits(podschema.Pod(), pod) || len(itemsOf(pod, "containers")) == 0 {
		return false
	}
	for _, section := range []string{"labels", "annotations"} {
		for _, v := range mapOf(metadata[section]) {
			if _, ok := v.(string); !ok {
				return false
			}
		}
	}
	names := map[string]bool{}
	for _, list := range []string{"containers", "initContainers", "volumes"} {
		kind := strings.TrimSuffix(list, "Containers")
		if list != "volumes" {
			kind = ""
		}
		if _, isList := spec[list].([]any); !isList && spec[list] != nil {
			return false
		}
		for _, c := range itemsOf(pod, list) {
			key := kind + "/" + nameOf(c)
			if names[key] || nameOf(c) == "" {
				return false
			}
			names[key] = true
		}
	}
	return true
}

func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }

// twins returns templates that inject the same as required ones, into whatever pod asks for it.
func twins(t *rapid.T, set *templates.Set) *templates.Set {
	var entries []templates.Entry
	for _, e := range set.Required() {
		manifest, _ := json.Marshal(map[string]any{"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": e.Name},
			"spec": map[string]any{"match": map[string]any{"podSelector": map[string]any{}}, "inject": json.RawMessage(e.Template.Spec().Inject)}})
		template, _, err := templates.Compile(manifest, templates.Options{ForeignSidecars: []string{}})
		errtest.ExpectNone(t, err)
		entries = append(entries, templates.Entry{Name: e.Name, Template: template})
	}
	return templates.NewSet(entries)
}

// withoutOwn returns a pod without the own items of required templates, and these items by list and name.
func withoutOwn(set *templates.Set, pod map[string]any) (map[string]any, map[string]map[string]any) {
	own := map[string]map[string]any{}
	rest := maps.Clone(pod)
	spec := maps.Clone(mapOf(pod["spec"]))
	rest["spec"] = spec
	for _, list := range []string{"containers", "initContainers", "volumes"} {
		var left []any
		for _, item := range itemsOf(pod, list) {
			is := false
			for _, e := range set.Required() {
				o := set.Own(e, time.Time{})
				is = is || list == "volumes" && o.Volume(nameOf(item)) || list != "volumes" && o.Container(list, nameOf(item))
			}
			if is {
				own[list+"/"+nameOf(item)] = item
			} else {
				left = append(left, item)
			}
		}
		if delete(spec, list); len(left) > 0 {
			spec[list] = left
		}
	}
	return rest, own
}

func bare(pod map[string]any) string {
	pod = maps.Clone(pod)
	metadata := maps.Clone(mapOf(pod["metadata"]))
	for _, section := range []string{"labels", "annotations"} {
		entries := maps.Clone(mapOf(metadata[section]))
		maps.DeleteFunc(entries, func(key string, _ any) bool { return strings.Contains(key, "pillion.dev/") })
		if metadata[section] = entries; len(entries) == 0 {
			delete(metadata, section)
		}
	}
	pod["metadata"] = metadata
	return string(podschema.Encode(podschema.WithDefaults(pod)))
}

// A pod that is verified, whatever was done to it, has all that the required templates inject: as templates
// that are not required they change nothing in it, and their containers and volumes are as in a pod without
// them.
func TestAVerifiedPodHasAllThatIsRequired(t *testing.T) {
	verified, refused := 0, 0
	defer func() {
		if t.Logf("%d verified, %d refused", verified, refused); verified < 3 || refused < 3 {
			t.Errorf("only %d verified, %d refused", verified, refused)
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		var entries []templates.Entry // those with a sidecar change what the app's containers are
		for _, e := range drawSet(t, true).All() {
			if e.Required() || !strings.Contains(string(e.Template.Spec().Inject), `"image"`) {
				entries = append(entries, e)
			}
		}
		set := templates.NewSet(entries)
		pod := asking(set, drawPod(t))
		if out := injectOnce(t, set, pod); out.Allowed {
			pod = out.Pod
		}
		pod = changeAnywhere(t, pod)
		if !valid(pod) || mapOf(pod["spec"])["resources"] != nil || len(set.Required()) == 0 {
			return
		}
		out, err := NewPipeline(Config{}).Verify(context.Background(), Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set})
		errtest.ExpectNone(t, err)
		if !out.Allowed {
			refused++
			return
		}
		verified++
		rest, own := withoutOwn(set, pod)
		if annotations := mapOf(mapOf(rest["metadata"])["annotations"]); annotations != nil {
			rest["metadata"] = maps.Clone(mapOf(rest["metadata"]))
			annotations = maps.Clone(annotations)
			maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.Contains(key, "pillion.dev/") })
			mapOf(rest["metadata"])["annotations"] = annotations
		}
		again, err := NewPipeline(Config{}).Inject(context.Background(), Request{Operation: "CREATE", Pod: rest, Namespace: templates.Namespace{Name: "shop"}, Templates: twins(t, set), Explain: true})
		if err != nil || !again.Allowed || len(again.PodValues) > 0 {
			t.Fatalf("%v %s %+v\n%s", err, again.Message, again.PodValues, podschema.Encode(pod))
		}
		left, made := withoutOwn(set, again.Pod)
		if a, b := bare(rest), bare(left); a != b {
			t.Fatalf("the verified pod\n%s\nas injected\n%s", a, b)
		}
		for key, want := range made {
			list, _, _ := strings.Cut(key, "/")
			typ := podschema.At(fmt.Sprintf("spec.%s[]", list))
			if !podschema.Equal(typ, withoutTokenMount(want), withoutTokenMount(own[key])) {
				t.Fatalf("%s is %s; as injected %s", key, podschema.Encode(own[key]), podschema.Encode(want))
			}
		}
	})
}

func withoutTokenMount(item map[string]any) map[string]any {
	item = maps.Clone(item)
	mounts := slices.DeleteFunc(slices.Clone(listOfAny(item["volumeMounts"])), func(m any) bool { return mapOf(m)["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount" })
	if delete(item, "volumeMounts"); len(mounts) > 0 {
		item["volumeMounts"] = mounts
	}
	return item
}

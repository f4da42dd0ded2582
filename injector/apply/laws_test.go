package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/record/recordtest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// inject renders the templates for the base pod, and injects them.
func inject(t testing.TB, pod map[string]any, templates []generated) (injected, error) {
	t.Helper()
	base := recordOf(t, pod).Base(pod)
	var frags []Fragment
	for _, g := range templates {
		frags = append(frags, g.render(t, base))
	}
	return mergeInto(t, pod, frags...)
}

// refused reports whether the templates cannot go into the pod: a conflict, or a
// malformed pod. The laws say nothing about those. Any other error fails the test.
func refused(t testing.TB, err error) bool {
	t.Helper()
	var conflict *ConflictError
	var malformed *PodError
	var resources *merge.ResourcesError
	if err != nil && !errors.As(err, &conflict) && !errors.As(err, &resources) && !errors.As(err, &malformed) {
		t.Fatal(err)
	}
	return err != nil
}

// wantSame compares pods byte for byte.
func wantSame(t *rapid.T, law string, got, want map[string]any) {
	t.Helper()
	if text(got) != text(want) {
		t.Fatalf("%s\n%s\ngot  %s\nwant %s", law, cmp.Diff(want, got), text(got), text(want))
	}
}

func TestLawsHoldForGeneratedPods(t *testing.T) {
	for _, hostile := range []bool{false, true} {
		t.Run(map[bool]string{false: "realistic", true: "hostile"}[hostile], func(t *testing.T) {
			injected, tried := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				pod, templates := drawPod(rt, hostile), drawTemplates(rt)
				tried++
				first, err := inject(t, pod, templates)
				if refused(t, err) {
					return
				}
				injected++
				rec := recordOf(t, first.Pod)
				back, changed := rec.Uninject(first.Pod)
				if wantSame(rt, "uninject(inject(p)) = p", back, unlabelled(pod)); len(changed) > 0 {
					rt.Fatalf("nobody changed anything, and yet: %q", changed)
				}
				wantSame(rt, fmt.Sprintf("base(inject(p)) = p for %+v\nof %s", templates, text(first.Pod)), rec.Base(first.Pod), unlabelled(pod))
				wantLabels(rt, pod, first.Pod, rec)
				again, err := inject(t, first.Pod, templates)
				if err != nil || len(again.Operations) > 0 {
					rt.Fatalf("inject(inject(p)) = inject(p): %v, operations %s\nof %s", err, text(again.Operations), text(first.Pod))
				}
				if text(again.Warnings) != text(first.Warnings) {
					rt.Fatalf("the second call warns of %s\nthe first of %s\n%+v\npod %s", text(again.Warnings), text(first.Warnings), templates, text(pod))
				}
				wantOwnFieldsKept(rt, pod, first.Pod, rec)
				if !hostile {
					wantNothingAdded(rt, first.Pod, templates)
					wantRoomForContainers(rt, pod, first.Pod)
				}
				lawsAfterOthers(t, rt, pod, first.Pod, templates, hostile)
			})
			if injected*4 < tried {
				t.Fatalf("only %d of %d generated pods were injected: the laws were not tested", injected, tried)
			}
			t.Logf("laws tested on %d of %d generated pods", injected, tried)
		})
	}
}

// lawsAfterOthers lets the API server and another webhook change the injected
// pod, and injects again.
func lawsAfterOthers(t *testing.T, rt *rapid.T, pod, injected map[string]any, templates []generated, hostile bool) {
	add, sort, rewrite := some(rt, "add a container"), some(rt, "reorder"), some(rt, "rewrite images")
	if keepsOriginalLists(recordOf(t, injected)) {
		// The original comes back as it was. Changes to the container that took its
		// place do not reach it.
		sort = false
	}
	changed, want := normal(injected), normal(unlabelled(pod))
	for _, p := range []map[string]any{changed, want} {
		if _, ok := p["spec"].(map[string]any)["containers"].([]any); !ok {
			return
		}
		stranger(p, add, sort, rewrite)
		if !hostile {
			apiServer(p)
		}
	}
	wantSame(rt, fmt.Sprintf("base(others(inject(p))) = others(p) for %+v", templates), recordOf(t, changed).Base(changed), want)
	if back, warnings := recordOf(t, changed).Uninject(changed); len(warnings) == 0 {
		wantSame(rt, "uninject(others(inject(p))) = others(p)", back, want)
	} else {
		rt.Fatalf("nobody changed a value, and yet %q\nof %s", warnings, text(changed))
	}
	second, err := inject(t, changed, templates)
	if refused(t, err) {
		// Templates may disagree in the new container. Then the pod is refused as if
		// the container had been there at first.
		_, fresh := inject(t, want, templates)
		if !add || fresh == nil || fresh.Error() != err.Error() {
			rt.Fatalf("refused after others changed the injected pod: %v\nas a new pod: %v", err, fresh)
		}
		return
	}
	wantSame(rt, "base is the same after injecting again", recordOf(t, second.Pod).Base(second.Pod), want)
	if got, want := listedNames(second.Pod, templates), sortedNames(at(t, want, "spec", "containers").([]any)); got != "" && got != want {
		rt.Fatalf("the sidecar's list that nobody changed has the containers %s; there are %s", got, want)
	}
	if add && overrulesContainers(templates) {
		// The new container's own values go as those of the others went.
		changed = second.Pod
	}
	if where, kept := keeps(withoutListed(without(t, second.Pod)), withoutListed(without(t, changed))); !kept {
		rt.Fatalf("the changes of others are not kept at %s\nof   %s\ninto %s", where, text(changed), text(second.Pod))
	}
	if !add && len(second.Operations) > 0 {
		rt.Fatalf("nothing is missing, and yet it is edited: %s\nof %s", text(second.Operations), text(changed))
	}
	third, err := inject(t, second.Pod, templates)
	if err != nil || len(third.Operations) > 0 {
		rt.Fatalf("injecting a third time: %v, operations %s", err, text(third.Operations))
	}
}

// listedNames returns the list of container names in the sidecar of the piece
// "lists names", if the first template has one.
func listedNames(pod map[string]any, templates []generated) string {
	inits, _ := objectOf(pod["spec"])["initContainers"].([]any)
	for _, c := range inits {
		if name, _ := objectOf(c)["name"].(string); name != "side-"+templates[0].name+"-lists" {
			continue
		}
		env, _ := objectOf(c)["env"].([]any)
		for _, e := range env {
			if objectOf(e)["name"] == "LISTED" {
				return objectOf(e)["value"].(string)
			}
		}
	}
	return ""
}

// withoutListed returns the pod without the lists of container names, which the
// template keeps up to date, and without the pod's own requests and limits, which follow
// those of its containers.
func withoutListed(pod map[string]any) map[string]any {
	delete(objectOf(objectOf(pod["spec"])["resources"]), "requests")
	delete(objectOf(objectOf(pod["spec"])["resources"]), "limits")
	inits, _ := objectOf(pod["spec"])["initContainers"].([]any)
	for _, c := range inits {
		env, _ := objectOf(c)["env"].([]any)
		for _, e := range env {
			if objectOf(e)["name"] == "LISTED" {
				delete(objectOf(e), "value")
			}
		}
	}
	return pod
}

// wantOwnFieldsKept checks that app containers stand in their order, and that every field of them
// that the record does not name is as it was.
func wantOwnFieldsKept(t *rapid.T, pod, injected map[string]any, rec record.Record) {
	own, _ := objectOf(pod["spec"])["containers"].([]any)
	after, _ := objectOf(injected["spec"])["containers"].([]any)
	last := -1
	for _, c := range own {
		name, _ := objectOf(c)["name"].(string)
		at := rec.Root.Child("spec").Child("containers").Child("name=" + name)
		i := slices.IndexFunc(after, func(v any) bool { return objectOf(v)["name"] == name })
		if i >= 0 && i < last {
			t.Fatalf("container %s stands before one that it stood behind", name)
		}
		last = max(last, i)
		for field, v := range objectOf(c) {
			if i >= 0 && at.Child(field) == nil && !at.Owns() && text(objectOf(after[i])[field]) != text(v) {
				t.Fatalf("%s of container %s is %s now, was %s, and no template says so", field, name, text(objectOf(after[i])[field]), text(v))
			}
		}
	}
}

// wantNothingAdded checks that plugins of the API server, which run again after
// webhooks, find nothing to add to the injected pod: otherwise Pillion is called again.
func wantNothingAdded(t *rapid.T, injected map[string]any, templates []generated) {
	again := normal(injected)
	spec := again["spec"].(map[string]any)
	tolerate(spec)
	// Whether the token of another account is mounted, only the plugin knows.
	if !slices.ContainsFunc(templates, func(g generated) bool { return slices.Contains(g.pieces, "account") }) {
		mountToken(spec)
	}
	wantSame(t, fmt.Sprintf("the API server adds nothing for %+v", templates), injected, again)
}

// wantRoomForContainers checks the API server's rule for a pod with resources of its own:
// its containers do not ask for more, unless they did before.
func wantRoomForContainers(t *rapid.T, pod, injected map[string]any) {
	injected = normal(injected)
	apiServer(injected)
	fits := func(pod map[string]any) bool {
		spec := objectOf(pod["spec"])
		resources := objectOf(spec["resources"])
		for key, sum := range podschema.ContainerRequests(spec) {
			request, named := podschema.ParseQuantity(objectOf(resources["requests"])[key])
			limit, limited := podschema.ParseQuantity(objectOf(resources["limits"])[key])
			if named && request.Cmp(sum) < 0 || named && limited && limit.Cmp(request) < 0 {
				return false
			}
		}
		return true
	}
	if fits(pod) && !fits(injected) {
		t.Fatalf("the API server would refuse\n%s\nmade of\n%s", text(injected), text(pod))
	}
}

// wantLabels checks that Pillion's labels say what the record says, and that nobody else's
// label changed but by a template.
func wantLabels(t *rapid.T, pod, injected map[string]any, rec record.Record) {
	if rec.Empty() { // the templates rendered to nothing
		if text(injected) != text(pod) {
			t.Fatalf("a pod that is not injected is\n%s\nand was\n%s", text(injected), text(pod))
		}
		return
	}
	before, _ := objectOf(pod["metadata"])["labels"].(map[string]any)
	after, _ := objectOf(injected["metadata"])["labels"].(map[string]any)
	wanted := rec.Labels(slices.Collect(maps.Keys(rec.Templates)))
	if after["pillion.dev/injected"] != "true" {
		t.Fatalf("an injected pod has the labels %s", text(after))
	}
	for key, value := range after {
		_, ours := record.LabelKeysOf(statusKey).Has(key)
		if want, ok := wanted[key]; ok && want != value || ours && !ok && before[key] != value {
			t.Fatalf("label %s is %s, and the record has the templates %v", key, text(value), rec.Templates)
		}
	}
	for key := range wanted {
		if after[key] == nil {
			t.Fatalf("no label %s, and the record has the templates %v", key, rec.Templates)
		}
	}
	for _, key := range rec.Untrue(injected) {
		if before[key] == nil {
			t.Fatalf("the label %s is untrue in %s", key, text(injected))
		}
	}
}

func overrulesContainers(templates []generated) bool {
	return slices.ContainsFunc(templates, func(g generated) bool {
		return slices.ContainsFunc(g.pieces, func(p string) bool { return slices.Contains([]string{"all env", "drop env", "all security"}, p) })
	})
}

// keepsOriginalLists reports whether the record holds lists, or items of lists
// that can be reordered.
func keepsOriginalLists(rec record.Record) bool {
	return keepsLists(rec.Root, true)
}

func keepsLists(p *record.Place, reordered bool) bool {
	for _, v := range p.Was {
		switch v.(type) {
		case []any, map[string]any:
			return true
		}
	}
	if len(p.Removed) > 0 && reordered {
		return true
	}
	for segment, child := range p.In {
		if keepsLists(child, segment != "tolerations") {
			return true
		}
	}
	return false
}

// keeps reports whether everything in before is in after: fields with the same
// values, list items in the same order.
func keeps(after, before any) (where string, kept bool) {
	switch b := before.(type) {
	case nil:
		return "", true // null is nothing
	case map[string]any:
		a, _ := after.(map[string]any)
		for name, v := range b {
			if where, kept := keeps(a[name], v); !kept {
				return "/" + name + where, false
			}
		}
		return "", true
	case []any:
		a, _ := after.([]any)
		for i, v := range b {
			for len(a) > 0 && !sameItem(a[0], v) {
				a = a[1:]
			}
			if len(a) == 0 {
				return fmt.Sprint("/", i), false
			}
			a = a[1:]
		}
		return "", true
	default:
		return "", text(after) == text(before)
	}
}

func sameItem(a, b any) bool {
	_, kept := keeps(a, b)
	return kept
}

func TestANewerTemplateIsAppliedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pod, templates := drawPod(rt, false), drawTemplates(rt)
		first, err := inject(t, pod, templates)
		if refused(t, err) {
			return
		}
		newer := slices.Clone(templates)
		i := rapid.IntRange(0, len(newer)-1).Draw(rt, "changed")
		newer[i].hash = "v2"
		newer[i].pieces = drawTemplates(rt)[0].pieces
		stranger(first.Pod, false, some(rt, "reorder"), some(rt, "rewrite"))
		second, err := inject(t, normal(first.Pod), newer)
		if refused(t, err) {
			return
		}
		third, err := inject(t, second.Pod, newer)
		if err != nil || len(third.Operations) > 0 {
			rt.Fatalf("not idempotent after an update: %v, operations %s\nof %s", err, text(third.Operations), text(second.Pod))
		}
	})
}

func TestAForgedRecordRemovesNothingFromThePod(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pod, templates := drawPod(rt, false), drawTemplates(rt)
		if some(rt, "spoilt") {
			pod = drawPod(rt, true)
		}
		forged := recordtest.Forged{Templates: map[string]string{"t0": pick(rt, "hash", "v1", "v0")}}
		paths := []string{"/spec", "/spec/containers", "/spec/containers/name=c0", "/spec/containers/name=c0/env/name=A", "/metadata", "/metadata/name", "", "x",
			"/spec/volumes/name=v0", "//", "/spec/containers/0", "/spec/tolerations/={}", "/spec/containers/name=c0/image/x", "/metadata/labels", "/spec/dnsPolicy", "/spec/~"}
		forged.Added = rapid.SliceOf(rapid.SampledFrom(paths)).Draw(rt, "items")
		forged.Made = rapid.SliceOf(rapid.SampledFrom(paths)).Draw(rt, "created")
		forged.Was = rapid.MapOf(rapid.SampledFrom(paths), rapid.SampledFrom([]any{nil, "x", []any{}})).Draw(rt, "overwrote")
		forged.Removed = map[string][]record.Removed{pick(rt, "removed", paths...): {{At: 1000, Value: "x"}, {At: -5, Value: nil}}}
		metadata, _ := pod["metadata"].(map[string]any)
		annotations, ok := metadata["annotations"].(map[string]any)
		if !ok {
			return
		}
		annotations[statusKey] = forged.Text()
		rec := recordOf(t, pod)
		base := rec.Base(pod)
		if _, ok := base["spec"]; !ok && !slices.Contains(forged.Made, "/spec") {
			rt.Fatalf("the base pod has no spec: %s", text(base))
		}
		var frags []Fragment
		for _, g := range templates {
			frags = append(frags, g.render(t, base))
		}
		r, err := mergeInto(t, pod, frags...)
		if refused(t, err) {
			return
		}
		for _, e := range r.Operations {
			if e.Op() == patch.Remove && !allowedRemoval(e.Pointer()) {
				rt.Fatalf("a forged record removes %s\nof %s", e.Pointer(), text(pod))
			}
		}
	})
}

// drawStrangersRecord draws a forged record of templates that do not exist: of places
// that the pod has, that templates make, and others.
func drawStrangersRecord(t *rapid.T, names ...string) recordtest.Forged {
	paths := []string{"/spec/containers/name=c0/image", "/spec/containers/name=c1/env/name=A", "/spec/containers/name=side-t0-app", "/spec/containers/name=side-t0-app/image",
		"/spec/initContainers/name=side-t0", "/spec/initContainers/name=side-t0-1", "/spec/volumes/name=v0", "/spec/volumes/name=shared", "/spec/volumes/name=shared/emptyDir",
		"/spec/securityContext/runAsUser", "/spec/dnsPolicy", "/spec/hostname", "/metadata/labels/app", "/spec/x/y", "/spec/containers/name=gone/env/name=A"}
	path := rapid.SampledFrom(paths)
	original := rapid.SampledFrom([]any{nil, "x", yamlObject{"name": "c0", "image": "x"}, yamlObject{"name": "side-t0-app", "image": "x"}, []any{}, json.Number("1")})
	forged := recordtest.Forged{Templates: map[string]string{}}
	for _, name := range names {
		forged.Templates[name] = "h"
	}
	forged.Added = rapid.SliceOfN(path, 0, 3).Draw(t, "items")
	forged.Made = rapid.SliceOfN(path, 0, 2).Draw(t, "created")
	forged.Was = rapid.MapOfN(path, original, 0, 3).Draw(t, "overwrote")
	if some(t, "removed") {
		forged.Removed = map[string][]record.Removed{path.Draw(t, "list"): {{At: 1, Value: original.Draw(t, "value")}}}
	}
	return forged
}

func TestASecondCallChangesNothingInAPodWithAForgedRecord(t *testing.T) {
	injected, tried := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		pod, templates := drawPod(rt, some(rt, "hostile")), drawTemplates(rt)
		annotations, ok := objectOf(pod["metadata"])["annotations"].(map[string]any)
		if !ok {
			return
		}
		annotations[statusKey] = drawStrangersRecord(rt, "zz", "a").Text()
		tried++
		first, err := injectAny(t, pod, templates)
		if err != nil {
			return
		}
		injected++
		again, err := injectAny(t, first.Pod, templates)
		if err != nil || len(again.Operations) > 0 {
			rt.Fatalf("inject(inject(p)) = inject(p): %v, operations %s\nof %s\nfrom %s", err, text(again.Operations), text(first.Pod), text(pod))
		}
	})
	if injected*10 < tried {
		t.Fatalf("only %d of %d pods were injected", injected, tried)
	}
	t.Logf("tested on %d of %d pods", injected, tried)
}

// injectAny is inject for pods whose base pod may lack its spec.
func injectAny(t testing.TB, pod map[string]any, templates []generated) (injected, error) {
	if _, ok := recordOf(t, pod).Base(pod)["spec"].(map[string]any); !ok {
		return injected{}, errors.New("the base has no spec")
	}
	return inject(t, pod, templates)
}

// allowedRemoval reports whether templates may remove what stands at the pointer: values that the API
// server's admission set, the other handler of a probe under Overwrite, and fields
// that the templates' own $patch and $unset name.
func allowedRemoval(pointer string) bool {
	whole := strings.TrimPrefix(pointer, "/")
	return whole == "spec/priority" || whole == "spec/preemptionPolicy" || whole == "spec/tolerations" || strings.HasPrefix(whole, "spec/tolerations/") ||
		strings.Contains(whole, "/livenessProbe/") || strings.Contains(whole, "/preStop/") ||
		whole == "spec/runtimeClassName" || whole == "spec/nodeSelector" || strings.HasPrefix(whole, "spec/volumes/") || strings.Contains(whole, "/env/") ||
		strings.HasPrefix(whole, "spec/resources/requests/")
}

func TestATemplateThatRendersToNothingLeavesNoTrace(t *testing.T) {
	pod := parse(t, "metadata: {name: p}\nspec: {containers: [{name: web, image: x}]}")
	for _, object := range []string{"{}", "spec: {}", "spec: {initContainers: [], containers: [], tolerations: []}", "metadata: {labels: {}, annotations: {}}\nspec: {securityContext: {sysctls: []}, affinity: null}"} {
		r := mustMerge(t, pod, fragment(t, "a", object))
		if len(r.Operations) != 0 || len(r.Templates) != 0 || text(r.Pod) != text(pod) {
			t.Errorf("%s: operations %s", object, text(r.Operations))
		}
	}
	if r := mustMerge(t, pod, Fragment{Template: "a"}); len(r.Operations) != 0 {
		t.Errorf("no fragment: operations %s", text(r.Operations))
	}
}

func TestAnOriginalOfHostileNumbersComesBackExactly(t *testing.T) {
	pod := parse(t, "spec: {}")
	pod["spec"] = decode(t, []byte(`{"newer":{"a":1e400,"b":12345678901234567890,"c":1.50}}`))
	f := fragment(t, "a", "spec: {newer: {}}")
	f.OnConflict = Overwrite
	lawful(t, pod, f)
}

package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAPlanSaysPlaceByPlaceWhatItDoesAndWhatStaysThePods(t *testing.T) {
	for name, c := range map[string]struct {
		fragment Fragment
		spec     string
		effects  []string
		kept     []string
	}{
		"an item is one place": {spec: "spec: {initContainers: [{name: side, image: x, env: [{name: A, value: b}]}], volumes: [{name: v, emptyDir: {}}]}",
			effects: []string{"spec.initContainers[name=side] added", "spec.volumes[name=v] added"}},
		"a value of the pod that is wanted so": {spec: "spec: {hostname: own}", effects: []string{"spec.hostname same"}},
		"a variable is the pod's":              {spec: "spec: {containers: [{name: web, env: [{name: A, value: t}]}]}", kept: []string{"spec.containers[name=web].env[name=A] rule map[name:A value:own] map[name:A value:t]"}},
		"a node says so":                       {spec: "spec: {securityContext: {$onConflict: KeepPod, runAsUser: 2}}", kept: []string{"spec.securityContext.runAsUser $onConflict 1 2"}},
		"the template says so":                 {fragment: Fragment{OnConflict: KeepPod}, spec: "spec: {hostname: t}", kept: []string{"spec.hostname onConflict own t"}},
		"the template overwrites":              {fragment: Fragment{OnConflict: Overwrite}, spec: "spec: {hostname: t}", effects: []string{"spec.hostname replaced"}},
		"a text is appended":                   {spec: "spec: {containers: [{name: web, env: [{name: A, $append: ',', value: t}]}]}", effects: []string{"spec.containers[name=web].env[name=A] appended"}},
		"a field goes":                         {spec: "spec: {$unset: [hostname]}", effects: []string{"spec.hostname removed"}},
		"a sidecar of the author's": {fragment: Fragment{Overridable: true}, spec: "spec: {initContainers: [{name: own, image: t, workingDir: /t}]}",
			effects: []string{"spec.initContainers[name=own].workingDir added"}, kept: []string{"spec.initContainers[name=own].image overridable own t"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.fragment.Template, c.fragment.Object = "side", parse(t, c.spec)
			plan, err := Merge(t.Context(), parse(t, basePod), []Fragment{c.fragment}, statusKey)
			if err != nil {
				t.Fatal(err)
			}
			var effects, kept []string
			for _, e := range plan.Effects() {
				effects = append(effects, e.Path+" "+string(e.Effect))
			}
			for _, k := range plan.Kept() {
				kept = append(kept, fmt.Sprintf("%s %s %v %v", k.Path, k.Why, k.Has, k.Wants))
			}
			if diff := cmp.Diff(c.effects, effects); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.kept, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

// A value that stays and is warned of is one that the plan says stays; a plan that edits the
// pod names a place that it edits, and each place is named once.
func TestWhatAPlanSaysOfItsPlacesAgreesWithItsWarnings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fragments := []Fragment{drawFragment(rt, t, "a"), drawFragment(rt, t, "b")}
		plan, err := Merge(context.Background(), parse(t, basePod), fragments, statusKey)
		if err != nil {
			return
		}
		for _, k := range plan.Kept() {
			text := fmt.Sprintf("template %s: %s: ", k.Template, k.Path)
			if k.Why != KeptByOverridable && !slices.Contains(plan.Warnings, text+podsStays) && !slices.Contains(plan.Warnings, text+mountStays) {
				rt.Fatalf("no warning begins with %q: %q", text, plan.Warnings)
			}
		}
		for _, w := range plan.Warnings {
			rest, stays := strings.CutSuffix(strings.Replace(w, mountStays, podsStays, 1), ": "+podsStays)
			if stays && !slices.ContainsFunc(plan.Kept(), func(k Kept) bool { return rest == "template "+k.Template+": "+k.Path }) {
				rt.Fatalf("nothing is kept for %q", w)
			}
		}
		edits, seen := false, map[string]bool{}
		for _, e := range plan.Effects() {
			edits = edits || e.Effect != Same
			if seen[e.Path] || len(e.Templates) == 0 {
				rt.Fatalf("%+v: twice, or of no template", e)
			}
			seen[e.Path] = true
		}
		if edits != plan.Root.Edits() {
			rt.Fatalf("the plan edits the pod: %v; its effects %+v", plan.Root.Edits(), plan.Effects())
		}
	})
}

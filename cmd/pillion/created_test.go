package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// What a controller adds decides about the injection, is not in the output, and is not in
// the way of taking the sidecars out again.
func TestWhatControllersAddDecidesAndIsNotPrinted(t *testing.T) {
	files := map[string]string{"ns.yaml": "kind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: 'true'}}\n"}
	type workload struct {
		kind, manifest string
		pod            map[string]any
	}
	workloads := rapid.Custom(func(r *rapid.T) workload {
		spec := map[string]any{"containers": []any{map[string]any{"name": "web", "image": "w:1"}}}
		for name, value := range map[string]any{
			"volumes": []any{map[string]any{"name": "own", "emptyDir": map[string]any{}}}, "hostname": "own", "subdomain": "own",
			"tolerations":    []any{map[string]any{"key": "own"}, map[string]any{"effect": "NoSchedule", "key": "node.kubernetes.io/pid-pressure", "operator": "Exists"}},
			"initContainers": []any{map[string]any{"name": "first", "image": "f:1"}},
			"affinity":       map[string]any{"podAffinity": map[string]any{}},
		} {
			if rapid.Bool().Draw(r, name) {
				spec[name] = value
			}
		}
		pod := map[string]any{"spec": spec}
		switch rapid.IntRange(0, 3).Draw(r, "metadata") {
		case 1:
			pod["metadata"] = map[string]any{"labels": map[string]any{"app": "web"}}
		case 2:
			pod["metadata"] = map[string]any{"name": "own", "annotations": map[string]any{"a": "b"}}
		case 3:
			pod["metadata"] = map[string]any{}
		}
		kind := rapid.SampledFrom([]string{"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Rollout"}).Draw(r, "kind")
		of := map[string]any{"template": pod, "completionMode": rapid.SampledFrom([]string{"Indexed", "NonIndexed"}).Draw(r, "mode"), "volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data"}}}}
		if kind == "CronJob" {
			of = map[string]any{"jobTemplate": map[string]any{"spec": of}}
		}
		before, err := yaml.Marshal(map[string]any{"kind": kind, "metadata": map[string]any{"name": "x"}, "spec": of})
		if err != nil {
			r.Fatal(err)
		}
		return workload{kind: kind, manifest: string(before), pod: pod}
	})
	for seed := range 12 { // each is a dozen runs of a command
		w := workloads.Example(seed)
		inject := func(in string, more ...string) string {
			code, out, errs := call(t, in, files, append([]string{"inject", "-f", "-", "--library=fluent-bit", "--templates", "testdata/looks.yaml", "--namespace-file", "DIR/ns.yaml"}, more...)...)
			if code != exitDone {
				t.Fatalf("exit %d: %s\n%s", code, errs, in)
			}
			return out
		}
		after := inject(w.manifest)
		for _, assumed := range []string{"ownerReferences", "claimName", "generateName", "unreachable", "matchFields", "job-tracking", "JOB_COMPLETION_INDEX"} {
			if strings.Contains(after, assumed) {
				t.Fatalf("%s is printed:\n%s", assumed, after)
			}
		}
		if w.kind != "Rollout" && strings.Contains(after, "owner: none") {
			t.Fatalf("the template did not see an owner:\n%s", after)
		}
		if claims := fmt.Sprintf("claims: \"%d\"", map[string]int{"StatefulSet": 1}[w.kind]); !strings.Contains(after, claims) {
			t.Fatalf("not %s:\n%s", claims, after)
		}
		if again := inject(after); again != after {
			t.Fatalf("a second call changes\n%s\nto\n%s", after, again)
		}
		code, out, errs := call(t, after, nil, "uninject", "-f", "-")
		var want, got any
		if yaml.Unmarshal([]byte(w.manifest), &want) != nil || yaml.Unmarshal([]byte(out), &got) != nil || code != exitDone || !reflect.DeepEqual(got, want) {
			t.Fatalf("uninject: exit %d %s\n%s\nwant\n%s", code, errs, out, w.manifest)
		}
		if w.kind == "CronJob" {
			continue
		}
		patch, err := jsonpatch.DecodePatch([]byte(inject(w.manifest, "-o", "patch")))
		if err != nil {
			t.Fatal(err)
		}
		document, _ := json.Marshal(w.pod)
		patched, err := patch.Apply(document)
		var object map[string]any
		if err != nil || yaml.Unmarshal([]byte(after), &object) != nil {
			t.Fatalf("the patch of the template: %v", err)
		}
		wanted, _ := json.Marshal(object["spec"].(map[string]any)["template"])
		if !jsonpatch.Equal(patched, wanted) {
			t.Fatalf("the patch gives\n%s\nwant\n%s", patched, wanted)
		}
	}
}

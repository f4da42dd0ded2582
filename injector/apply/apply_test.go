package apply_test

import (
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// update brings a pod up to date with a template that overwrites what the pod has, as a call of the pipeline does. It
// holds that the operations lead to the pod, and that the next call has nothing to do.
func update(t testing.TB, pod map[string]any, fragment string) (apply.Result, error) {
	t.Helper()
	r, err := call(t, pod, fragment)
	if err != nil {
		return r, err
	}
	errtest.ExpectNone(t, patch.Check(t.Context(), pod, r.Operations, r.Pod))
	again, err := call(t, r.Pod, fragment)
	if err != nil || len(again.Operations) > 0 || len(again.Warnings) != len(r.Warnings) {
		t.Fatalf("the next call: %v %s %q", err, patch.Marshal(again.Operations), again.Warnings)
	}
	return r, nil
}

func call(t testing.TB, pod map[string]any, fragment string) (apply.Result, error) {
	t.Helper()
	rec, err := record.Parse(pod)
	errtest.ExpectNone(t, err)
	base := rec.Base(pod)
	m, err := merge.Merge(t.Context(), merge.State{Base: base, Pod: base}, fragmenttest.Parse(t, fragment), merge.Template{Name: "t", OnConflict: "Overwrite"})
	if err != nil || len(m.Conflicts) > 0 {
		return apply.Result{}, fmt.Errorf("%w %v", err, m.Conflicts)
	}
	w := &apply.Target{Pod: m.Pod}
	w.Add("t", m.Writes)
	r, err := apply.Apply(t.Context(), pod, rec, w)
	if err == nil {
		err = r.Mark(base, []string{"t"})
	}
	return r, err
}

// patched applies a JSON patch, as somebody else's change.
func patched(t testing.TB, pod map[string]any, operations string) map[string]any {
	t.Helper()
	p, err := jsonpatch.DecodePatch([]byte(operations))
	errtest.ExpectNone(t, err)
	after, err := p.Apply(podschema.Encode(pod))
	if err != nil {
		t.Fatalf("%v\n%s", err, podschema.Encode(pod))
	}
	return fragmenttest.Decode(t, string(after))
}

func spec(pod map[string]any) string { return string(podschema.Encode(pod["spec"])) }

const side = "{name: s, image: 's:1', restartPolicy: Always, args: [a], env: [{name: A, value: x}]}"

// The table of the contract: what the record has, what the pod has there, and what becomes of it.
func TestEveryRowOfTheTable(t *testing.T) {
	const author = "{metadata: {name: p}, spec: {dnsPolicy: None, containers: [{name: web, image: w, env: [{name: OWN, value: o}]}]}}"
	for _, c := range []struct{ why, first, others, second, want, warning string }{
		{"no entry: it writes what is wanted", "spec: {}", `[]`, "spec: {dnsPolicy: Default, initContainers: [{name: s, image: s}]}", `{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"Default","initContainers":[{"image":"s","name":"s"}]}`, ""},
		{"the wanted digest: others' changes are kept", "spec: {initContainers: [" + side + "]}", `[{"op":"add","path":"/spec/initContainers/0/env/-","value":{"name":"B"}},{"op":"replace","path":"/spec/initContainers/0/args","value":["b"]}]`, "spec: {initContainers: [" + side + "]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"None","initContainers":[{"args":["b"],"env":[{"name":"A","value":"x"},{"name":"B"}],"image":"s:1","name":"s","restartPolicy":"Always"}]}`, ""},
		{"the wanted digest: a scalar, too", "spec: {dnsPolicy: Default}", `[{"op":"replace","path":"/spec/dnsPolicy","value":"ClusterFirst"}]`, "spec: {dnsPolicy: Default}", `{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"ClusterFirst"}`, ""},
		{"the wanted digest: an item that is gone is added again", "spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: web, env: [{name: A, value: x}]}]}", `[{"op":"remove","path":"/spec/volumes"},{"op":"remove","path":"/spec/containers/0/env/1"}]`, "spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: web, env: [{name: A, value: x}]}]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"},{"name":"A","value":"x"}],"image":"w","name":"web"}],"dnsPolicy":"None","volumes":[{"emptyDir":{},"name":"v"}]}`, ""},
		{"the wanted digest: a field stays away", "spec: {hostname: h, dnsPolicy: Default}", `[{"op":"remove","path":"/spec/hostname"},{"op":"remove","path":"/spec/dnsPolicy"}]`, "spec: {hostname: h, dnsPolicy: Default}", `{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}]}`, ""},
		{"another digest: the value as written is replaced whole", "spec: {dnsPolicy: Default, initContainers: [" + side + "]}", `[]`, "spec: {dnsPolicy: ClusterFirst, initContainers: [{name: s, image: 's:2', args: [z]}]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"ClusterFirst","initContainers":[{"args":["z"],"image":"s:2","name":"s"}]}`, ""},
		{"another digest: API defaults and the token's mount are no change", "spec: {initContainers: [" + side + "]}", `[{"op":"add","path":"/spec/initContainers/0/terminationMessagePath","value":"/dev/termination-log"},{"op":"add","path":"/spec/initContainers/0/volumeMounts","value":[{"name":"kube-api-access-a","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]`,
			"spec: {initContainers: [{name: s, image: 's:1', args: [z]}]}", `{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"None","initContainers":[{"args":["z"],"image":"s:1","name":"s","volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-a","readOnly":true}]}]}`, ""},
		{"another digest: a mirrored image is kept where the template's is as before", "spec: {initContainers: [" + side + "]}", `[{"op":"replace","path":"/spec/initContainers/0/image","value":"mirror/s:1"}]`, "spec: {initContainers: [{name: s, image: 's:1', args: [z]}]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"None","initContainers":[{"args":["z"],"image":"mirror/s:1","name":"s"}]}`, ""},
		{"another image alone is replaced", "spec: {initContainers: [" + side + "]}", `[]`, "spec: {initContainers: [" + strings.Replace(side, "s:1", "s:2", 1) + "]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"None","initContainers":[{"args":["a"],"env":[{"name":"A","value":"x"}],"image":"s:2","name":"s","restartPolicy":"Always"}]}`, ""},
		{"another image alone, of one that was mirrored", "spec: {initContainers: [" + side + "]}", `[{"op":"replace","path":"/spec/initContainers/0/image","value":"mirror/s:1"}]`, "spec: {initContainers: [" + strings.Replace(side, "s:1", "s:2", 1) + "]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"None","initContainers":[{"args":["a"],"env":[{"name":"A","value":"x"}],"image":"mirror/s:1","name":"s","restartPolicy":"Always"}]}`, "spec.initContainers[name=s].image: another webhook or a user changed it after injection"},
		{"another digest: what somebody changed stays, with a warning", "spec: {dnsPolicy: Default, initContainers: [" + side + "]}", `[{"op":"replace","path":"/spec/dnsPolicy","value":"ClusterFirstWithHostNet"},{"op":"replace","path":"/spec/initContainers/0/args","value":["b"]}]`, "spec: {dnsPolicy: ClusterFirst, initContainers: [{name: s, image: 's:1', args: [z]}]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"}],"image":"w","name":"web"}],"dnsPolicy":"ClusterFirstWithHostNet","initContainers":[{"args":["b"],"env":[{"name":"A","value":"x"}],"image":"s:1","name":"s","restartPolicy":"Always"}]}`, "spec.initContainers[name=s]: another webhook or a user changed it after injection"},
		{"nothing is wanted there: it stays", "spec: {dnsPolicy: Default, hostname: h, initContainers: [" + side + "], containers: [{name: web, env: [{name: A, value: x}]}]}", `[{"op":"replace","path":"/spec/hostname","value":"other"}]`, "spec: {}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"},{"name":"A","value":"x"}],"image":"w","name":"web"}],"dnsPolicy":"Default","hostname":"other","initContainers":[{"args":["a"],"env":[{"name":"A","value":"x"}],"image":"s:1","name":"s","restartPolicy":"Always"}]}`, ""},
		{"what is taken away goes", "spec: {}", `[]`, "spec: {$unset: [dnsPolicy], containers: [{name: web, env: [{name: OWN, $patch: delete}]}]}", `{"containers":[{"env":[],"image":"w","name":"web"}]}`, ""},
		{"what was taken away and somebody put back stays", "spec: {$unset: [dnsPolicy], containers: [{name: web, env: [{name: OWN, $patch: delete}]}]}", `[{"op":"add","path":"/spec/dnsPolicy","value":"Default"},{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"OWN","value":"again"}}]`, "spec: {$unset: [dnsPolicy], containers: [{name: web, env: [{name: OWN, $patch: delete}]}]}",
			`{"containers":[{"env":[{"name":"OWN","value":"again"}],"image":"w","name":"web"}],"dnsPolicy":"Default"}`, ""},
		{"of two variables the one as written is replaced", "spec: {containers: [{name: web, env: [{name: A, value: x}]}]}", `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"A","value":"theirs"}}]`, "spec: {containers: [{name: web, env: [{name: A, $onConflict: Overwrite, value: z}]}]}",
			`{"containers":[{"env":[{"name":"OWN","value":"o"},{"name":"A","value":"z"},{"name":"A","value":"theirs"}],"image":"w","name":"web"}],"dnsPolicy":"None"}`, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			first, err := update(t, fragmenttest.Decode(t, author), c.first)
			errtest.ExpectNone(t, err)
			second, err := update(t, patched(t, first.Pod, c.others), c.second)
			errtest.ExpectNone(t, err)
			if got := spec(second.Pod); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := strings.Join(second.Warnings, "\n"); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

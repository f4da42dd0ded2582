package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/rollout"
	"github.com/pillion-dev/pillion/templates"
)

const statusKey = "pillion.dev/status"

// shipper is a template with one native sidecar, and what else a version of it may want.
type shipper struct {
	image, level, appEnv, label, unread string
	// volume, job: it has a volume for the app, and an init container that ends.
	volume, job, secondSidecar bool
}

func (s shipper) manifest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: shipper}\nspec:\n  variables: [{name: unread, expression: %q}]\n  inject:\n", "'"+s.unread+"'")
	if s.label != "" {
		fmt.Fprintf(&b, "    metadata: {labels: {shipped: %s}}\n", s.label)
	}
	fmt.Fprintf(&b, "    spec:\n      initContainers:\n      - {name: shipper, restartPolicy: Always, image: %q, $position: First", s.image)
	if s.level != "" {
		fmt.Fprintf(&b, ", env: [{name: LEVEL, value: %s}, {name: POD, value: \"${pod.metadata.?name.orValue('')}\"}, {name: NODE, value: \"${pod.spec.?nodeName.orValue('')}\"}]", s.level)
	}
	b.WriteString("}\n")
	if s.secondSidecar {
		fmt.Fprintf(&b, "      - {name: second, restartPolicy: Always, image: %q}\n", "second-"+s.image)
	}
	if s.job {
		fmt.Fprintf(&b, "      - {name: prepare, image: %q}\n", s.image)
	}
	if s.volume {
		b.WriteString("      volumes: [{name: logs, emptyDir: {}}]\n")
	}
	if s.appEnv != "" {
		fmt.Fprintf(&b, "      containers:\n      - {$each: App, env: [{name: SHIPPED, value: %s, $onConflict: Overwrite}]}\n", s.appEnv)
	}
	return b.String()
}

// compiled has the sets of earlier calls of setOf: to compile takes most of a test's time.
var compiled sync.Map

// setOf returns the set of one template.
func setOf(t errtest.T, manifest string) *templates.Set {
	if set, ok := compiled.Load(manifest); ok {
		return set.(*templates.Set)
	}
	tmpl, _, err := templates.Compile([]byte(manifest), templates.Options{Source: "test"})
	errtest.ExpectNone(t, err)
	set := templates.NewSet([]templates.Entry{{Name: tmpl.Name(), Template: tmpl}})
	compiled.Store(manifest, set)
	return set
}

func decodePod(t errtest.T, text string) map[string]any {
	pod, err := injector.DecodePod([]byte(text))
	errtest.ExpectNone(t, err)
	return pod
}

// request is about a pod of a namespace that asks for the shipper.
func request(pod map[string]any, set *templates.Set) injector.Request {
	return injector.Request{Operation: "CREATE", Pod: pod, Templates: set,
		Namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}}
}

// running injects a pod, and does to it what the API server and a kubelet do.
func running(t errtest.T, p *injector.Pipeline, pod map[string]any, set *templates.Set) map[string]any {
	out, err := p.Inject(context.Background(), request(pod, set))
	if err != nil || !out.Allowed {
		t.Fatal(err, out.Message)
	}
	pod = clone(t, out.Pod)
	spec := pod["spec"].(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			c := item.(map[string]any)
			maps.Copy(c, map[string]any{"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": map[string]any{}})
			c["imagePullPolicy"] = "IfNotPresent"
			if image, _ := c["image"].(string); strings.HasSuffix(image, ":latest") {
				c["imagePullPolicy"] = "Always"
			}
		}
	}
	maps.Copy(spec, map[string]any{"nodeName": "node", "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "terminationGracePeriodSeconds": json.Number("30")})
	maps.Copy(pod["metadata"].(map[string]any), map[string]any{"uid": "0b1c", "resourceVersion": "17", "generateName": "web-", "name": "web-x7k2p"})
	pod["status"] = map[string]any{"phase": "Running"}
	return pod
}

// compared says how a running pod stands.
func compared(t errtest.T, p *injector.Pipeline, pod map[string]any, set *templates.Set) drift.Comparison {
	now, err := drift.Comparer{Pipeline: p, Registration: entries.Registration{All: true}}.Compare(context.Background(), pod, request(pod, set).Namespace, set)
	errtest.ExpectNone(t, err)
	return now
}

func inPlace(t errtest.T, p *injector.Pipeline, pod map[string]any, set *templates.Set) (rollout.Change, string) {
	return rollout.InPlace(pod, compared(t, p, pod, set))
}

func clone(t errtest.T, object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	errtest.ExpectNone(t, err)
	return decodePod(t, string(text))
}

// patched is a pod after operations, by the library that kube-apiserver uses.
func patched(t errtest.T, pod map[string]any, ops []patch.Operation) map[string]any {
	text, err := json.Marshal(pod)
	errtest.ExpectNone(t, err)
	p, err := jsonpatch.DecodePatch(patch.Marshal(ops))
	errtest.ExpectNone(t, err)
	after, err := p.Apply(text)
	errtest.ExpectNone(t, err)
	return decodePod(t, string(after))
}

func baseOf(t errtest.T, pod map[string]any) map[string]any {
	rec, err := record.Parse(pod)
	errtest.ExpectNone(t, err)
	return rec.Base(pod)
}

// withoutImagesAndRecord is what an in-place change has to leave as it is.
func withoutImagesAndRecord(t errtest.T, pod map[string]any) map[string]any {
	pod = clone(t, pod)
	for _, item := range pod["spec"].(map[string]any)["initContainers"].([]any) {
		if c := item.(map[string]any); c["restartPolicy"] == "Always" && (c["name"] == "shipper" || c["name"] == "second") {
			delete(c, "image")
		}
	}
	delete(pod["metadata"].(map[string]any)["annotations"].(map[string]any), statusKey)
	pod = record.WithoutLabels(pod)
	if labels, _ := meta(pod)["labels"].(map[string]any); len(labels) == 0 {
		delete(meta(pod), "labels")
	}
	return pod
}

func drawn(t *rapid.T, name string) shipper {
	of := func(what string, values ...string) string {
		return rapid.SampledFrom(values).Draw(t, name+" "+what)
	}
	s := shipper{image: of("image", "ship:1", "ship:2", "ship:latest", "ship@sha256:"+strings.Repeat("0", 64)), level: of("level", "", "", "info", "debug"),
		appEnv: of("env of the app", "", "", "a", "b"), label: of("label", "", "", "c", "d"), unread: of("unread", "", "e")}
	s.volume = rapid.Bool().Draw(t, name+" volume")
	s.job = rapid.IntRange(0, 3).Draw(t, name+" job") == 0
	s.secondSidecar = rapid.IntRange(0, 2).Draw(t, name+" second sidecar") == 0
	return s
}

// interfere changes a running pod as others do, and reports whether it changed what the
// shipper wrote.
func interfere(t *rapid.T, pod map[string]any) bool {
	sidecars := pod["spec"].(map[string]any)["initContainers"].([]any)
	var sidecar map[string]any
	for _, item := range sidecars {
		if c := item.(map[string]any); c["name"] == "shipper" {
			sidecar = c
		}
	}
	switch rapid.SampledFrom([]string{"nobody", "nobody", "a mirror", "a mount", "a label", "Pillion's labels"}).Draw(t, "who interferes") {
	case "a mirror":
		sidecar["image"] = "mirror.example.com/" + sidecar["image"].(string)
		return true
	case "a mount":
		sidecar["volumeMounts"] = []any{map[string]any{"name": "ca", "mountPath": "/etc/ssl"}}
	case "Pillion's labels":
		pod["metadata"] = record.WithoutLabels(pod)["metadata"]
		if labels := meta(pod)["labels"].(map[string]any); len(labels) == 0 {
			delete(meta(pod), "labels")
		}
	case "a label":
		labels, _ := pod["metadata"].(map[string]any)["labels"].(map[string]any)
		if labels["shipped"] != nil {
			labels["shipped"] = "by hand"
			return true
		}
	}
	return false
}

var pods = []string{
	`{"metadata": {"generateName": "web-", "annotations": {"own": "x"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}`,
	`{"metadata": {"generateName": "web-"}, "spec": {"initContainers": [{"name": "migrate", "image": "web:1"}], "containers": [{"name": "web", "image": "web:1", "env": [{"name": "SHIPPED", "value": "own"}]}, {"name": "b", "image": "b:1"}]}}`,
	`{"metadata": {"generateName": "web-", "labels": {"shipped": "own"}}, "spec": {"initContainers": [{"name": "own", "image": "own:1", "restartPolicy": "Always"}], "containers": [{"name": "web", "image": "web:1"}], "volumes": [{"name": "data", "emptyDir": {}}]}}`,
}

// For any two versions of a template and any pod: where a pod is changed in place, only
// images of the template's native sidecars and the record change; a second look finds nothing
// to do; the record is a new pod's; and the pod without Pillion is the same as before. Where
// only the image differs, and nobody changed it since, the pod is changed in place.
func TestWhatIsChangedInPlaceIsANewPodAndNothingElseChanges(t *testing.T) {
	p := injector.NewPipeline(injector.Config{})
	done := 0
	rapid.Check(t, func(t *rapid.T) {
		before := drawn(t, "before")
		after := before
		if rapid.Bool().Draw(t, "another version altogether") {
			after = drawn(t, "after")
		} else {
			after.image = rapid.SampledFrom([]string{"ship:1", "ship:2", "ship:3"}).Draw(t, "image after")
			after.unread = rapid.SampledFrom([]string{"", "f"}).Draw(t, "unread after")
		}
		author := decodePod(t, rapid.SampledFrom(pods).Draw(t, "pod"))
		if labels, _ := author["metadata"].(map[string]any)["labels"].(map[string]any); labels["shipped"] != nil {
			before.label, after.label = "", ""
		}
		pod := running(t, p, author, setOf(t, before.manifest()))
		changedSince := interfere(t, pod)
		set := setOf(t, after.manifest())
		change, why := inPlace(t, p, pod, set)
		onlyImage := before
		onlyImage.image, onlyImage.unread = after.image, after.unread
		samePolicy := before.image == after.image || !strings.HasSuffix(before.image, ":latest") && !strings.HasSuffix(after.image, ":latest")
		if why != "" {
			if onlyImage == after && !before.job && samePolicy && !changedSince {
				t.Fatalf("only images differ, and it is not done in place: %s", why)
			}
			return
		}
		done++
		got := patched(t, pod, change.Operations)
		if a, b := withoutImagesAndRecord(t, got), withoutImagesAndRecord(t, pod); !reflect.DeepEqual(a, b) {
			t.Fatalf("the pod was\n%v\nand is\n%v", b, a)
		}
		if a, b := baseOf(t, got), baseOf(t, pod); !reflect.DeepEqual(a, b) {
			t.Fatalf("the base pod was\n%v\nand is\n%v", b, a)
		}
		if again, why := inPlace(t, p, got, set); len(again.Operations) > 0 || why != "" {
			t.Fatalf("a second look finds %v, %q", again.Operations, why)
		}
		if now := compared(t, p, got, set); !now.Counts || now.Template("shipper").State != drift.Current {
			t.Fatalf("a second look says %s: %v", now.Template("shipper").State, now.Places)
		}
		// What a new pod has in the places that are Pillion's, this one has.
		rec, _ := record.Parse(got)
		want, err := record.Parse(compared(t, p, pod, set).New)
		if err != nil || rec.Encode() != want.Encode() {
			t.Fatalf("the record is\n%s\na new pod's is\n%s (%v)", rec.Encode(), want.Encode(), err)
		}
		for _, s := range change.Sidecars {
			if s.From == s.To {
				t.Fatalf("sidecar %s is restarted for nothing", s)
			}
		}
	})
	if done < 10 {
		t.Errorf("only %d pods were changed in place: that shows little", done)
	}
}

func TestAPodIsNotChangedInPlaceAndTheReasonSaysWhy(t *testing.T) {
	p := injector.NewPipeline(injector.Config{})
	first := shipper{image: "ship:1", level: "info", appEnv: "a", label: "c", volume: true}
	for name, test := range map[string]struct {
		after  func(*shipper)
		change func(pod map[string]any)
		want   string
	}{
		"the app's container would change": {after: func(s *shipper) { s.image, s.appEnv = "ship:2", "b" }, want: "its container web would change in env, and is no native sidecar"},
		"the sidecar would change in more": {after: func(s *shipper) { s.level = "debug" }, want: "its sidecar shipper would change in more than its image"},
		"a sidecar more":                   {after: func(s *shipper) { s.secondSidecar = true }, want: "its list of containers would change"},
		"a label":                          {after: func(s *shipper) { s.label = "d" }, want: "it would change in metadata.labels.shipped"},
		"a volume less":                    {after: func(s *shipper) { s.volume, s.image = false, "ship:2" }, want: "it would change in spec.volumes[name=logs]"},
		"another default of the pull policy": {after: func(s *shipper) { s.image = "ship:latest" },
			want: "its sidecar shipper would change in imagePullPolicy, whose default comes from the image's tag (ship:1 becomes ship:latest)"},
		"a mirror's image": {after: func(s *shipper) { s.image = "ship:2" }, change: func(pod map[string]any) {
			pod["spec"].(map[string]any)["initContainers"].([]any)[0].(map[string]any)["image"] = "mirror/ship:1"
		}, want: "spec.initContainers[name=shipper].image is not what Pillion wrote: somebody changed it since"},
		"no record": {after: func(*shipper) {}, change: func(pod map[string]any) {
			delete(pod["metadata"].(map[string]any)["annotations"].(map[string]any), statusKey)
		}, want: "it has no sidecar yet, and a running pod takes no other containers"},
		"a record that cannot be read": {after: func(*shipper) {}, change: func(pod map[string]any) {
			pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = `{"v":2}`
		}, want: "its record cannot be read: annotation pillion.dev/status: its version is 2; this build reads version 1"},
	} {
		after := first
		test.after(&after)
		pod := running(t, p, decodePod(t, pods[0]), setOf(t, first.manifest()))
		if test.change != nil {
			test.change(pod)
		}
		change, why := inPlace(t, p, pod, setOf(t, after.manifest()))
		if why != test.want || len(change.Operations) > 0 {
			t.Errorf("%s: %v, %q; want %q", name, change.Sidecars, why, test.want)
		}
	}
}

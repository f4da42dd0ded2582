package injector

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// FuzzPods takes any JSON object as a pod its whole way, in a namespace that asks for every
// template, two of which are required: Pillion never fails; the same pod gives the same
// outcome; a refusal has a code and a sentence; an injected pod is not changed by a second
// call, and has what the required templates want.
func FuzzPods(f *testing.F) {
	set := templatestest.Set(f, append(slices.Clone(hostileTemplates), manifestNamed("files", `onConflict: KeepPod, files: {own: "text\n", pods: "${string(size(pod.spec.containers))}"}, inject: {spec: {containers: [{$each: App, volumeMounts: [{name: files-files, mountPath: /files}]}]}}`))...)
	namespace := templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "deny,over,keep,write,skip,each,files"}}
	for _, seed := range []string{
		`{}`, `{"spec":null}`, `{"metadata":{"annotations":null},"spec":{"containers":[]}}`, `{"spec":{"containers":[{"name":"web","image":"x"}]}}`,
		`{"metadata":{"annotations":{"pillion.dev/inject":"deny"}},"spec":{"containers":[{"name":"over","image":"auto"}],"initContainers":[{"name":"audit","image":"evil:1"}]}}`,
		`{"metadata":{"annotations":{"pillion.dev/inject":"+keep,-over","pillion.dev/status":"{\"v\":1,\"templates\":{\"audit\":\"x\"},\"set\":{\"spec.initContainers[name=audit]\":{\"sum\":\"0\"},\"spec.containers[name=keep].env[name=A]\":{\"sum\":\"0\",\"gone\":[[7,null]],\"was\":[]}}}"}},"spec":{"containers":[{"name":"keep","env":[{"name":"A"},{"name":"A","value":"c"}]}],"initContainers":[{"name":"audit"}]}}`,
		`{"spec":{"containers":[{"name":"web","securityContext":{"runAsNonRoot":false},"env":[{"name":"HTTPS_PROXY","valueFrom":{}}]}],"volumes":[{"name":"audit","hostPath":{"path":"/"}}],"ephemeralContainers":[{"name":"deny"}]}}`,
		`{"metadata":{"annotations":{"files.files.pillion.dev/own":"mine"}},"spec":{"containers":[{"name":"web","ports":[{"containerPort":"x"}]}],"volumes":[{"name":"files-files","downwardAPI":{}}]}}`,
		`{"metadata":[],"spec":{"containers":{}}}`, `{"metadata":{"labels":{"a":1},"annotations":{"a":[]}},"spec":{"containers":[1,null,{"name":1},{"name":"web","env":{}}]}}`, `{"spec":{"containers":[{"name":"a","future":12345678901234567890.10}],"resources":{"limits":{"cpu":"1"}}}}`,
	} {
		f.Add(seed)
	}
	pipeline := NewPipeline(Config{})
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		pod, err := DecodePod([]byte(text))
		if err != nil {
			return
		}
		before, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		request := Request{Operation: "CREATE", Pod: pod, Namespace: namespace, Templates: set}
		out, err := pipeline.Inject(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := pipeline.Inject(t.Context(), request); err != nil || !same(out, again) {
			t.Fatalf("%+v, and then %+v (%v)", out, again, err)
		}
		if after, _ := json.Marshal(pod); string(after) != string(before) {
			t.Fatalf("the pod became %s", after)
		}
		if !out.Allowed {
			if out.Code == "" || len(out.Refusals) == 0 || !strings.HasSuffix(out.Message, "("+string(out.Code)+")") && !strings.Contains(out.Message, string(out.Code)) {
				t.Fatalf("a refusal with the code %q and %d reasons: %s", out.Code, len(out.Refusals), out.Message)
			}
			return
		}
		if slices.ContainsFunc(out.Templates, func(o TemplateOutcome) bool { return o.Name == "files" && o.Code == reason.Injected }) && annotationsOf(out.Pod)["files.files.pillion.dev/own"] != "text\n" {
			t.Fatalf("the template's file is %q", annotationsOf(out.Pod)["files.files.pillion.dev/own"])
		}
		request.Pod = out.Pod
		again, err := pipeline.Inject(t.Context(), request)
		if err != nil || !again.Allowed || len(again.Operations) > 0 {
			resulting, _ := json.Marshal(out.Pod)
			t.Fatalf("a second call: %v, allowed %t, %s, operations %v\nof %s", err, again.Allowed, again.Message, again.Operations, resulting)
		}
		verified, err := pipeline.Verify(t.Context(), request)
		if err != nil || !verified.Allowed {
			resulting, _ := json.Marshal(out.Pod)
			t.Fatalf("the injected pod is not what is required: %v, %s\nof %s", err, verified.Message, resulting)
		}
	})
}

package oracle_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

const manifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: t}
spec:
  parameters: [{name: host, type: string, default: h}]
  inject:
    spec:
      tolerations:
      - {key: a, operator: Exists, value: b}
      containers:
      - $each: App
        resources: {limits: {example.com/x: "2"}}
      initContainers:
      - name: first
        image: f:1
        restartPolicy: Always
      - name: side
        image: s:1
        restartPolicy: Always
        env:
        - {name: "${params.host}", value: x}
        - {name: LEVEL, value: "${params.host}"}
        lifecycle: {preStop: {sleep: {seconds: 20}}}
        securityContext: {capabilities: {add: [A, B]}}
`

// after is the pod after its injection: the template's containers stand in other places than in it.
const after = `{"metadata": {"name": "web", "annotations": {"pillion.dev/inject": "t", "a": "b"}, "labels": {"l": "m"}, "ownerReferences": [{"kind": "Job"}]}, "spec": {
	"serviceAccountName": "web",
	"tolerations": [{"key": "own", "operator": "Exists"}, {"key": "a", "operator": "Exists", "value": "b"}],
	"initContainers": [
		{"name": "side", "image": "s:1", "restartPolicy": "Always", "env": [{"name": "LEVEL", "value": "h"}, {"name": "h", "value": "x"}],
			"lifecycle": {"preStop": {"sleep": {"seconds": 20}}}, "securityContext": {"capabilities": {"add": ["A", "B"]}}},
		{"name": "own", "image": "o:1"},
		{"name": "first", "image": "f:1", "restartPolicy": "Always", "resources": {"limits": {"memory": "64MB"}}}],
	"containers": [{"name": "web", "image": "w:1", "resources": {"limits": {"example.com/x": "2"}}}]}}`

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	o, err := podschema.DecodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pillion-sample-x", errs)
}

func TestACauseNamesThePlaceInTheTemplateTheContainerAndTheValue(t *testing.T) {
	t.Parallel()
	template := templatestest.Compile(t, manifest)
	document := templates.ParseFile([]byte(manifest))[0]
	for name, c := range map[string]struct {
		err  error
		path string
		line int
		says string
	}{
		"a field of a sidecar": {
			invalid(field.Invalid(field.NewPath("spec").Child("initContainers").Index(0).Child("lifecycle", "preStop", "sleep"), 20, "must be less")),
			"spec.inject.spec.initContainers[1].lifecycle.preStop.sleep", 24, "container side: Invalid value: 20: must be less",
		},
		"an item among the pod's own": {
			invalid(field.Invalid(field.NewPath("spec").Child("tolerations").Index(1).Child("operator"), "b", "must be empty")),
			"spec.inject.spec.tolerations[0].operator", 10, `Invalid value: "b": must be empty`,
		},
		"an item whose name is an expression": {
			invalid(field.Invalid(field.NewPath("spec").Child("initContainers").Index(0).Child("env").Index(1).Child("name"), "h", "no")),
			"spec.inject.spec.initContainers[1].env[0].name", 22, `container side: Invalid value: "h": no`,
		},
		"an item of a list of texts": {
			invalid(field.Invalid(field.NewPath("spec").Child("initContainers").Index(0).Child("securityContext", "capabilities", "add").Index(1), "B", "no")),
			"spec.inject.spec.initContainers[1].securityContext.capabilities.add[1]", 25, `container side: Invalid value: "B": no`,
		},
		"an app's container that is extended, and a key with dots": {
			invalid(field.Invalid(field.NewPath("spec").Child("containers").Index(0).Child("resources", "limits").Key("example.com/x"), "2", "no")),
			`spec.inject.spec.containers[0].resources.limits["example.com/x"]`, 13, `container web: Invalid value: "2": no`,
		},
		"a place that the template does not write": {
			invalid(field.Forbidden(field.NewPath("spec").Child("hostNetwork"), "when `hostUsers` is false")),
			"spec.inject.spec", 8, "spec.hostNetwork: Forbidden: when `hostUsers` is false",
		},
		"a path that lacks an index": {
			invalid(field.Forbidden(field.NewPath("spec").Child("initContainers").Index(0).Child("env", "name"), "no")),
			"spec.inject.spec.initContainers[1].env", 21, "container side: spec.initContainers[0].env.name: Forbidden: no",
		},
		"a container of the pod's own": {
			invalid(field.Required(field.NewPath("spec").Child("initContainers").Index(1).Child("image"), "")),
			"spec.inject.spec.initContainers", 14, "container own: spec.initContainers[1].image: Required value",
		},
		"what cannot be decoded": {
			apierrors.NewBadRequest(`Pod in version "v1" cannot be handled as a Pod: quantities must match`),
			"spec.inject.spec.initContainers[0]", 15, `container first: spec.initContainers[2].resources.limits.memory: "64MB": quantities must match`,
		},
	} {
		o := oracle.Oracle{Create: func(context.Context, map[string]any) error { return c.err }}
		causes, err := o.Validate(t.Context(), template, object(t, after))
		if err != nil || len(causes) != 1 {
			t.Errorf("%s: %v, %v", name, causes, err)
			continue
		}
		p := causes[0].Problem(document)
		if want := "the API server refuses pods that get this: " + c.says; p.Path != c.path || p.Line != c.line || len(p.Message) < len(want) || p.Message[:len(want)] != want {
			t.Errorf("%s: %+v, want %s, line %d, %q", name, p, c.path, c.line, want)
		}
	}
}

func TestEachOfTwoMistakesInOneMapIsNamed(t *testing.T) {
	t.Parallel()
	template := templatestest.Compile(t, strings.Replace(manifest, "  inject:\n", "  inject:\n    metadata: {annotations: {bad key/one: a, another bad/key/two: b}}\n", 1))
	at := field.NewPath("metadata", "annotations")
	answers := []error{invalid(field.Invalid(at, "bad key/one", "no"), field.Invalid(at, "another bad/key/two", "no")), nil} // the second: without the template
	o := oracle.Oracle{Create: func(context.Context, map[string]any) error {
		answer := answers[0]
		answers = answers[1:]
		return answer
	}}
	causes, err := o.ValidateAll(t.Context(), template, []oracle.Pod{{Before: object(t, after), After: object(t, after)}})
	if err != nil || len(causes) != 2 || causes[0].Message != `Invalid value: "bad key/one": no` || causes[1].Message != `Invalid value: "another bad/key/two": no` {
		t.Errorf("%v, %v", causes, err)
	}
}

// Other words of an API server, a webhook or a policy are no judgement of the pod's form.
func TestOnlyTheAPIServersOwnValidationCounts(t *testing.T) {
	t.Parallel()
	template := templatestest.Compile(t, manifest)
	pods := schema.GroupResource{Resource: "pods"}
	policy := apierrors.NewForbidden(pods, "p", errors.New("ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no"}}
	for name, c := range map[string]struct {
		err   error
		valid bool
	}{
		"Pod Security":               {apierrors.NewForbidden(pods, "p", errors.New(`violates PodSecurity "restricted:latest": x`)), true},
		"a quota":                    {apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: q")), false},
		"a policy that answers 422":  {policy, false},
		"a webhook that answers 422": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: `admission webhook "x" denied the request: no`, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec", Message: "no"}}}}}, false},
		"a webhook that answers 400": {apierrors.NewBadRequest(`admission webhook "x" does not support dry run`), false},
		"no connection":              {errors.New("connection refused"), false},
	} {
		o := oracle.Oracle{Create: func(context.Context, map[string]any) error { return c.err }}
		causes, err := o.Validate(t.Context(), template, object(t, after))
		if len(causes) > 0 || !errors.Is(err, c.err) || oracle.IsValid(err) != c.valid {
			t.Errorf("%s: %v, %v, valid %t", name, causes, err, oracle.IsValid(err))
		}
	}
}

// What Pillion would inject there, and what may be missing there, must not hide the answer.
func TestThePodThatIsSentDependsOnNothingInTheNamespace(t *testing.T) {
	t.Parallel()
	pod := object(t, after)
	var sent map[string]any
	o := oracle.Oracle{Create: func(_ context.Context, pod map[string]any) error { sent = pod; return nil }}
	if causes, err := o.Validate(t.Context(), templatestest.Compile(t, manifest), pod); causes != nil || err != nil {
		t.Error(causes, err)
	}
	metadata, err := json.Marshal(sent["metadata"])
	if err != nil || string(metadata) != `{"annotations":{"a":"b","pillion.dev/inject":"false"},"generateName":"pillion-sample-","labels":{"l":"m"}}` {
		t.Errorf("%s, %v", metadata, err)
	}
	if spec := sent["spec"].(map[string]any); spec["serviceAccountName"] != nil || spec["containers"] == nil {
		t.Error(spec)
	}
	if pod["spec"].(map[string]any)["serviceAccountName"] != "web" {
		t.Error("the pod was changed")
	}
}

func TestATemplateIsRefusedOnlyIfTheAPIServerCallsEverySamplePodInvalid(t *testing.T) {
	t.Parallel()
	template := templatestest.Compile(t, manifest)
	no, quota := invalid(field.Invalid(field.NewPath("spec"), "x", "no")), errors.New("exceeded quota")
	for name, c := range map[string]struct {
		answers []error // for each pod; the last one is for the first pod without the template
		causes  int
		says    string // the error
		asked   int
	}{
		"all are valid":               {[]error{nil, nil, nil}, 0, "", 1},
		"one is":                      {[]error{no, nil, nil}, 0, "", 2},
		"none is":                     {[]error{no, no, nil}, 1, "", 3},
		"none is, without it neither": {[]error{no, no, no}, 0, "without the template, too", 3},
		"one has no answer":           {[]error{no, quota, nil}, 0, "exceeded quota", 2},
		"one has none, one is valid":  {[]error{quota, nil, nil}, 0, "", 2},
		"without it there is none":    {[]error{no, no, quota}, 0, "exceeded quota", 3},
	} {
		asked := 0
		o := oracle.Oracle{Create: func(context.Context, map[string]any) error { asked++; return c.answers[asked-1] }}
		pod := oracle.Pod{Before: object(t, after), After: object(t, after)}
		causes, err := o.ValidateAll(t.Context(), template, []oracle.Pod{pod, pod})
		if len(causes) != c.causes || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || asked != c.asked {
			t.Errorf("%s: %v, %v, %d asked", name, causes, err, asked)
		}
	}
	o := oracle.Oracle{Create: func(ctx context.Context, _ map[string]any) error { <-ctx.Done(); return ctx.Err() }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	pod := oracle.Pod{Before: object(t, after), After: object(t, after)}
	if causes, err := o.ValidateAll(ctx, template, []oracle.Pod{pod, pod}); causes != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer in time: %v, %v", causes, err)
	}
	if _, err := o.ValidateAll(t.Context(), template, nil); !errors.Is(err, oracle.ErrNoPod) {
		t.Errorf("without a pod: %v", err)
	}
}

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

const guarded = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: shipper, annotations: {ANNOTATIONS}}
spec:
  injectByDefault: true
  parameters:
  - {name: logLevel, type: string, default: info}
  inject:
    metadata: {labels: {level: "${params.logLevel}"}}
`

func guardedObject(t *testing.T, annotations string) map[string]any {
	t.Helper()
	var object map[string]any
	errtest.ExpectNone(t, yaml.Unmarshal([]byte(strings.Replace(guarded, "ANNOTATIONS", annotations, 1)), &object))
	return object
}

// mistaken has a mistake in its spec.
func mistaken(t *testing.T, annotations string) map[string]any {
	t.Helper()
	object := guardedObject(t, annotations)
	object["spec"].(map[string]any)["ordr"] = 1
	return object
}

// judgeTemplate sends a review to the guard.
func judgeTemplate(t *testing.T, operation string, object, old map[string]any, ns ...templates.Namespace) *admissionv1.AdmissionResponse {
	t.Helper()
	return judgeBy(t, GuardOptions{}, operation, object, old, ns...)
}

// judgeBy is judgeTemplate by a guard with options, of which it fills in what is missing.
func judgeBy(t *testing.T, o GuardOptions, operation string, object, old map[string]any, ns ...templates.Namespace) *admissionv1.AdmissionResponse {
	t.Helper()
	compiled := templatestest.Compile(t, strings.Replace(guarded, "ANNOTATIONS", "", 1))
	guard := newFixture(t, nil).Handler(NewGuard(GuardOptions{
		Version:            o.Version,
		ExcludedNamespaces: []string{"kube-system"},
		Templates: func() *templates.Set {
			return templates.NewSet([]templates.Entry{{Name: "shipper", Template: compiled}})
		},
		Namespaces: func() iter.Seq[templates.Namespace] { return slices.Values(ns) },
		Problems: func(ctx context.Context, _ templates.Document, compiled *templates.Template) ([]templates.Problem, error) {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > waitTime {
				t.Errorf("the API server is waited for until %s", end)
			}
			if compiled.Spec().Description == "refused" {
				return []templates.Problem{{Path: "spec.inject", Message: "no pod is accepted"}}, nil
			}
			return nil, errors.New("no answer")
		},
	}))
	request := map[string]any{
		"uid": "1", "operation": operation, "name": "shipper",
		"kind": map[string]any{"group": "pillion.dev", "version": "v1alpha1", "kind": "SidecarTemplate"},
	}
	if object != nil {
		request["object"] = object
	}
	if old != nil {
		request["oldObject"] = old
	}
	body, err := json.Marshal(map[string]any{"apiVersion": v1Version, "kind": "AdmissionReview", "request": request})
	errtest.ExpectNone(t, err)
	w := postTo(guard, string(body))
	if w.Code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	var review admissionv1.AdmissionReview
	errtest.ExpectNone(t, json.Unmarshal(w.Body.Bytes(), &review))
	return review.Response
}

func TestATemplateWithAMistakeInItsSpecIsRefused(t *testing.T) {
	changed := func(object map[string]any, field, value string) map[string]any {
		object["spec"].(map[string]any)[field] = value
		return object
	}
	unaccepted := changed(guardedObject(t, ""), "description", "refused")
	for why, c := range map[string]struct {
		operation   string
		object, old map[string]any
		says        []string
	}{
		"a good one":                {"CREATE", guardedObject(t, ""), nil, nil},
		"a mistake":                 {"CREATE", mistaken(t, ""), nil, []string{"template shipper: spec.ordr: unknown field; did you mean order?\n"}},
		"two mistakes":              {"UPDATE", changed(mistaken(t, ""), "onError", "Ignore"), guardedObject(t, ""), []string{"spec.ordr", "spec.onError"}},
		"pods that nobody accepts":  {"CREATE", unaccepted, nil, []string{"template shipper: spec.inject: no pod is accepted\n"}},
		"metadata of such a one":    {"UPDATE", unaccepted, unaccepted, nil},
		"metadata beside a mistake": {"UPDATE", mistaken(t, "a: b"), mistaken(t, ""), nil},
	} {
		got := judgeTemplate(t, c.operation, c.object, c.old)
		if got.Allowed != (c.says == nil) || !got.Allowed && !strings.HasSuffix(got.Result.Message, "(TemplateInvalid)") {
			t.Errorf("%s: %+v", why, got)
		}
		for _, text := range c.says {
			if !strings.Contains(got.Result.Message, text) {
				t.Errorf("%s: %s; want %q", why, got.Result.Message, text)
			}
		}
	}
}

func TestDeletionOfATemplateInUseIsRefused(t *testing.T) {
	namespace := func(name, value string) templates.Namespace {
		return templates.Namespace{Name: name, Annotations: map[string]string{"pillion.dev/inject": value}}
	}
	for _, c := range []struct {
		why, annotations string
		namespaces       []templates.Namespace
		want             string
	}{
		{"nobody asks for it", "", []templates.Namespace{namespace("a", "other"), namespace("b", "false"), {Name: "c"}}, ""},
		{"a namespace names it", "", []templates.Namespace{namespace("a", "other, shipper")}, "named by pillion.dev/inject in the namespace a, whose pods would be refused"},
		{"a namespace asks for the defaults", "", []templates.Namespace{namespace("a", "true")}, `"true" means in the namespace a`},
		{"many namespaces name it", "", []templates.Namespace{namespace("g", "shipper"), namespace("b", "shipper"), namespace("c", "shipper"), namespace("d", "shipper"), namespace("e", "shipper"), namespace("f", "shipper"), namespace("a", "shipper"),
			namespace("l", "shipper"), namespace("k", "shipper"), namespace("j", "shipper"), namespace("i", "shipper"), namespace("h", "shipper")}, "in the namespaces a, b, c, d, e, f, g, h, i, j and 2 more"},
		{"an excluded namespace names it", "", []templates.Namespace{namespace("kube-system", "shipper")}, ""},
		{"the annotation allows it", `pillion.dev/allow-delete: ""`, []templates.Namespace{namespace("a", "shipper")}, ""},
		{"the annotation says false", `pillion.dev/allow-delete: "false"`, []templates.Namespace{namespace("a", "shipper")}, "kubectl annotate sidecartemplate shipper pillion.dev/allow-delete=true"},
	} {
		got := judgeTemplate(t, "DELETE", nil, guardedObject(t, c.annotations), c.namespaces...)
		if got.Allowed != (c.want == "") || c.want != "" && (!strings.Contains(got.Result.Message, c.want) || !strings.HasSuffix(got.Result.Message, "(TemplateInUse)")) {
			t.Errorf("%s: %v %+v", c.why, got.Allowed, got.Result)
		}
	}
}

// During an upgrade the replicas that are about to be replaced do not know what is new.
func TestABadTemplateOfANewerVersionOfPillionIsWarnedOf(t *testing.T) {
	labelled := func(version string) map[string]any {
		object := mistaken(t, "")
		object["metadata"].(map[string]any)["labels"] = map[string]any{"pillion.dev/version": version}
		return object
	}
	for label, newer := range map[string]bool{"0.3.0": true, "v1.0.0": true, "0.2.0": false, "0.1.9": false, "soon": false, "": false} {
		got := judgeBy(t, GuardOptions{Version: "v0.2.0"}, "UPDATE", labelled(label), guardedObject(t, ""))
		if got.Allowed != newer {
			t.Errorf("%q: %+v", label, got)
		}
		if newer && (len(got.Warnings) == 0 || !strings.Contains(strings.Join(got.Warnings, " "), "did you mean order?")) {
			t.Errorf("%q: the warnings are %q", label, got.Warnings)
		}
	}
	if got := judgeBy(t, GuardOptions{Version: "unknown"}, "UPDATE", labelled("9.9.9"), guardedObject(t, "")); got.Allowed {
		t.Error("a program that does not know its own version takes anything for newer")
	}
}

func TestATemplateInUseDoesNotBecomeACanary(t *testing.T) {
	asks := templates.Namespace{Name: "a", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}
	canary := func(annotations string) map[string]any {
		object := guardedObject(t, annotations)
		spec := object["spec"].(map[string]any)
		for _, field := range templates.StableFields {
			delete(spec, field)
		}
		spec["canary"] = map[string]any{"of": "audit"}
		return object
	}
	if got := judgeTemplate(t, "UPDATE", canary(""), guardedObject(t, ""), asks); got.Allowed || !strings.Contains(got.Result.Message, "is in use, and pods cannot ask for a canary: named by pillion.dev/inject in the namespace a") {
		t.Errorf("answer %v %+v", got.Allowed, got.Result)
	}
	for why, got := range map[string]*admissionv1.AdmissionResponse{
		"nobody asks for it":       judgeTemplate(t, "UPDATE", canary(""), guardedObject(t, "")),
		"the annotation allows it": judgeTemplate(t, "UPDATE", canary(`pillion.dev/allow-delete: ""`), guardedObject(t, ""), asks),
	} {
		if !got.Allowed {
			t.Errorf("%s: %+v", why, got.Result)
		}
	}
}

// What kubectl apply keeps of a template in an annotation is no expression that compiles. One with
// some fifty expressions takes more than a MiB, however short its text is.
func TestOrdinaryTemplatesDoNotWaitForLargeObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *parts) { o.Timeout = 10 * time.Second })
		fill(t, f.room, true)
		guard := f.Handler(NewGuard(GuardOptions{Templates: f.Pods.Templates}))
		for _, name := range []string{"fluent-bit", "git-sync", "opentelemetry-java", "istio-proxy"} {
			manifest, err := charts.Template(name)
			errtest.ExpectNone(t, err)
			var object map[string]any
			errtest.ExpectNone(t, yaml.Unmarshal(manifest, &object))
			text, err := json.Marshal(object)
			errtest.ExpectNone(t, err)
			object["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(text)}
			text, err = json.Marshal(object)
			errtest.ExpectNone(t, err)
			old := strings.Replace(string(text), `"spec":{`, `"spec":{"suspend":true,`, 1)
			got := decodeAnswer(t, postTo(guard, `{"apiVersion":"`+v1Version+`","kind":"AdmissionReview","request":{"uid":"1","operation":"UPDATE","name":"`+name+`",
				"kind":{"group":"pillion.dev","version":"v1alpha1","kind":"SidecarTemplate"},"object":`+string(text)+`,"oldObject":`+old+`}}`)).Response
			if !got.Allowed {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

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

	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
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
	if err := yaml.Unmarshal([]byte(strings.Replace(guarded, "ANNOTATIONS", annotations, 1)), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// mistaken has a mistake in its spec.
func mistaken(t *testing.T, annotations string) map[string]any {
	t.Helper()
	object := guardedObject(t, annotations)
	object["spec"].(map[string]any)["ordr"] = 1
	return object
}

// judgeTemplate sends a review to the guard; source is whose the name shipper is.
func judgeTemplate(t *testing.T, source, operation string, object, old map[string]any, ns ...templates.Namespace) *admissionv1.AdmissionResponse {
	t.Helper()
	return judgeWith(t, func(context.Context, string, bool) usage.Found { return usage.Found{} }, source, operation, object, old, ns...)
}

// judgeWith is judgeTemplate in a cluster with workloads.
func judgeWith(t *testing.T, workloads func(context.Context, string, bool) usage.Found, source, operation string, object, old map[string]any, ns ...templates.Namespace) *admissionv1.AdmissionResponse {
	t.Helper()
	return judgeBy(t, GuardOptions{Workloads: workloads}, source, operation, object, old, ns...)
}

// judgeBy is judgeTemplate by a guard with options, of which it fills in what is missing.
func judgeBy(t *testing.T, o GuardOptions, source, operation string, object, old map[string]any, ns ...templates.Namespace) *admissionv1.AdmissionResponse {
	t.Helper()
	compiled := templatestest.Compile(t, strings.Replace(guarded, "ANNOTATIONS", "", 1))
	guard := newFixture(t, nil).Handler(NewGuard(GuardOptions{
		Mirrors:            o.Mirrors,
		ExcludedNamespaces: []string{"kube-system"},
		Templates: func() *templates.Set {
			return templates.NewSet([]templates.Entry{{Name: "shipper", Source: source, Template: compiled}})
		},
		Namespaces: func() iter.Seq[templates.Namespace] { return slices.Values(ns) },
		Workloads:  o.Workloads,
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
	if err != nil {
		t.Fatal(err)
	}
	w := postTo(t, guard, string(body))
	if w.Code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", w.Code, w.Body)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		t.Fatal(err)
	}
	return review.Response
}

func TestABadTemplateIsRefusedWithLintsOwnWords(t *testing.T) {
	got := judgeTemplate(t, "", "CREATE", mistaken(t, ""), nil)
	if got.Allowed || !strings.HasPrefix(got.Result.Message, "template shipper: spec.ordr: unknown field; did you mean order?\n") || !strings.HasSuffix(got.Result.Message, "(TemplateInvalid)") {
		t.Errorf("answer %+v", got.Result)
	}
	if got := judgeTemplate(t, "", "CREATE", guardedObject(t, ""), nil); !got.Allowed || len(got.Warnings) != 0 {
		t.Errorf("a good template: %+v", got)
	}
}

func TestEveryMistakeOfATemplateIsInTheRefusal(t *testing.T) {
	object := mistaken(t, "")
	object["spec"].(map[string]any)["onError"] = "Ignore"
	got := judgeTemplate(t, "", "UPDATE", object, guardedObject(t, ""))
	if got.Allowed || !strings.Contains(got.Result.Message, "spec.ordr") || !strings.Contains(got.Result.Message, "spec.onError") {
		t.Errorf("answer %+v", got.Result)
	}
}

func TestATemplateThatNoPodIsAcceptedWithIsRefused(t *testing.T) {
	object := guardedObject(t, "")
	object["spec"].(map[string]any)["description"] = "refused"
	if got := judgeTemplate(t, "", "CREATE", object, nil); got.Allowed || !strings.HasPrefix(got.Result.Message, "template shipper: spec.inject: no pod is accepted\n") || !strings.HasSuffix(got.Result.Message, "(TemplateInvalid)") {
		t.Errorf("answer %+v", got.Result)
	}
	if got := judgeTemplate(t, "", "UPDATE", object, object); !got.Allowed {
		t.Errorf("an update of its metadata: %+v", got.Result)
	}
}

func TestMetadataOfABadTemplateMayBeChanged(t *testing.T) {
	if got := judgeTemplate(t, "", "UPDATE", mistaken(t, "a: b"), mistaken(t, "")); !got.Allowed {
		t.Errorf("answer %+v", got.Result)
	}
}

func TestATemplateWhoseNameAFileHasIsAdmittedWithAWarning(t *testing.T) {
	got := judgeTemplate(t, "library/shipper", "CREATE", guardedObject(t, ""), nil)
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "is taken by library/shipper") {
		t.Errorf("answer %+v", got)
	}
}

func TestDeletionOfATemplateInUseIsRefused(t *testing.T) {
	namespace := func(name, value string) templates.Namespace {
		return templates.Namespace{Name: name, Annotations: map[string]string{"pillion.dev/inject": value}}
	}
	own := templates.ClusterSource + "shipper"
	for _, c := range []struct {
		why, source, annotations string
		namespaces               []templates.Namespace
		want                     string
	}{
		{"nobody asks for it", own, "", []templates.Namespace{namespace("a", "other"), namespace("b", "false"), {Name: "c"}}, ""},
		{"a namespace names it", own, "", []templates.Namespace{namespace("a", "other, shipper")}, "named by pillion.dev/inject in the namespace a, so their pods would be refused"},
		{"a namespace asks for the defaults", own, "", []templates.Namespace{namespace("a", "true")}, `"true" means in the namespace a`},
		{"many namespaces name it", own, "", []templates.Namespace{namespace("g", "shipper"), namespace("b", "shipper"), namespace("c", "shipper"), namespace("d", "shipper"), namespace("e", "shipper"), namespace("f", "shipper"), namespace("a", "shipper"),
			namespace("l", "shipper"), namespace("k", "shipper"), namespace("j", "shipper"), namespace("i", "shipper"), namespace("h", "shipper")}, "in the namespaces a, b, c, d, e, f, g, h, i, j and 2 more"},
		{"an excluded namespace names it", own, "", []templates.Namespace{namespace("kube-system", "shipper")}, ""},
		{"the annotation allows it", own, `pillion.dev/allow-delete: ""`, []templates.Namespace{namespace("a", "shipper")}, ""},
		{"the annotation says false", own, `pillion.dev/allow-delete: "false"`, []templates.Namespace{namespace("a", "shipper")}, "kubectl annotate sidecartemplates.pillion.dev shipper pillion.dev/allow-delete=true"},
		{"a file has the name", "library/shipper", "", []templates.Namespace{namespace("a", "shipper")}, ""},
	} {
		got := judgeTemplate(t, c.source, "DELETE", nil, guardedObject(t, c.annotations), c.namespaces...)
		if got.Allowed != (c.want == "") || c.want != "" && (!strings.Contains(got.Result.Message, c.want) || !strings.HasSuffix(got.Result.Message, "(TemplateInUse)")) {
			t.Errorf("%s: %v %+v", c.why, got.Allowed, got.Result)
		}
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
	own := templates.ClusterSource + "shipper"
	if got := judgeTemplate(t, own, "UPDATE", canary(""), guardedObject(t, ""), asks); got.Allowed || !strings.Contains(got.Result.Message, "is in use, and pods cannot ask for a canary: named by pillion.dev/inject in the namespace a") {
		t.Errorf("answer %v %+v", got.Allowed, got.Result)
	}
	for why, got := range map[string]*admissionv1.AdmissionResponse{
		"nobody asks for it":       judgeTemplate(t, own, "UPDATE", canary(""), guardedObject(t, "")),
		"the annotation allows it": judgeTemplate(t, own, "UPDATE", canary(`pillion.dev/allow-delete: ""`), guardedObject(t, ""), asks),
	} {
		if !got.Allowed {
			t.Errorf("%s: %+v", why, got.Result)
		}
	}
}

func TestDeletionOfATemplateThatWorkloadsNameIsRefused(t *testing.T) {
	own := templates.ClusterSource + "shipper"
	deployments := []string{"deployment shop/a", "deployment shop/b"}
	asks := templates.Namespace{Name: "cart", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}
	for _, c := range []struct {
		why        string
		found      *usage.Found
		namespaces []templates.Namespace
		want, warn []string
	}{
		{"nothing names it", &usage.Found{}, nil, nil, nil},
		{"workloads name it", &usage.Found{Names: deployments, Total: 2}, nil, []string{"in use: named by deployment shop/a, deployment shop/b, so", `kubectl patch sidecartemplates.pillion.dev shipper --type=merge -p '{"spec":{"suspend":true}}'`, "shipper pillion.dev/allow-delete=true"}, nil},
		{"many do", &usage.Found{Names: deployments, Total: 12}, nil, []string{"deployment shop/b and 10 more"}, nil},
		{"and a namespace", &usage.Found{Names: deployments, Total: 2}, []templates.Namespace{asks}, []string{"in the namespace cart, so their pods would be refused; named by deployment shop/a"}, nil},
		{"and not all was read", &usage.Found{Names: deployments, Total: 2, Unread: []string{"pods (there was no time left)"}}, nil, []string{"; not looked at: pods (there was no time left)"}, nil},
		{"nothing of what was read", &usage.Found{Unread: []string{"pods (there was no time left)"}}, nil, nil, []string{"not looked at, and pods may name shipper: pods (there was no time left)"}},
		{"they may not be read", nil, nil, nil, []string{"rbac.readWorkloads is off"}},
	} {
		workloads := func(ctx context.Context, name string, byDefault bool) usage.Found {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > waitTime || name != "shipper" || !byDefault {
				t.Errorf("%s: asked for %s, by default %t, until %s", c.why, name, byDefault, end)
			}
			return *c.found
		}
		if c.found == nil {
			workloads = nil
		}
		got := judgeWith(t, workloads, own, "DELETE", nil, guardedObject(t, ""), c.namespaces...)
		if got.Allowed != (c.want == nil) || len(got.Warnings) != len(c.warn) {
			t.Errorf("%s: %+v", c.why, got)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(got.Result.Message, want) {
				t.Errorf("%s: %q lacks %q", c.why, got.Result.Message, want)
			}
		}
		for i, want := range c.warn {
			if !strings.Contains(got.Warnings[i], want) {
				t.Errorf("%s: the warning %q lacks %q", c.why, got.Warnings[i], want)
			}
		}
		if allowed := judgeWith(t, workloads, own, "DELETE", nil, guardedObject(t, `pillion.dev/allow-delete: "true"`), c.namespaces...); !allowed.Allowed {
			t.Errorf("%s, and the annotation allows it: %+v", c.why, allowed.Result)
		}
	}
}

func TestReviewsThatAreNotOfTemplatesAreMalformedToTheGuard(t *testing.T) {
	f := newFixture(t, nil)
	guard := f.Handler(NewGuard(GuardOptions{Templates: f.Templates, Namespaces: func() iter.Seq[templates.Namespace] { return slices.Values([]templates.Namespace(nil)) }}))
	for _, body := range []string{
		"", "{}", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":{}}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"group":"pillion.dev","version":"v1alpha1","kind":"SidecarTemplate"}}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"DELETE","kind":{"group":"pillion.dev","version":"v1alpha1","kind":"SidecarTemplate"},"oldObject":[]}}`,
	} {
		w := postTo(t, guard, body)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%q: HTTP %d: %s", body, w.Code, w.Body)
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
			manifest, err := library.Get(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			var object map[string]any
			if err := yaml.Unmarshal(manifest, &object); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			object["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(text)}
			text, err = json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			old := strings.Replace(string(text), `"spec":{`, `"spec":{"suspend":true,`, 1)
			got := decodeAnswer(t, postTo(t, guard, `{"apiVersion":"`+v1Version+`","kind":"AdmissionReview","request":{"uid":"1","operation":"UPDATE","name":"`+name+`",
				"kind":{"group":"pillion.dev","version":"v1alpha1","kind":"SidecarTemplate"},"object":`+string(text)+`,"oldObject":`+old+`}}`)).Response
			if !got.Allowed {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

package inspect_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/offline/admissionpolicy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

//go:embed testdata/checked.yaml
var checkedCluster string

// bundle is a CA certificate, as JSON has a caBundle.
func bundle() string {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// checked returns a cluster in which the service account has no right on Secrets.
func checked(t *testing.T, manifests string) *inspect.Cluster {
	t.Helper()
	served := inspect.Served{Library: []string{"fluent-bit"}, Needs: check.Needs{CASecret: "pillion-ca", CreateCASecret: true, InUse: "used", Settings: check.Settings{
		Service: "pillion", Prefix: "pillion.dev", NamespacedTemplates: true, Mutating: []string{"pillion"}, Provider: "self-signed", Publishes: true, ProofNamespace: "own-proof", Enforcement: labels.EnforceAsked,
	}}}
	c := inspecttest.Cluster(t, manifests, inspecttest.Options{Place: inspect.Place{Namespace: "own"}, Serve: func(corev1.Container) (inspect.Served, error) { return served, nil }})
	c.Objects.(*dynamicfake.FakeDynamicClient).PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		var asked authorizationv1.SubjectAccessReview
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(review.Object, &asked); err != nil {
			t.Error(err)
		}
		if asked.Spec.User != "system:serviceaccount:own:account" {
			t.Errorf("asked for the rights of %s", asked.Spec.User)
		}
		review.Object["status"] = map[string]any{"allowed": asked.Spec.ResourceAttributes.Resource != "secrets"}
		return true, review, nil
	})
	c.Proxy = func(_ context.Context, pod string, port int, path string) ([]byte, error) {
		if pod != "one" || port != 8080 {
			t.Errorf("asked is %s:%d", pod, port)
		}
		if path == "/readyz" {
			return []byte("not ready:\ncertificates: no CA"), errors.New("503")
		}
		return []byte(`{"version": "7", "unauthorized": true, "enforcementProven": true, "cacheAgeSeconds": {"namespaces": 90},
			"certificates": {"published": [{"kind": "MutatingWebhookConfiguration", "name": "pillion", "verifies": false}]}}`), nil
	}
	return c
}

func TestCheckReadsWhatItJudges(t *testing.T) {
	var out bytes.Buffer
	report := check.Run(check.All(), checked(t, strings.Replace(checkedCluster, "BUNDLE", bundle(), 1)).Facts(t.Context(), "1", time.Now()))
	if err := check.Write(&out, report, false, false); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"ok the API server answers", "warning 1 of 2 replicas of Deployment pillion are available kubectl -n own get pods -l app.kubernetes.io/instance=release",
		"failed revision 3 of the Helm release release is pending-upgrade for", "failed there is no Service pillion in namespace own", "failed replica one is not ready: certificates: no CA", "warning the replicas are of version 7", "replica one knew namespaces for certain 1m30s ago",
		"failed Pillion's service account own:account was deleted, and created again at 2026-06-01T12:00:00Z. The replicas one still have tokens", "kubectl -n own rollout restart deployment/pillion",
		"service account own:account lacks the right to create secrets in namespace own, get secrets pillion-ca in namespace own",
		"failed the ValidatingAdmissionPolicy pillion-own-namespaces is missing", "has no entry namespaces.pillion.dev", `has failurePolicy "Fail", and the chart renders "Ignore"`, "does not verify the certificate of replica one",
		"skipped crd: not looked at: clusterTemplates=false", "ok namespaces name only templates that are there", "namespace shop has the label pillion.dev/injection=enabled by hand",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(got, "pillion-own-labels") {
		t.Errorf("the policy with its binding is missed:\n%s", &out)
	}
}

// A namespace may name its own templates, and no other namespace's.
func TestCheckKnowsTheTemplatesOfNamespaces(t *testing.T) {
	const own = `---
{apiVersion: v1, kind: Namespace, metadata: {name: first, annotations: {pillion.dev/inject: team}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: second, annotations: {pillion.dev/inject: team}}}
---
{apiVersion: pillion.dev/v1alpha1, kind: NamespacedSidecarTemplate, metadata: {name: team, namespace: first}, spec: {inject: {spec: {initContainers: [{name: s, image: "a:1", restartPolicy: Always}]}}}}
`
	report := check.Run(check.All(), checked(t, strings.Replace(checkedCluster, "BUNDLE", bundle(), 1)+own).Facts(t.Context(), "1", time.Now()))
	i := slices.IndexFunc(report.Outcomes, func(o check.Outcome) bool { return o.Name == "template-names" })
	if found := report.Outcomes[i].Findings; len(found) != 1 || !strings.Contains(found[0].Says, "namespace second names team, which does not exist") {
		t.Errorf("%+v", found)
	}
}

func TestCheckSaysThatTheAPIServerIsAway(t *testing.T) {
	c := checked(t, "")
	c.Version = func(context.Context) ([]byte, error) { return nil, errors.New("connection refused") }
	report := check.Run(check.All(), c.Facts(t.Context(), "1", time.Now()))
	if len(report.Outcomes) != 1 || report.Outcomes[0].Result != check.Failed {
		t.Errorf("%+v", report)
	}
}

func TestCheckWithoutADeploymentSaysWhereToLook(t *testing.T) {
	report := check.Run(check.All(), checked(t, "").Facts(t.Context(), "1", time.Now()))
	if o := report.Outcomes[1]; o.Result != check.Failed || !strings.Contains(o.Findings[0].Says, "0 in namespace own") || o.Findings[0].Remedy[0] != "kubectl get deployments -A -l app.kubernetes.io/name=pillion" {
		t.Errorf("%+v", o)
	}
}

const requiredMesh = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: NAME}
spec: {required: true, match: {}, SPEC inject: {spec: {initContainers: [{name: NAME, image: "a:1", restartPolicy: Always}]}}}
`

// Each required template is compared with its admission policy, if it has one.
func TestCheckComparesThePoliciesOfRequiredTemplates(t *testing.T) {
	var entries []templates.Entry
	var policies []admissionv1.ValidatingAdmissionPolicy
	var bindings []admissionv1.ValidatingAdmissionPolicyBinding
	for name, spec := range map[string]string{"good": "", "none": "", "old": "", "narrow": "", "conditions": "matchConditions: [{name: a, expression: 'true'}],", "suspended": "suspend: true,", "of-helm": ""} {
		tmpl := templatestest.Compile(t, strings.NewReplacer("NAME", name, "SPEC", spec).Replace(requiredMesh))
		entries = append(entries, templates.Entry{Name: name, Template: tmpl, Source: map[bool]string{true: "/etc/pillion/templates/x.yaml", false: templates.ClusterSource + name}[name == "of-helm"]})
		floor, err := admissionpolicy.Of(t.Context(), tmpl, admissionpolicy.Options{Prefix: "pillion.dev", Excluded: []string{"kube-system", "own"}})
		if name == "suspended" {
			floor.Policy.Name = "required-suspended.pillion.dev"
		} else if name == "conditions" || name == "none" {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "old":
			floor.Policy.Spec.Validations = floor.Policy.Spec.Validations[1:]
		case "narrow":
			floor.Binding.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		case "of-helm":
			floor.Policy.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		}
		policies, bindings = append(policies, floor.Policy), append(bindings, floor.Binding)
	}
	for _, name := range []string{"required-gone.pillion.dev", "required-good.other.example.com", "required.pillion.dev", "required-a.b.pillion.dev", "pillion-labels"} {
		policies = append(policies, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	entries = append(entries, templates.Entry{Name: "bad", Err: errors.New("line 3")})
	got := inspect.Floors(t.Context(), policies, bindings, templates.NewSet(entries), check.Settings{Prefix: "pillion.dev", Excluded: []string{"own", "kube-system", "own"}})
	var all []string
	for _, f := range got {
		all = append(all, fmt.Sprintf("%s there=%t current=%t bound=%t helm=%t chart=%t impossible=%t", f.Template, f.There, f.Current, f.Bound, f.ByHelm, f.OfChart, f.Impossible != ""))
		if f.Policy != "required-"+f.Template+".pillion.dev" {
			t.Errorf("the policy of %s is called %s", f.Template, f.Policy)
		}
	}
	want := []string{
		"conditions there=false current=false bound=false helm=false chart=false impossible=true",
		"gone there=true current=false bound=false helm=false chart=false impossible=false",
		"good there=true current=true bound=true helm=false chart=false impossible=false",
		"narrow there=true current=true bound=false helm=false chart=false impossible=false",
		"none there=false current=false bound=false helm=false chart=false impossible=false",
		"of-helm there=true current=true bound=true helm=true chart=true impossible=false",
		"old there=true current=false bound=true helm=false chart=false impossible=false",
		"suspended there=true current=false bound=false helm=false chart=false impossible=true",
	}
	if !slices.Equal(all, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	}
}

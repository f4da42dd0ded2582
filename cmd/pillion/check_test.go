package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/check"
	"github.com/pillion-dev/pillion/clientset/clientsettest"
	"github.com/pillion-dev/pillion/offline/admissionpolicy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

const checkedDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: pillion, namespace: own, labels: {app.kubernetes.io/managed-by: Helm, app.kubernetes.io/instance: release}, annotations: {pillion.dev/admission-policies: wanted}}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: pillion}}
    spec:
      serviceAccountName: account
      containers: [{name: pillion, args: [serve, --library=fluent-bit, --cluster-templates=false, --webhook-configuration=pillion, --proof-namespace=own-proof, --in-use-record=used]}]
status: {availableReplicas: 1, updatedReplicas: 2}
`

// checkReaderOf returns a reader of a fake cluster, in which the service account has no right
// on Secrets.
func checkReaderOf(t *testing.T, manifests ...string) checkReader {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for _, of := range []struct{ group, resource, kind string }{
		{"apps", "deployments", "Deployment"}, {"networking.k8s.io", "networkpolicies", "NetworkPolicy"}, {"policy", "poddisruptionbudgets", "PodDisruptionBudget"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"}, {"admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"},
		{"autoscaling.k8s.io", "verticalpodautoscalers", "VerticalPodAutoscaler"},
	} {
		lists[resourceOf(of.group, "v1", of.resource)] = of.kind + "List"
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objectsOf(t, manifests)...)
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
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
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	byHand := metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:pillion.dev/injection":{}}}}`)
	names := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"pillion.dev/injection": "enabled"}, Annotations: map[string]string{"pillion.dev/inject": "fluent-bit"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: byHand}},
	}}, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{
		Name: "sh.helm.release.v1.release.v3", Namespace: "own", Labels: map[string]string{"owner": "helm", "name": "release", "status": "pending-upgrade", "version": "3"},
	}})
	one := replica{name: "one", created: time.Date(2026, 6, 1, 11, 0, 0, 0, time.UTC), get: func(_ context.Context, path string) ([]byte, error) {
		if path == "/readyz" {
			return []byte("not ready:\ncertificates: no CA"), errors.New("503")
		}
		return []byte("pillion_unauthorized 1\npillion_build_info{version=\"7\"} 1\npillion_enforcement_proven 1\npillion_proof_failing{outcome=\"NotInjected\"} 1\npillion_cache_age_seconds{cache=\"namespaces\"} 90\n" +
			"pillion_certificate_published{configuration=\"pillion\",kind=\"MutatingWebhookConfiguration\"} 0\n"), nil
	}}
	return checkReader{
		where: installation{namespace: "own"}, client: clientsettest.Of(fake.NewClientset(ownConfiguration(aBundle()))), objects: client, names: names,
		version:  func(context.Context) ([]byte, error) { return []byte(`{"major":"1","minor":"36+"}`), nil },
		replicas: func(context.Context) ([]replica, error) { return []replica{one}, nil },
		pods:     func(ctx context.Context, of []string) (map[string]int, error) { return podCounts(ctx, names, of) },
	}
}

func TestCheckReadsWhatItJudges(t *testing.T) {
	r := checkReaderOf(t, checkedDeployment, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: own}
spec: {selector: {matchLabels: {app: pillion}}}
status: {disruptionsAllowed: 0}
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: pillion-own-labels}
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: x}
spec: {policyName: pillion-own-labels, validationActions: [Deny]}
`, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: account, namespace: own, creationTimestamp: "2026-06-01T12:00:00Z"}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: pillion-webhooks, namespace: own}
data:
  mutating.yaml: |
    metadata: {name: pillion}
    webhooks: [{name: namespaces.pillion.dev}, {name: requested.pillion.dev, failurePolicy: Ignore, clientConfig: {service: {namespace: own, name: pillion}}}]
  validating.yaml: |
    metadata: {name: pillion}
    webhooks: [{name: required.pillion.dev}]
`)
	f := r.read(t.Context(), time.Now())
	report := check.Run(check.All(), f)
	var out bytes.Buffer
	if err := writeCheck(&out, report, false, palette{}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"ok the API server answers", "warning 1 of 2 replicas of Deployment pillion are available kubectl -n own get pods -l app.kubernetes.io/instance=release",
		"failed revision 3 of the Helm release release is pending-upgrade for", "failed there is no Service pillion in namespace own", "failed replica one is not ready: certificates: no CA", "warning the replicas are of version 7", "replica one knew namespaces for certain 1m30s ago",
		"failed Pillion's service account own:account was deleted, and made again at 2026-06-01T12:00:00Z. The replicas one are older", "kubectl -n own rollout restart deployment/pillion",
		"service account own:account lacks the right to create secrets in namespace own, get secrets pillion-ca in namespace own",
		"failed the ValidatingAdmissionPolicy pillion-own-namespaces is missing", "has no entry namespaces.pillion.dev", `has failurePolicy "Fail", and the chart renders "Ignore"`, "does not verify the certificate of replica one", "failed (NotInjected)",
		"skipped crd: not looked at: clusterTemplates=false", "ok namespaces name only templates that are there", "namespace shop has the label pillion.dev/injection=enabled by hand",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(got, "pillion-own-labels") {
		t.Errorf("the policy with its binding is missed:\n%s", &out)
	}
	out.Reset()
	if err := writeCheckJSON(&out, report, false); err != nil {
		t.Fatal(err)
	}
	var back checkReport
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Sound || back.Counts[check.Failed] != report.Count(check.Failed) || len(back.Checks) != len(check.All()) {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestCheckSaysThatTheAPIServerIsAway(t *testing.T) {
	r := checkReaderOf(t)
	r.version = func(context.Context) ([]byte, error) { return nil, errors.New("connection refused") }
	report := check.Run(check.All(), r.read(t.Context(), time.Now()))
	if len(report.Outcomes) != 1 || report.Outcomes[0].Result != check.Failed {
		t.Errorf("%+v", report)
	}
}

func TestCheckWithoutADeploymentSaysWhereToLook(t *testing.T) {
	r := checkReaderOf(t)
	report := check.Run(check.All(), r.read(t.Context(), time.Now()))
	if o := report.Outcomes[1]; o.Result != check.Failed || !strings.Contains(o.Findings[0].Says, "0 in namespace own") || o.Findings[0].Remedy[0] != "kubectl get deployments -A -l app.kubernetes.io/name=pillion" {
		t.Errorf("%+v", o)
	}
}

func TestWrongFlagsOfCheckAreWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-o", "yaml"}, {"--color", "pink"}, {"shop"}} {
		var out bytes.Buffer
		if code := run(t.Context(), append([]string{"pillion", "check"}, args...), strings.NewReader(""), &out, &out); code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, code, &out)
		}
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	var out bytes.Buffer
	auto, err := newPalette("auto", &out)
	if err != nil || auto.on {
		t.Errorf("a buffer gets colours: %v", err)
	}
	always, _ := newPalette("always", &out)
	never, _ := newPalette("never", &out)
	if got := always.paint(red, "x") + never.paint(red, "x"); got != "\x1b[31mx\x1b[0mx" {
		t.Errorf("%q", got)
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
	var p admissionPolicies
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
			floor.Binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		case "of-helm":
			floor.Policy.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		}
		p.all, p.bindings = append(p.all, floor.Policy), append(p.bindings, floor.Binding)
	}
	for _, name := range []string{"required-gone.pillion.dev", "required-good.other.example.com", "required.pillion.dev", "required-a.b.pillion.dev", "pillion-labels"} {
		p.all = append(p.all, admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	entries = append(entries, templates.Entry{Name: "bad", Err: errors.New("line 3")})
	got := p.floors(t.Context(), templates.NewSet(entries), check.Settings{Prefix: "pillion.dev", Excluded: []string{"own", "kube-system", "own"}})
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

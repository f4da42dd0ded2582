package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// aCA is a certificate in PEM that ends then.
func aCA(end time.Time) []byte {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-365 * 24 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	raw, _ := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

var lastingCA = aCA(now.Add(300 * 24 * time.Hour))

// injectionIn is a selector of namespaces by the label of injection.
func injectionIn(operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "pillion-system"}}}}
	if operator != "" {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: "pillion.dev/injection", Operator: operator, Values: values})
	}
	return s
}

func entry(mutating bool, name, path string, policy admissionv1.FailurePolicyType, selector *metav1.LabelSelector, resource string, operations ...admissionv1.OperationType) Webhook {
	w := Webhook{mutating, "pillion", defaulted(admissionv1.MutatingWebhook{
		Name: name + ".pillion.dev", FailurePolicy: &policy, NamespaceSelector: selector, MatchConditions: []admissionv1.MatchCondition{{Name: "by-others", Expression: "true"}},
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "pillion-system", Name: "pillion", Path: &path}, CABundle: lastingCA},
		Rules:        []admissionv1.RuleWithOperations{{Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{resource}}}},
	})}
	if mutating {
		w.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
	}
	return w
}

// foreign is an entry of somebody else's configuration, for the pods of all namespaces.
func foreign(configuration string, policy admissionv1.FailurePolicyType) Webhook {
	w := entry(true, "x", "/", policy, &metav1.LabelSelector{}, "pods", admissionv1.Create)
	w.Configuration, w.ClientConfig.Service.Name = configuration, "other"
	return w
}

func template(t *testing.T, name string) templates.Entry {
	t.Helper()
	compiled := templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: `+name+`}, spec: {inject: {spec: {initContainers: [{name: s, restartPolicy: Always, image: i}]}}}}`)
	return templates.Entry{Name: name, Template: compiled}
}

// excepting is a set of one required template, with an exception.
func excepting(t *testing.T, until string) *templates.Set {
	t.Helper()
	return templatestest.Set(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: mesh}, spec: {required: true, match: {namespaceSelector: {matchLabels: {team: shop}}},
  exceptions: [{name: legacy, podSelector: {matchLabels: {app: batch}}, until: "`+until+`", reason: OPS-1}], inject: {spec: {initContainers: [{name: s, restartPolicy: Always, image: i}]}}}}`)
}

// own gives the namespace a a template of its own.
func own(t *testing.T, f *Facts, name string) {
	t.Helper()
	f.Templates.Value = f.Templates.Value.WithNamespaces(map[string]*templates.NamespaceTemplates{"a": templates.NewNamespaceTemplates([]templates.Entry{template(t, name)})})
}

func namespace(name, injection, inject string) labels.Namespace {
	ns := labels.Namespace{Namespace: templates.Namespace{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}, Annotations: map[string]string{}}}
	if injection != "" {
		ns.Labels["pillion.dev/injection"] = injection
	}
	if inject != "" {
		ns.Annotations["pillion.dev/inject"] = inject
	}
	return ns
}

// entries are those of the chart.
func charted() []Webhook {
	required := func(operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		s := injectionIn(operator, values...)
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: "pillion.dev/required", Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}})
		return s
	}
	create, update := admissionv1.Create, admissionv1.Update
	uninstall := entry(false, "uninstall", "/uninstall", admissionv1.Ignore, nil, "configmaps", create)
	uninstall.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pillion.dev/uninstall": "wait"}}
	return []Webhook{
		entry(true, "namespaces", "/mutate/namespaces", admissionv1.Ignore, &metav1.LabelSelector{}, "namespaces", create, update),
		entry(true, "requested", "/mutate/requested", admissionv1.Ignore, injectionIn(metav1.LabelSelectorOpIn, "enabled"), "pods", create),
		entry(true, "pods", "/mutate/pods", admissionv1.Ignore, injectionIn(metav1.LabelSelectorOpNotIn, "enabled", "enforced", "disabled"), "pods", create),
		entry(true, "enforced", "/mutate/enforced", admissionv1.Fail, injectionIn(metav1.LabelSelectorOpIn, "enforced"), "pods", create),
		entry(false, "sidecartemplates", "/validate-sidecartemplates", admissionv1.Ignore, nil, "sidecartemplates", create),
		entry(false, "required", "/verify/requested", admissionv1.Ignore, required(metav1.LabelSelectorOpNotIn, "enforced", "disabled"), "pods", create),
		entry(false, "required-enforced", "/verify/enforced", admissionv1.Fail, required(metav1.LabelSelectorOpIn, "enforced"), "pods", create),
		uninstall,
	}
}

// sound are the facts of an installation without any fault.
func sound(t *testing.T) *Facts {
	t.Helper()
	needs := Needs{
		Settings: Settings{
			Namespace: "pillion-system", Service: "pillion", Prefix: "pillion.dev", Release: "pillion", Account: "system:serviceaccount:pillion-system:pillion", Excluded: []string{"kube-system", "pillion-system"},
			ClusterTemplates: true, NamespacedTemplates: true, KeepRequired: true, Mutating: []string{"pillion"}, Validating: []string{"pillion"},
			Provider: "self-signed", Publishes: true, Policies: true, LeafDuration: 7 * 24 * time.Hour, ProofNamespace: "pillion-system-proof", Enforcement: labels.EnforceAsked,
		},
		CASecret: "pillion-ca", CreateCASecret: true, UninstallMarker: "m", InUse: "u", ReadWorkloads: true, CountEvery: time.Minute, OwnerEvents: true,
	}
	needs.Rights = ServerRights(needs)
	podLabels := map[string]string{"app.kubernetes.io/instance": "pillion"}
	replica := func(name string) state.Replica {
		return state.Replica{Name: name, Created: now.Add(-time.Hour), Answers: true, State: state.State{
			Version: "1", Templates: map[string]string{"fluent-bit": "abc", "istio-proxy": "abc", "daprd": "abc"}, CacheAgeSeconds: map[string]float64{"namespaces": 1},
			EnforcementProven: new(true), Certificates: state.Certificates{Ends: new(now.Add(5 * 24 * time.Hour)), Published: []state.Published{{Kind: "MutatingWebhookConfiguration", Name: "pillion", Verifies: true}}},
		}}
	}
	return &Facts{
		Now: now, Version: "1",
		Kubernetes: Known[templates.KubernetesVersion]{Value: templates.NewestKubernetes()},
		Settings:   Known[Settings]{Value: needs.Settings},
		Deployment: Known[Deployment]{Value: Deployment{Name: "pillion", PodLabels: podLabels, WebhookPort: 10250, Wanted: 2, Available: 2, Updated: 2}},
		Service:    Known[corev1.Service]{Value: corev1.Service{Spec: corev1.ServiceSpec{Selector: podLabels, Ports: []corev1.ServicePort{{Port: 443}}}}},
		Revisions:  Known[[]Revision]{Value: []Revision{{7, "superseded", now.Add(-2 * time.Hour)}, {8, "deployed", now.Add(-time.Hour)}, {9, "failed", now.Add(-time.Minute)}}},
		Replicas:   Known[[]state.Replica]{Value: []state.Replica{replica("a"), replica("b")}},
		Account:    Known[time.Time]{Value: now.Add(-time.Hour)},
		Webhooks:   Known[[]Webhook]{Value: charted()}, Rendered: Known[[]Webhook]{Value: charted()},
		Policies: Known[Policies]{Value: denying("namespaces", "labels", "cabundle", "selectors", "proof")},
		Budgets: Known[[]policyv1.PodDisruptionBudget]{Value: []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "pillion"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: podLabels}}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
		}}},
		CRD:        Known[CRD]{Value: definition(t, "sidecartemplates", "True", "v1alpha1")},
		OwnCRD:     Known[CRD]{Value: definition(t, "namespacedsidecartemplates", "True", "v1alpha1")},
		Templates:  Known[*templates.Set]{Value: templates.NewSet([]templates.Entry{template(t, "fluent-bit"), template(t, "istio-proxy"), template(t, "daprd")})},
		Pods:       Known[map[string]int]{Value: map[string]int{"shop": 7}},
		Namespaces: Known[[]labels.Namespace]{Value: []labels.Namespace{namespace("shop", "enforced", "fluent-bit"), namespace("quiet", "", ""), namespace("pillion-system", "", ""), namespace("pillion-system-proof", "enforced", "")}},
	}
}

// denying are policies of the chart, each with a binding.
func denying(names ...string) (p Policies) {
	for _, name := range names {
		name = "pillion-pillion-system-" + name
		p.All = append(p.All, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
		p.Bindings = append(p.Bindings, admissionv1.ValidatingAdmissionPolicyBinding{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
	}
	return p
}

// definition is a CRD of the group pillion.dev with one version.
func definition(t *testing.T, name, established, version string) (crd CRD) {
	t.Helper()
	text := fmt.Sprintf(`{"metadata": {"name": "%s.pillion.dev"}, "spec": {"versions": [{"name": %q, "served": true}, {"name": "v0"}]}, "status": {"conditions": [{"type": "Established", "status": %q, "message": "names clash"}], "storedVersions": [%[2]q]}}`, name, version, established)
	if err := json.Unmarshal([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// find returns the outcome of a check.
func find(t *testing.T, r Report, name string) Outcome {
	t.Helper()
	for _, o := range r.Outcomes {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("there is no check %s", name)
	return Outcome{}
}

func (o Outcome) text() string {
	var all []string
	for _, f := range o.Findings {
		all = append(all, fmt.Sprintf("%s: %s", f.Result, f.Says))
		for _, command := range f.Remedy {
			all = append(all, "  "+command)
		}
	}
	return strings.Join(all, "\n")
}

func TestASoundInstallationIsFoundSound(t *testing.T) {
	r := Run(All(), sound(t))
	for _, o := range r.Outcomes {
		if o.Result != OK || len(o.Findings) > 0 && o.Name != "dependence" {
			t.Errorf("%s: %s\n%s", o.Name, o.Result, o.text())
		}
	}
	if !r.Sound(true) || len(r.Outcomes) != len(All()) {
		t.Errorf("%d of %d checks, sound %v", len(r.Outcomes), len(All()), r.Sound(true))
	}
}

var notFound = apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "x")

// faults are what may be wrong, one at a time.
var faults = []struct {
	check, fault string
	damage       func(t *testing.T, f *Facts)
	want         Result
	// says and remedy have to be in the finding.
	says, remedy string
}{
	{"api-server", "away", func(_ *testing.T, f *Facts) { f.Kubernetes.Err = errors.New("connection refused") }, Failed, "does not answer: connection refused", "kubectl cluster-info"},
	{"api-server", "without native sidecars", func(_ *testing.T, f *Facts) { f.Kubernetes.Value = templates.KubernetesVersion{Major: 1, Minor: 28} }, Failed, "no native sidecars", "kubectl version"},
	{"api-server", "too old", func(_ *testing.T, f *Facts) { f.Kubernetes.Value = templates.KubernetesVersion{Major: 1, Minor: 34} }, Failed, "Pillion supports 1.35 and later", "kubectl version"},
	{"api-server", "newer than this pillion", func(_ *testing.T, f *Facts) { f.Kubernetes.Value.Minor++ }, OK, "leaves newer ones as they are", ""},
	{"deployment", "not found", func(_ *testing.T, f *Facts) {
		f.Settings.Err = fmt.Errorf("%w: 0 in namespace pillion-system", ErrAbsent)
	}, Failed, "0 in namespace pillion-system", "kubectl get deployments -A"},
	{"api-server", "credentials that have ended", func(_ *testing.T, f *Facts) {
		f.Kubernetes.Err = fmt.Errorf("reading /version: %w", apierrors.NewUnauthorized("Unauthorized"))
	}, Failed, "does not accept your credentials", "kubectl auth whoami"},
	{"deployment", "no answer", func(_ *testing.T, f *Facts) { f.Settings.Err = errors.New("looking for Pillion's Deployment: timeout") }, Failed, "timeout", "kubectl get --raw '/readyz?verbose'"},
	{"deployment", "no credentials", func(_ *testing.T, f *Facts) { f.Settings.Err = fmt.Errorf("%w: forbidden", rights.ErrAnonymous) }, Failed, "does not know you", "kubectl config view --minify"},
	{"deployment", "scaled to nothing", func(_ *testing.T, f *Facts) { f.Deployment.Value.Wanted = 0 }, Failed, "wants no replica", "kubectl -n pillion-system scale deployment pillion --replicas=2"},
	{"deployment", "none available", func(_ *testing.T, f *Facts) { f.Deployment.Value.Available = 0 }, Failed, "none of the 2 replicas", "kubectl -n pillion-system describe pods"},
	{"deployment", "one of two available", func(_ *testing.T, f *Facts) { f.Deployment.Value.Available = 1 }, Warning, "1 of 2 replicas", "kubectl -n pillion-system get pods -l app.kubernetes.io/instance=pillion"},
	{"deployment", "in the middle of an upgrade", func(_ *testing.T, f *Facts) { f.Deployment.Value.Updated = 1 }, Warning, "newest version", "kubectl -n pillion-system rollout status deployment pillion"},
	{"deployment", "one replica", func(_ *testing.T, f *Facts) { d := &f.Deployment.Value; d.Wanted, d.Available, d.Updated = 1, 1, 1 }, Warning, "one replica", "--replicas=2"},
	{"deployment", "other replicas are asked", func(_ *testing.T, f *Facts) { f.Deployment.Value.Given = true }, Skipped, "--replica", ""},
	{"service", "missing", func(_ *testing.T, f *Facts) { f.Service.Err = notFound }, Failed, "no Service pillion", "helm -n pillion-system rollback pillion $(helm -n pillion-system history pillion --max 1 | awk 'END {print $1}')"},
	{"service", "missing, with Helm 4", func(_ *testing.T, f *Facts) { f.Settings.Value.ServerSideHelm, f.Service.Err = true, notFound }, Failed, "no Service pillion", ") --force-conflicts"},
	{"service", "leads elsewhere", func(_ *testing.T, f *Facts) { f.Service.Value.Spec.Selector = map[string]string{"app": "web"} }, Failed, "app=web", "| kubectl replace -f -"},
	{"release", "interrupted", func(_ *testing.T, f *Facts) {
		f.Revisions.Value = append([]Revision{{10, "pending-upgrade", now.Add(-12 * time.Minute)}}, f.Revisions.Value...)
	}, Failed, "revision 10 of the Helm release pillion is pending-upgrade for 12m0s", "helm -n pillion-system rollback pillion 8"},
	{"release", "broken off, by Helm 4", func(_ *testing.T, f *Facts) {
		f.Settings.Value.ServerSideHelm, f.Revisions.Value = true, append(f.Revisions.Value, Revision{10, "pending-rollback", now})
	}, Failed, "is pending-rollback for 0s", "helm -n pillion-system rollback pillion 8 --force-conflicts"},
	{"release", "the first one broken off", func(_ *testing.T, f *Facts) {
		f.Revisions.Value = []Revision{{1, "pending-install", now.Add(-time.Minute)}}
	}, Failed, "revision 1 of the Helm release pillion is pending-install", "helm -n pillion-system rollback pillion 1"},
	{"release", "mended since", func(_ *testing.T, f *Facts) {
		f.Revisions.Value = []Revision{{1, "superseded", now}, {2, "pending-upgrade", now}, {3, "deployed", now}}
	}, OK, "", ""},
	{"release", "none", func(_ *testing.T, f *Facts) { f.Settings.Value.Release = "" }, Skipped, "Helm did not install Pillion", ""},
	{"service", "another port", func(_ *testing.T, f *Facts) { f.Service.Value.Spec.Ports[0].Port = 8443 }, Failed, "no port 443", "helm"},
	{"replicas", "none", func(_ *testing.T, f *Facts) { f.Replicas.Value = nil }, Failed, "no pod of Pillion runs", "kubectl -n pillion-system describe pods"},
	{"replicas", "not ready", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Missing = "certificates:\nno CA" }, Failed, "replica a is not ready: certificates:; no CA", "kubectl -n pillion-system logs a"},
	{"replicas", "no metrics", func(_ *testing.T, f *Facts) { f.Replicas.Value[1].Answers = false }, Failed, "replica b gives no metrics", "kubectl get --raw /api/v1/namespaces/pillion-system/pods/b:8080/proxy/metrics"},
	{"replicas", "not ready, by its URL", func(_ *testing.T, f *Facts) {
		f.Deployment.Value.Given, f.Replicas.Value = true, []state.Replica{{Name: "http://127.0.0.1:8080", Missing: "certificates"}, {Name: "http://127.0.0.1:8081"}}
	}, Failed, "replica http://127.0.0.1:8080 is not ready", "curl http://127.0.0.1:8081/metrics"},
	{"versions", "differ", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Version = "2" }, Warning, "versions 1, 2", "rollout status"},
	{"versions", "of this program", func(_ *testing.T, f *Facts) { f.Version = "2" }, Warning, "this pillion is 2", "kubectl -n pillion-system get deployments"},
	{"versions", "unknown", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Version, f.Replicas.Value[1].Version = "", "" }, Skipped, "no replica says", ""},
	{"caches", "old", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].CacheAgeSeconds["templates"] = 60 }, Warning, "replica a knew templates for certain 1m0s ago", "kubectl -n pillion-system logs -l"},
	{"disruption", "no budget", func(_ *testing.T, f *Facts) { f.Budgets.Value = nil }, Warning, "no PodDisruptionBudget", "helm -n pillion-system upgrade pillion CHART --reset-then-reuse-values --set podDisruptionBudget.enabled=true"},
	{"disruption", "no budget, without Helm", func(_ *testing.T, f *Facts) { f.Settings.Value.Release, f.Budgets.Value = "", nil }, Warning, "no PodDisruptionBudget", "kubectl -n pillion-system create pdb pillion --selector=app.kubernetes.io/name=pillion --max-unavailable=1"},
	{"disruption", "blocks drains", func(_ *testing.T, f *Facts) { f.Budgets.Value[0].Status.DisruptionsAllowed = 0 }, Warning, "lets no replica go", "kubectl -n pillion-system describe pdb pillion"},
	{"network", "closed", func(_ *testing.T, f *Facts) {
		f.Networks.Value = []networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}}
	}, Failed, "(deny) let nothing in", "helm -n pillion-system upgrade pillion CHART --reset-then-reuse-values --set networkPolicy.enabled=true"},
	{"network", "one closes, one opens", func(_ *testing.T, f *Facts) {
		f.Networks.Value = []networkingv1.NetworkPolicy{{}, {Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("webhook"))}}}}}}}
	}, OK, "", ""},
	{"network", "opens another port", func(_ *testing.T, f *Facts) {
		f.Networks.Value = []networkingv1.NetworkPolicy{{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(8080))}}}}}}}
	}, Failed, "10250", "kubectl"},
	{"account", "deleted", func(_ *testing.T, f *Facts) { f.Account.Err = fmt.Errorf("reading it: %w", notFound) }, Failed, "pillion-system:pillion is missing", "helm -n pillion-system rollback"},
	{"account", "deleted, and the replicas need new tokens", func(_ *testing.T, f *Facts) { f.Account.Err = notFound }, Failed, "(401)", "kubectl -n pillion-system rollout restart deployment/pillion"},
	{"account", "made again", func(_ *testing.T, f *Facts) { f.Account.Value = now.Add(-time.Minute) }, Failed, "created again at 2026-06-01T11:59:00Z. The replicas a, b still have tokens", "kubectl -n pillion-system rollout restart deployment/pillion"},
	{"account", "made again, and one replica restarted", func(_ *testing.T, f *Facts) {
		f.Account.Value, f.Replicas.Value[1].Created = now.Add(-time.Minute), now.Add(-time.Minute)
	}, Failed, "The replicas a still have tokens", "kubectl -n pillion-system rollout restart deployment/pillion"},
	{"account", "a token that is not accepted", func(_ *testing.T, f *Facts) { f.Replicas.Value[1].Unauthorized = true }, Failed, "the tokens of the replicas b are not accepted", "kubectl -n pillion-system rollout restart deployment/pillion"},
	{"server-rights", "one taken", func(_ *testing.T, f *Facts) { f.Denied.Value = []rights.Right{{Verb: "patch", Resource: "namespaces"}} }, Failed, "service account pillion-system:pillion lacks the right to patch namespaces in all namespaces;", "helm"},
	{"server-rights", "all taken", func(_ *testing.T, f *Facts) { f.Denied.Value = f.Settings.Value.Rights }, Failed, "and 39 more", "helm"},
	{"server-rights", "one taken, without Helm", func(_ *testing.T, f *Facts) {
		f.Settings.Value.Release, f.Denied.Value = "", []rights.Right{{Verb: "patch", Resource: "namespaces"}}
	}, Failed, "lacks the right to patch namespaces", "--serviceaccount=pillion-system:pillion"},
	{"policies", "one missing", func(_ *testing.T, f *Facts) { f.Policies.Value.All = f.Policies.Value.All[1:] }, Failed, "pillion-pillion-system-namespaces is missing: Pillion's token may change all of a namespace", "helm"},
	{"policies", "one without effect", func(_ *testing.T, f *Facts) { f.Policies.Value.Bindings = f.Policies.Value.Bindings[1:] }, Failed, "no binding", "helm"},
	{"policies", "all taken away", func(_ *testing.T, f *Facts) { f.Policies.Value = Policies{} }, Failed, "pillion-pillion-system-labels is missing: everybody who may write a namespace may set its label", "helm"},
	{"policies", "none wanted", func(_ *testing.T, f *Facts) { f.Policies.Value, f.Settings.Value.Policies = Policies{}, false }, Warning, "rbac.admissionPolicy=false", "kubectl get validatingadmissionpolicies"},
	{"configurations", "mutating one missing", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = slices.DeleteFunc(f.Webhooks.Value, func(w Webhook) bool { return w.Mutating })
	}, Failed, "no mutatingwebhookconfiguration/pillion", "helm -n pillion-system rollback pillion"},
	{"configurations", "validating one missing", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = slices.DeleteFunc(f.Webhooks.Value, func(w Webhook) bool { return !w.Mutating })
	}, Failed, "no validatingwebhookconfiguration/pillion", "helm"},
	{"configurations", "none named", func(_ *testing.T, f *Facts) { f.Settings.Value.Mutating = nil }, Failed, "does not know its", "kubectl"},
	{"entries", "one missing", func(_ *testing.T, f *Facts) { f.Webhooks.Value = f.Webhooks.Value[1:] }, Failed, "has no entry namespaces.pillion.dev", "kubectl replace -f -"},
	{"entries", "another Service", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].ClientConfig.Service.Name = "x" }, Failed, `requested.pillion.dev of mutatingwebhookconfiguration/pillion has clientConfig.service.name "x", and the chart renders "pillion": API servers do not call Pillion as the chart sets it up`, "kubectl replace -f -"},
	{"entries", "a URL", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value[1].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://example.com/")}
	}, Failed, `has clientConfig.url "https://example.com/", and the chart renders none`, "kubectl replace -f -"},
	{"entries", "another path", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].ClientConfig.Service.Path = new("/mutate") }, Failed, `has clientConfig.service.path "/mutate", and the chart renders "/mutate/requested"`, "kubectl replace -f -"},
	{"entries", "another port", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].ClientConfig.Service.Port = new(int32(8443)) }, Failed, "has clientConfig.service.port 8443, and the chart renders 443", "kubectl replace -f -"},
	{"entries", "enforced lets through", func(_ *testing.T, f *Facts) { f.Webhooks.Value[3].FailurePolicy = new(admissionv1.Ignore) }, Failed, `failurePolicy "Ignore", and the chart renders "Fail": pods of enforced namespaces are let through`, "kubectl replace -f -"},
	{"entries", "requested refuses", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].FailurePolicy = new(admissionv1.Fail) }, Failed, `failurePolicy "Fail", and the chart renders "Ignore": pods of namespaces that are not enforced are refused`, "kubectl replace -f -"},
	{"entries", "matchPolicy", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].MatchPolicy = new(admissionv1.Exact) }, Failed, `matchPolicy "Exact"`, "kubectl replace -f -"},
	{"entries", "another value in a selector", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].NamespaceSelector = injectionIn("In", "enable") }, Failed, `has namespaceSelector.matchExpressions[1].values[0] "enable", and the chart renders "enabled": pods that it leaves out are not injected`, "kubectl replace -f -"},
	{"entries", "selects too much", func(_ *testing.T, f *Facts) { f.Webhooks.Value[3].NamespaceSelector = injectionIn("") }, Failed, "has namespaceSelector.matchExpressions [{", "kubectl replace -f -"},
	{"entries", "no rule", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].Rules = nil }, Failed, "has no rules, and the chart renders [{", "kubectl replace -f -"},
	{"entries", "another operation", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value[0].Rules[0].Operations = []admissionv1.OperationType{"CREATE"}
	}, Failed, `has rules[0].operations ["CREATE"], and the chart renders ["CREATE","UPDATE"]: namespaces that it leaves out`, "kubectl replace -f -"},
	{"entries", "selects objects", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value[1].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	}, Failed, `has objectSelector.matchLabels {"a":"b"}, and the chart renders none`, "kubectl replace -f -"},
	{"entries", "not called again", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value[1].ReinvocationPolicy = new(admissionv1.NeverReinvocationPolicy)
	}, Failed, `reinvocationPolicy "Never"`, "kubectl replace -f -"},
	{"entries", "no patience", func(_ *testing.T, f *Facts) { f.Webhooks.Value[3].TimeoutSeconds = new(int32(1)) }, Failed, "has timeoutSeconds 1, and the chart renders 10", "kubectl replace -f -"},
	{"entries", "side effects", func(_ *testing.T, f *Facts) { f.Webhooks.Value[3].SideEffects = new(admissionv1.SideEffectClassSome) }, Failed, `has sideEffects "Some"`, "kubectl replace -f -"},
	{"entries", "verification switched off", func(_ *testing.T, f *Facts) {
		w := &f.Webhooks.Value[6]
		w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: "never", Expression: "false"})
	}, Failed, `entry required-enforced.pillion.dev of validatingwebhookconfiguration/pillion has matchConditions[never] {"expression":"false","name":"never"}, and the chart renders none: final pods that it leaves out are not verified`, "kubectl replace -f -"},
	{"entries", "a condition changed", func(_ *testing.T, f *Facts) { f.Webhooks.Value[0].MatchConditions[0].Expression = "false" }, Failed, `has matchConditions[by-others].expression "false", and the chart renders "true"`, "kubectl replace -f -"},
	{"entries", "a condition gone", func(_ *testing.T, f *Facts) { f.Webhooks.Value[0].MatchConditions = nil }, Failed, `has no matchConditions, and the chart renders [{"expression":"true","name":"by-others"}]`, "kubectl replace -f -"},
	{"entries", "the end of a long condition changed", func(_ *testing.T, f *Facts) {
		long := strings.Repeat("object.metadata.name != 'x' && ", 20)
		f.Rendered.Value[0].MatchConditions[0].Expression, f.Webhooks.Value[0].MatchConditions[0].Expression = long+"true", long+"false"
	}, Failed, `.metadata.name != 'x' && false", and the chart renders …`, "kubectl replace -f -"},
	{"entries", "one more in the configuration", func(_ *testing.T, f *Facts) {
		copied := charted()[3]
		copied.Name = "copy.pillion.dev"
		f.Webhooks.Value = append(f.Webhooks.Value, copied)
	}, Failed, "entry copy.pillion.dev of mutatingwebhookconfiguration/pillion is not part of the chart: through it API servers call {", "kubectl replace -f -"},
	{"entries", "one more that calls others", func(_ *testing.T, f *Facts) {
		other := foreign("pillion", admissionv1.Fail)
		other.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://example.com/")}
		f.Webhooks.Value = append(f.Webhooks.Value, other)
	}, Failed, `is not part of the chart: through it API servers call {"url":"https://example.com/"}`, "kubectl replace -f -"},
	{"entries", "a copy of the configuration", func(_ *testing.T, f *Facts) {
		for _, w := range charted() {
			w.Configuration = "pillion-copy"
			f.Webhooks.Value = append(f.Webhooks.Value, w)
		}
	}, Failed, "mutatingwebhookconfiguration/pillion-copy is not part of the chart, and its entry namespaces.pillion.dev calls Pillion", "kubectl delete mutatingwebhookconfiguration pillion-copy"},
	{"entries", "a copy beside others' entries", func(_ *testing.T, f *Facts) {
		copied := charted()[3]
		copied.Configuration = "others"
		f.Webhooks.Value = append(f.Webhooks.Value, copied, foreign("others", admissionv1.Ignore))
	}, Failed, "mutatingwebhookconfiguration/others is not part of the chart, and its entry enforced.pillion.dev calls Pillion", "kubectl edit mutatingwebhookconfiguration others"},
	{"entries", "another configuration of the installer's", func(_ *testing.T, f *Facts) {
		copied := charted()[3]
		copied.Configuration = "more"
		f.Settings.Value.Mutating = []string{"pillion", "more"}
		f.Webhooks.Value = append(f.Webhooks.Value, copied)
	}, OK, "", ""},
	{"entries", "on AKS, which adds to every selector", func(_ *testing.T, f *Facts) {
		for i := range f.Webhooks.Value {
			selector := f.Webhooks.Value[i].NamespaceSelector.DeepCopy()
			if selector == nil {
				continue
			}
			f.Webhooks.Value[i].NamespaceSelector = selector
			selector.MatchExpressions = append(selector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
				metav1.LabelSelectorRequirement{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}})
		}
	}, OK, "", ""},
	{"entries", "nothing to compare with", func(_ *testing.T, f *Facts) { f.Rendered.Err = notFound }, Failed, "the ConfigMap pillion-webhooks is missing in namespace pillion-system", "helm"},
	{"ca-bundles", "empty", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].ClientConfig.CABundle = nil }, Failed, "requested.pillion.dev of mutatingwebhookconfiguration/pillion has no certificate in its caBundle", "kubectl -n pillion-system logs"},
	{"ca-bundles", "empty, which cainjector writes", func(_ *testing.T, f *Facts) {
		f.Settings.Value.Provider, f.Settings.Value.Publishes, f.Webhooks.Value[1].ClientConfig.CABundle = "cert-manager", false, nil
	}, Failed, "trust Pillion; cert-manager's cainjector writes it", "kubectl -n cert-manager logs deployment/cert-manager-cainjector"},
	{"ca-bundles", "empty, which Pillion writes for cert-manager", func(_ *testing.T, f *Facts) {
		f.Settings.Value.Provider, f.Webhooks.Value[1].ClientConfig.CABundle = "cert-manager", nil
	}, Failed, "trust Pillion; Pillion restores it", "kubectl -n pillion-system logs"},
	{"ca-bundles", "empty, of files", func(_ *testing.T, f *Facts) {
		f.Settings.Value.Provider, f.Settings.Value.Publishes, f.Webhooks.Value[1].ClientConfig.CABundle = "files", false, nil
	}, Failed, "trust Pillion; you write it", "kubectl -n pillion-system logs"},
	{"ca-bundles", "over", func(_ *testing.T, f *Facts) { f.Webhooks.Value[1].ClientConfig.CABundle = aCA(now.Add(-time.Hour)) }, Failed, "expired certificates", "kubectl -n pillion-system logs"},
	{"ca-bundles", "of another CA", func(_ *testing.T, f *Facts) {
		f.Replicas.Value[0].Certificates.Published[0].Verifies = false
	}, Failed, "does not verify the certificate of replica a", "kubectl -n pillion-system logs"},
	{"certificates", "over", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Certificates.Ends = new(now.Add(-time.Hour)) }, Failed, "ended at 2026-06-01T11:00:00Z", "kubectl -n pillion-system logs"},
	{"certificates", "soon", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Certificates.Ends = new(now.Add(time.Hour)) }, Warning, "ends in 1h0m0s", "kubectl -n pillion-system logs"},
	{"certificates", "soon, of files", func(_ *testing.T, f *Facts) { f.Settings.Value.Provider = "files" }, Warning, "ends in 120h0m0s", "kubectl -n pillion-system logs"},
	{"certificates", "failing", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Certificates.Problems = []string{"publish: x"} }, Failed, "fails at publish: x", "logs"},
	{"proof", "not yet", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].EnforcementProven = new(false) }, Failed, "replica a has not proven that pods come back injected", "kubectl -n pillion-system logs"},
	{"proof", "of nothing", func(_ *testing.T, f *Facts) { f.Settings.Value.ProofNamespace = "" }, Skipped, "enforcement=None", ""},
	{"crd", "missing", func(_ *testing.T, f *Facts) { f.CRD.Err = notFound }, Failed, "no CustomResourceDefinition sidecartemplates.pillion.dev", "helm"},
	{"crd", "missing, with its templates", func(_ *testing.T, f *Facts) {
		f.CRD.Err = notFound
		f.Replicas.Value[0].Templates["mesh"], f.Replicas.Value[1].Templates["mesh"] = "abc", "abc"
	}, Failed, "Running replicas keep their templates (mesh), but replicas that start have none, so restart none. Restore the definition, then apply your SidecarTemplates again", "kubectl apply -f SIDECARTEMPLATES"},
	{"templates", "in force without their objects", func(_ *testing.T, f *Facts) {
		for _, r := range f.Replicas.Value {
			r.Templates["mesh"], r.Broken = "abc", []string{"mesh"}
		}
	}, Warning, "the templates mesh are in force, and their objects or files are gone", "kubectl apply -f SIDECARTEMPLATES"},
	{"templates", "one that a replica does not have", func(_ *testing.T, f *Facts) { delete(f.Replicas.Value[1].Templates, "daprd") }, Warning, "different versions of daprd", "pillion status"},
	{"template-names", "in force, whatever objects there are", func(_ *testing.T, f *Facts) {
		f.CRD.Err, f.Templates.Value = notFound, templates.NewSet(nil)
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "daprd"))
	}, OK, "", ""},
	{"template-names", "nobody says what is in force", func(_ *testing.T, f *Facts) {
		f.CRD.Err, f.Templates.Value, f.Replicas.Value = notFound, templates.NewSet(nil), nil
	}, Skipped, "no replica says which templates are in force", ""},
	{"template-names", "gone, and pods have its sidecar", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "fluentbit,daprd"))
		f.Worn.Value = []Named{{"a", "fluentbit"}}
	}, Failed, "pods of it run with the sidecar of fluentbit. Apply the template again", "kubectl apply -f SIDECARTEMPLATES"},
	{"template-names", "one of the namespace's own", func(t *testing.T, f *Facts) {
		own(t, f, "team")
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "team,daprd"))
	}, OK, "", ""},
	{"template-names", "nearly one of the namespace's own", func(t *testing.T, f *Facts) {
		own(t, f, "team-logs")
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "teamlogs"))
	}, Failed, "namespace a names teamlogs, which does not exist", "kubectl annotate namespace a pillion.dev/inject=team-logs --overwrite"},
	{"template-names", "one of another namespace", func(t *testing.T, f *Facts) {
		own(t, f, "team")
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("b", "enabled", "team"))
	}, Failed, "namespace b names team, which does not exist", "kubectl annotate namespace b"},
	{"crd", "that of namespaces is missing", func(_ *testing.T, f *Facts) {
		f.OwnCRD.Err = notFound
	}, Failed, "no CustomResourceDefinition namespacedsidecartemplates.pillion.dev", "helm"},
	{"crd", "that of namespaces is missing, and not served", func(_ *testing.T, f *Facts) {
		f.Settings.Value.NamespacedTemplates, f.OwnCRD.Err = false, notFound
	}, OK, "", ""},
	{"crd", "that of namespaces is not established", func(t *testing.T, f *Facts) {
		f.OwnCRD.Value = definition(t, "namespacedsidecartemplates", "False", "v1alpha1")
	}, Failed, "namespacedsidecartemplates.pillion.dev is not established: names clash", "kubectl get crd namespacedsidecartemplates.pillion.dev"},
	{"exceptions", "in force", func(t *testing.T, f *Facts) { f.Templates.Value = excepting(t, "2026-06-13T12:00:00Z") }, OK, "the exception legacy of the required template mesh lets pods go without it for another 12d, until 2026-06-13T12:00:00Z: OPS-1", ""},
	{"exceptions", "ended", func(t *testing.T, f *Facts) { f.Templates.Value = excepting(t, "2026-06-01T14:00:00+02:00") }, Warning, "ended at 2026-06-01T12:00:00Z, 0s ago", "kubectl get sidecartemplates.pillion.dev mesh"},
	{"required-policies", "of a template in force without its object", func(_ *testing.T, f *Facts) {
		f.Replicas.Value[0].Templates["mesh"] = "abc"
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Gone: true}}
	}, OK, "leave the admission policy required-mesh.pillion.dev as it is", ""},
	{"crd", "not established", func(t *testing.T, f *Facts) { f.CRD.Value = definition(t, "sidecartemplates", "False", "v1alpha1") }, Failed, "names clash", "kubectl get crd"},
	{"crd", "other versions", func(t *testing.T, f *Facts) { f.CRD.Value = definition(t, "sidecartemplates", "True", "v1") }, Failed, "serves v1", "| kubectl replace -f -"},
	{"crd", "two stored versions", func(_ *testing.T, f *Facts) { f.CRD.Value.Status.StoredVersions = []string{"v1alpha1", "v1"} }, Warning, "v1alpha1, v1", `kubectl patch crd sidecartemplates.pillion.dev --subresource=status --type=merge -p '{"status":{"storedVersions":["v1alpha1"]}}'`},
	{"crd", "not read", func(_ *testing.T, f *Facts) { f.Settings.Value.ClusterTemplates = false }, Skipped, "clusterTemplates=false", ""},
	{"templates", "broken", func(_ *testing.T, f *Facts) {
		f.Templates.Value = templates.NewSet(append(f.Templates.Value.All(), templates.Entry{Name: "bad", Err: errors.New("line 3: x")}))
	}, Failed, "template bad has a mistake", "pillion lint bad.yaml"},
	{"templates", "an old version in force", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Broken = []string{"gone"} }, Warning, "older version of the template gone", "kubectl get sidecartemplates.pillion.dev gone -o yaml"},
	{"policies", "mirrors not held", func(_ *testing.T, f *Facts) { f.Settings.Value.MirrorPolicy = "p-mirrors" }, Failed, "p-mirrors is missing", "helm"},
	{"templates", "differ", func(_ *testing.T, f *Facts) { f.Replicas.Value[0].Templates["fluent-bit"] = "def" }, Warning, "different versions of fluent-bit", "pillion status"},
	{"required-policies", "none, where there could be", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev"}}
	}, OK, "mesh has no admission policy: where Pillion is not called", "pillion policy mesh --cluster | kubectl apply -f -"},
	{"required-policies", "none, of a template of the chart", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", OfChart: true}}
	}, OK, "mesh has no admission policy: where Pillion is not called", "helm -n pillion-system upgrade pillion CHART --reset-then-reuse-values --set required.policy=true"},
	{"required-policies", "none, where there can be none", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", Impossible: "its matchConditions"}}
	}, OK, "can have none: its matchConditions", ""},
	{"required-policies", "as it should be", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Current: true, Bound: true}}
	}, OK, "to the required template mesh by the admission policy required-mesh.pillion.dev", ""},
	{"required-policies", "old", func(_ *testing.T, f *Facts) {
		f.Settings.Value.Namespace = "sidecars"
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Bound: true}}
	}, Failed, "is not as the template mesh is now", "pillion policy mesh --cluster --pillion-namespace sidecars | kubectl replace -f -"},
	{"required-policies", "old, of Helm", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Bound: true, ByHelm: true}}
	}, Failed, "is not as the template mesh is now", "helm -n pillion-system rollback pillion"},
	{"required-policies", "without a binding", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Current: true}}
	}, Warning, "no binding", "pillion policy mesh --cluster | kubectl apply -f -"},
	{"required-policies", "left behind", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Gone: true}}
	}, Failed, "its template mesh does not exist. Apply the template again", "kubectl apply -f SIDECARTEMPLATES"},
	{"required-policies", "of a template that can have none", func(_ *testing.T, f *Facts) {
		f.Floors.Value = []Floor{{Template: "mesh", Policy: "required-mesh.pillion.dev", There: true, Impossible: "it is suspended"}}
	}, Failed, "there should be none: it is suspended", "kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found required-mesh.pillion.dev"},
	{"template-names", "misspelt", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "daprd,fluentbit"))
	}, Failed, "names fluentbit", "kubectl annotate namespace a pillion.dev/inject=daprd,fluent-bit --overwrite"},
	{"template-names", "one misspelt, one like nothing", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "something-else,daprd,fluentbit"))
	}, Failed, "names something-else, fluentbit", "kubectl annotate namespace a pillion.dev/inject=TEMPLATE,daprd,fluent-bit --overwrite"},
	{"template-names", "nothing like it", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "something-else"))
	}, Failed, "names something-else", "kubectl annotate namespace a pillion.dev/inject=TEMPLATE --overwrite"},
	{"template-names", "cannot be read", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "+fluent-bit"))
	}, Failed, `is "+fluent-bit", so its pods are refused`, "kubectl annotate namespace a pillion.dev/inject=fluent-bit --overwrite"},
	{"template-names", "nothing that is a name", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "Yes!"))
	}, Failed, "so its pods are refused", "kubectl annotate namespace a pillion.dev/inject=TEMPLATE --overwrite"},
	{"template-names", "many", func(_ *testing.T, f *Facts) {
		for i := range 9 {
			f.Namespaces.Value = append(f.Namespaces.Value, namespace(fmt.Sprint("n", i), "enabled", "none-such"))
		}
	}, Failed, "and 4 more", ""},
	{"labels", "taken", func(_ *testing.T, f *Facts) { delete(f.Namespaces.Value[0].Labels, "pillion.dev/injection") }, Failed, "these namespaces (shop) ask for sidecars and lack the label", "kubectl auth can-i patch namespaces --as=system:serviceaccount:pillion-system:pillion"},
	{"labels", "not enforced", func(_ *testing.T, f *Facts) { f.Namespaces.Value[0].Labels["pillion.dev/injection"] = "enabled" }, Warning, "these namespaces (shop) are not enforced although Pillion has proven itself", "kubectl get events -n shop --field-selector reason=LabelNotWritten"},
	{"labels", "excluded", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("kube-system", "", "fluent-bit"))
	}, Warning, "kube-system asks for sidecars, but Pillion excludes it", "kubectl annotate namespace kube-system pillion.dev/inject-"},
	{"labels-by-hand", "disabled", func(_ *testing.T, f *Facts) { f.Namespaces.Value[0].Labels["pillion.dev/injection"] = "disabled" }, Warning, "keeps Pillion away", "kubectl label namespace shop pillion.dev/injection-"},
	{"labels-by-hand", "enabled", func(_ *testing.T, f *Facts) {
		ns := &f.Namespaces.Value[0]
		ns.Labels["pillion.dev/injection"], ns.ByHand = "enabled", []string{"pillion.dev/injection"}
	}, Warning, "never enforces", "kubectl label namespace shop pillion.dev/injection-"},
	{"labels-by-hand", "in Pillion's name", func(_ *testing.T, f *Facts) { f.Namespaces.Value[0].Forged = []string{"pillion.dev/injection"} }, Failed, "as the field manager pillion.dev, which is Pillion's name", "kubectl label namespace shop pillion.dev/injection-"},
	{"labels-by-hand", "nonsense", func(_ *testing.T, f *Facts) { f.Namespaces.Value[1].Labels["pillion.dev/injection"] = "true" }, Warning, "is not recognised", "kubectl label namespace quiet pillion.dev/injection-"},
	{"injectors", "a mesh twice", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("istio-sidecar-injector-1-30", admissionv1.Ignore))
		ns := namespace("mesh", "enabled", "istio-proxy")
		ns.Labels["istio-injection"] = "enabled"
		f.Namespaces.Value = append(f.Namespaces.Value, ns)
	}, Failed, "asks Istio for the same", "kubectl label namespace mesh istio-injection- istio.io/rev-"},
	{"injectors", "the label without its injector", func(_ *testing.T, f *Facts) {
		ns := namespace("mesh", "enabled", "istio-proxy")
		ns.Labels["istio-injection"] = "enabled"
		f.Namespaces.Value = append(f.Namespaces.Value, ns)
	}, OK, "", ""},
	{"injectors", "beside each other", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("istio-sidecar-injector", admissionv1.Ignore))
		f.Namespaces.Value[0].Labels["istio-injection"] = "enabled"
	}, OK, "", ""},
	{"injectors", "by pods", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("dapr-sidecar-injector", admissionv1.Ignore))
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("d", "enabled", "daprd"))
	}, Warning, "for pods with dapr.io/enabled", "kubectl -n d get pods"},
	{"autoscalers", "of all containers", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("vpa-webhook-config", admissionv1.Ignore))
		f.Autoscalers.Value = []Autoscaler{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "quiet", Name: "x"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "off"}}}
		f.Autoscalers.Value[2].Spec.ResourcePolicy.ContainerPolicies = []ContainerPolicy{{"*", "Off"}}
	}, Warning, "VerticalPodAutoscaler web in namespace shop", "kubectl -n shop edit vpa web"},
	{"order", "another one after Pillion", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("zz-registry", admissionv1.Ignore), foreign("a-registry", admissionv1.Ignore))
	}, OK, "mutatingwebhookconfiguration/zz-registry is called after Pillion for the pods of shop:", ""},
	{"webhooks", "another's with Fail", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("strict", admissionv1.Fail))
	}, Warning, "Pillion's pods cannot start", "kubectl edit mutatingwebhookconfiguration strict"},
	{"webhooks", "another's with Ignore", func(_ *testing.T, f *Facts) {
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("mild", admissionv1.Ignore))
	}, OK, "", ""},
	{"webhooks", "another's for other pods", func(_ *testing.T, f *Facts) {
		other := foreign("strict", admissionv1.Fail)
		other.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		f.Webhooks.Value = append(f.Webhooks.Value, other)
	}, OK, "", ""},
	{"labels-by-hand", "the label alone, as for another injector", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value[1].Labels["pillion.dev/injection"] = "enabled"
		f.Namespaces.Value[1].ByHand = []string{"pillion.dev/injection"}
	}, Warning, "namespace quiet has the label pillion.dev/injection=enabled by hand, which asks for no sidecar", "kubectl annotate namespace quiet pillion.dev/inject=TEMPLATE"},
	{"labels-by-hand", "the label, and a template selects the namespace", func(t *testing.T, f *Facts) {
		f.Templates.Value = templates.NewSet(append(f.Templates.Value.All(), matching(t)))
		f.Namespaces.Value[1].Labels["pillion.dev/injection"] = "enabled"
		f.Namespaces.Value[1].ByHand = []string{"pillion.dev/injection"}
	}, OK, "", ""},
	{"labels-by-hand", "the proof namespace has a label from the chart", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value[3].ByHand = []string{"pillion.dev/injection"}
	}, OK, "", ""},
	{"dependence", "a namespace that did not ask is enforced", func(_ *testing.T, f *Facts) {
		f.Namespaces.Value = append(f.Namespaces.Value, namespace("default", "enforced", ""))
	}, OK, "While Pillion does not answer, new pods there are refused", ""},
	{"webhooks", "Pillion's own", func(_ *testing.T, f *Facts) { f.Webhooks.Value[3].NamespaceSelector = &metav1.LabelSelector{} }, Failed, "called for Pillion's own pods", "kubectl replace -f -"},
}

func TestEveryFaultIsFoundWithItsRemedy(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range faults {
		covered[c.check] = true
		t.Run(c.check+" "+c.fault, func(t *testing.T) {
			f := sound(t)
			c.damage(t, f)
			o := find(t, Run(All(), f), c.check)
			if o.Result != c.want || !strings.Contains(o.text(), c.says) || !strings.Contains(o.text(), c.remedy) {
				t.Errorf("%s:\n%s\nwant %s, %q and the command %q", o.Result, o.text(), c.want, c.says, c.remedy)
			}
		})
	}
	for _, c := range All() {
		if name := c.Name; !covered[name] {
			t.Errorf("no fault of the check %s is in the table", name)
		}
	}
}

func TestCheckSaysWhatDependsOnPillionAndByWhichTemplate(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(f *Facts)
		want   string
	}{
		{"a namespace asks", func(*Facts) {}, "ok: enforced: shop (namespaces: 1, pods: 7). While Pillion does not answer, new pods there are refused"},
		{"nothing", func(f *Facts) { f.Namespaces.Value = nil }, "ok: no namespace depends on Pillion"},
		{"a template matches everything", func(f *Facts) {
			f.Templates.Value = templates.NewSet(append(f.Templates.Value.All(), matching(t)))
			f.Namespaces.Value = append(f.Namespaces.Value, namespace("default", "enabled", ""), namespace("kube-system", "enabled", ""), namespace("quiet", "disabled", ""))
			f.Pods.Value["default"] = 3
		}, "ok: enforced: shop (namespaces: 1, pods: 7). While Pillion does not answer, new pods there are refused\n" +
			"ok: enabled: default (namespaces: 1, pods: 3). While Pillion does not answer, new pods there are created without their sidecars\n" +
			"ok: the match of template everywhere selects namespaces that did not ask for sidecars: default (namespaces: 1)"},
		{"every pod passes", func(f *Facts) { f.Settings.Value.All = true }, "ok: enforced: shop (namespaces: 1, pods: 7). While Pillion does not answer, new pods there are refused\n" +
			"ok: enabled: quiet (namespaces: 1, pods: 0). While Pillion does not answer, new pods there are created without their sidecars"},
	} {
		f := sound(t)
		c.change(f)
		if got := find(t, Run(All(), f), "dependence").text(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.why, got, c.want)
		}
	}
}

// matching is a template that selects all pods.
func matching(t *testing.T) templates.Entry {
	t.Helper()
	compiled := templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: everywhere}, spec: {match: {podSelector: {}}, inject: {metadata: {labels: {a: b}}}}}`)
	return templates.Entry{Name: "everywhere", Template: compiled}
}

// Whatever is wrong, no check ends other than well without a word and a command, and nothing
// panics: facts that are not known do not stop the others.
func TestWhatIsNotWellSaysSoAndNamesACommand(t *testing.T) {
	for _, c := range faults {
		f := sound(t)
		c.damage(t, f)
		for _, o := range Run(All(), f).Outcomes {
			remedies := 0
			for _, finding := range o.Findings {
				remedies += len(finding.Remedy)
				if finding.Says == "" || strings.Contains(finding.Says, "\n") {
					t.Errorf("%s %s: %q", c.check, c.fault, finding.Says)
				}
			}
			if (o.Result == Failed || o.Result == Warning) && remedies == 0 {
				t.Errorf("%s %s: no command for\n%s", c.check, c.fault, o.text())
			}
		}
	}
}

// readings are the fields of [Facts] that hold what was read, or the error.
func readings() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Facts]()), func(f reflect.StructField) bool {
		return len(f.Index) > 1 || f.Type.Kind() != reflect.Struct || f.Type.NumField() != 2 || f.Type.Field(1).Name != "Err"
	})
}

// What could not be read for another reason than a right fails, with a command, too; what cannot
// be told without it is skipped.
func TestWhatCannotBeReadFailsWithACommand(t *testing.T) {
	for _, field := range readings() {
		f := sound(t)
		f.Webhooks.Value = append(f.Webhooks.Value, foreign("vpa-webhook-config", admissionv1.Ignore))
		reflect.ValueOf(f).Elem().FieldByIndex(field.Index).Field(1).Set(reflect.ValueOf(errors.New("the server was unable to return a response\nin the time allotted")))
		r := Run(All(), f)
		if r.Count(Failed) == 0 {
			t.Errorf("without %s nothing fails", field.Name)
		}
		for _, o := range r.Outcomes {
			if o.Result == Failed && (len(o.Findings[0].Remedy) == 0 || strings.Contains(o.Findings[0].Says, "\n")) {
				t.Errorf("%s without %s: %+v", o.Name, field.Name, o.Findings)
			}
			if strings.Contains(o.text(), "was not found") {
				t.Errorf("%s without %s: %s", o.Name, field.Name, o.text())
			}
		}
	}
}

// A command that is cut, or that is about another installation, does harm where it is pasted.
func TestCommandsAreWholeAndAboutThisInstallation(t *testing.T) {
	f := sound(t)
	f.Settings.Value.Namespace, f.Settings.Value.Prefix = "sidecars", "sidecars.example.com"
	var names []string
	var entries []templates.Entry
	for i := range 12 {
		names = append(names, fmt.Sprintf("a-template-with-a-rather-long-name-as-teams-write-them-%d", i))
		entries = append(entries, template(t, names[i]))
	}
	f.Templates.Value = templates.NewSet(append(entries, templates.Entry{Name: "bad", Err: errors.New("x")}))
	f.Namespaces.Value = append(f.Namespaces.Value, labels.Namespace{Namespace: templates.Namespace{Name: "web", Annotations: map[string]string{"sidecars.example.com/inject": strings.Join(names, ",") + ",none-such"}}})
	f.Replicas.Value[0].Certificates.Ends, f.Replicas.Value[0].EnforcementProven = new(now.Add(time.Hour)), new(false)
	var out strings.Builder
	if err := Write(&out, Run(All(), f), false, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  kubectl annotate namespace web sidecars.example.com/inject=" + strings.Join(names, ",") + ",TEMPLATE --overwrite\n",
		"  kubectl get sidecartemplates.sidecars.example.com bad -o yaml > bad.yaml\n", "  pillion lint bad.yaml --annotation-prefix sidecars.example.com\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestAReplicaThatDoesNotAnswerIsNotFoundSound(t *testing.T) {
	f := sound(t)
	f.Replicas.Value = []state.Replica{{Name: "a", Missing: "no answer"}, {Name: "b", Missing: "no answer"}}
	r := Run(All(), f)
	for _, name := range []string{"versions", "caches", "ca-bundles", "certificates", "proof"} {
		if o := find(t, r, name); o.Result != Skipped || !strings.Contains(o.text(), "no replica answers") {
			t.Errorf("%s: %s %s", name, o.Result, o.text())
		}
	}
}

// A user without a right is told once how to get it, not by each check that needs it.
func TestTheSameCommandsStandOnce(t *testing.T) {
	f := sound(t)
	f.Settings.Err = &rights.MissingError{Right: rights.Right{Verb: "list", Group: "apps", Resource: "deployments", Namespace: "pillion-system"}, User: "jane", Err: errors.New("forbidden")}
	var out strings.Builder
	if err := Write(&out, Run(All(), f), false, false); err != nil || strings.Count(out.String(), "create rolebinding") != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A right that the user lacks fails nothing: it is named, with the commands that grant it.
func TestAMissingRightSkipsAndFailsNothing(t *testing.T) {
	for _, field := range readings() {
		f := sound(t)
		if field.Name == "Autoscalers" {
			f.Webhooks.Value = append(f.Webhooks.Value, foreign("vpa-webhook-config", admissionv1.Ignore))
		}
		lacking := &rights.MissingError{Right: rights.Right{Verb: "list", Resource: "things"}, User: "jane", Err: errors.New("forbidden")}
		reflect.ValueOf(f).Elem().FieldByIndex(field.Index).Field(1).Set(reflect.ValueOf(fmt.Errorf("reading: %w", lacking)))
		r := Run(All(), f)
		if r.Count(Failed) > 0 || r.Count(Skipped) == 0 || r.Judged() || r.Sound(false) || r.Sound(true) {
			t.Errorf("without the right to read %s: %d failed, %d skipped, judged %v, sound %v", field.Name, r.Count(Failed), r.Count(Skipped), r.Judged(), r.Sound(false))
		}
		var text strings.Builder
		if err := Write(&text, r, false, false); err != nil || strings.Contains(text.String(), "The installation is") || !strings.Contains(text.String(), "\nIt is not known whether the installation is sound without the rights above: ") {
			t.Errorf("without the right to read %s: %v\n%s", field.Name, err, &text)
		}
		for _, o := range r.Outcomes {
			if o.Result == Skipped && !strings.Contains(o.text(), "you lack the right to list things in all namespaces") || o.Result == Skipped && !strings.Contains(o.text(), "--user=jane") {
				t.Errorf("%s without %s: %s", o.Name, field.Name, o.text())
			}
		}
	}
}

// What a server is not told to do it needs no right for.
func TestWithoutTheRightToReadNamespacesOwnTemplatesNoNameIsCalledUnknown(t *testing.T) {
	f := sound(t)
	f.OwnUnread = &rights.MissingError{Right: rights.Right{Group: "pillion.dev", Resource: "namespacedsidecartemplates", Verb: "list"}}
	f.Namespaces.Value = append(f.Namespaces.Value, namespace("a", "enabled", "daprd"))
	if o := find(t, Run(All(), f), "template-names"); o.Result != OK {
		t.Errorf("names of the cluster's templates: %s", o.text())
	}
	f.Namespaces.Value = append(f.Namespaces.Value, namespace("b", "enabled", "team"))
	if o := find(t, Run(All(), f), "template-names"); o.Result != Skipped || !strings.Contains(o.text(), "namespacedsidecartemplates") {
		t.Errorf("%s: %s", o.Result, o.text())
	}
}

func TestTheRightsThatAServerNeedsFollowFromItsSettings(t *testing.T) {
	text := func(n Needs) string {
		n.Namespace, n.Prefix = "own", "pillion.dev"
		var all []string
		for _, r := range ServerRights(n) {
			all = append(all, r.String())
		}
		return strings.Join(all, "\n")
	}
	least := text(Needs{Settings: Settings{Provider: "files"}})
	if want := "create events.events.k8s.io in all namespaces\nget namespaces in all namespaces\nlist namespaces in all namespaces\npatch namespaces in all namespaces\nwatch namespaces in all namespaces"; least != want {
		t.Errorf("the least rights are\n%s", least)
	}
	for _, c := range []struct {
		needs Needs
		want  string
	}{
		{Needs{Settings: Settings{Provider: "self-signed"}, CASecret: "ca"}, "update secrets ca in namespace own"},
		{Needs{Settings: Settings{Provider: "self-signed"}, CreateCASecret: true}, "create secrets in namespace own"},
		{Needs{Settings: Settings{Provider: "cert-manager"}, ServingSecret: "s"}, "watch secrets s in namespace own"},
		{Needs{Settings: Settings{Publishes: true, Mutating: []string{"m"}}}, "patch mutatingwebhookconfigurations.admissionregistration.k8s.io m"},
		{Needs{Settings: Settings{Validating: []string{"v"}}}, "watch validatingwebhookconfigurations.admissionregistration.k8s.io v"},
		{Needs{Settings: Settings{ProofNamespace: "proof"}}, "create pods in namespace proof"},
		{Needs{Settings: Settings{ClusterTemplates: true}}, "patch sidecartemplates.pillion.dev/status in all namespaces"},
		{Needs{Settings: Settings{MirrorPolicy: "p"}}, "get validatingadmissionpolicies.admissionregistration.k8s.io p"},
		{Needs{PreviewLimits: true}, "list resourcequotas in all namespaces"},
		{Needs{CountEvery: time.Minute}, "list pods in all namespaces"},
		{Needs{ReadWorkloads: true}, "list cronjobs.batch in all namespaces"},
		{Needs{OwnerEvents: true}, "get cronjobs.batch in all namespaces"},
		{Needs{InUse: "u"}, "update configmaps u in namespace own"},
		{Needs{UninstallMarker: "m"}, "watch configmaps m in namespace own"},
	} {
		if got := text(c.needs); !strings.Contains(got, c.want) || strings.Contains(least, c.want) {
			t.Errorf("%+v needs\n%s\nwant %s", c.needs, got, c.want)
		}
	}
}

func TestWithoutAnAPIServerNothingElseIsJudged(t *testing.T) {
	r := Run(All(), &Facts{Kubernetes: Known[templates.KubernetesVersion]{Err: errors.New("refused")}})
	if len(r.Outcomes) != 1 || r.Sound(false) {
		t.Errorf("%+v", r)
	}
}

func TestWithoutADeploymentTheOthersAreSkipped(t *testing.T) {
	f := sound(t)
	f.Settings.Err = ErrAbsent
	r := Run(All(), f)
	if r.Count(Failed) != 1 || r.Count(Skipped) < 15 {
		t.Errorf("%d failed, %d skipped", r.Count(Failed), r.Count(Skipped))
	}
	var out strings.Builder
	if err := Write(&out, r, false, false); err != nil || strings.Count(out.String(), "  skipped ") != 6 ||
		!strings.Contains(out.String(), "  skipped release, service, replicas, versions, caches, disruption, network: not\n          looked at: Pillion's Deployment was not found\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

package check

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/webhook/state"
)

//go:embed testdata/rendered.yaml
var rendered string

//go:embed testdata/sound.yaml
var sound string

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// aCA is a certificate in PEM that ends then, as JSON has a caBundle.
func aCA(end time.Time) string {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-365 * 24 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	raw, _ := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

var lastingCA = aCA(now.Add(300 * 24 * time.Hour))

// ground is a cluster with an installation, before it is read.
type ground struct {
	t *testing.T
	// objects are by kind, namespace and name.
	objects map[string]map[string]any
	served  settings.Settings
	place   inspect.Place
	states  map[string]*state.State // by replica
	unready map[string]string
	// created is the API server's answer to a pod, whose sidecar is the proof's.
	created   func(pod *unstructured.Unstructured) error
	forbidden []string
	version   func() ([]byte, error)
}

// soundGround is a sound installation.
func soundGround(t *testing.T) *ground {
	text := strings.ReplaceAll(rendered, "LONG", strings.Repeat("object.metadata.name != 'x' && ", 20))
	g := &ground{t: t, objects: map[string]map[string]any{}, unready: map[string]string{}, states: map[string]*state.State{}, place: inspect.Place{Namespace: "pillion-system"}}
	g.add(sound)
	g.add(text)
	for _, name := range []string{"MutatingWebhookConfiguration//pillion", "ValidatingWebhookConfiguration//pillion"} {
		for _, item := range g.objects[name]["webhooks"].([]any) { // what API servers and Pillion add
			entry := item.(map[string]any)
			entry["matchPolicy"], entry["reinvocationPolicy"] = "Equivalent", "Never"
			entry["clientConfig"].(map[string]any)["caBundle"] = lastingCA
			entry["rules"].([]any)[0].(map[string]any)["scope"] = "*"
		}
	}
	// rendered.yaml says the scope of some rules; the API server leaves it.
	for _, at := range [][2]any{{"MutatingWebhookConfiguration//pillion", 1}, {"ValidatingWebhookConfiguration//pillion", 0}} {
		g.entry(at[0].(string), at[1].(int))["rules"].([]any)[0].(map[string]any)["scope"] = "Namespaced"
	}
	service := g.objects["Service/pillion-system/pillion"]["spec"].(map[string]any)
	service["clusterIP"], service["type"] = "10.0.0.7", "ClusterIP"
	g.objects["ConfigMap/pillion-system/pillion-rendered"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "pillion-rendered", "namespace": "pillion-system"}, "data": map[string]any{"objects.yaml": text}}
	var err error
	if g.served, err = settings.Parse([]byte("{server: {namespace: pillion-system}, templates: {namespaced: true}, namespaces: {excluded: [kube-system], enforcement: Asked, proof: pillion-system-proof}, certificates: {leafDuration: 24h}}")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		g.states[name] = &state.State{
			Version: "1", Templates: map[string]string{"fluent-bit": "abc", "mesh": "abc"}, CacheAgeSeconds: map[string]float64{"templates": 1}, EnforcementProven: new(true),
			Certificates: state.Certificates{Ends: new(now.Add(20 * time.Hour)), Published: []state.Published{{Kind: "MutatingWebhookConfiguration", Name: "pillion", Verifies: true}}},
		}
	}
	g.created = func(pod *unstructured.Unstructured) error {
		pod.SetAnnotations(map[string]string{"pillion.dev/status": "{}"})
		return unstructured.SetNestedSlice(pod.Object, []any{map[string]any{"name": proof.Template}}, "spec", "initContainers")
	}
	g.version = func() ([]byte, error) { return []byte(`{"major": "1", "minor": "37+"}`), nil }
	return g
}

// add adds the objects of manifests, or has them take the places of others.
func (g *ground) add(manifests string) {
	for document := range strings.SplitSeq(manifests, "\n---") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			g.t.Fatal(err)
		}
		u := unstructured.Unstructured{Object: o}
		g.objects[u.GetKind()+"/"+u.GetNamespace()+"/"+u.GetName()] = o
	}
}

// entry is one of a webhook configuration.
func (g *ground) entry(configuration string, i int) map[string]any {
	return g.objects[configuration]["webhooks"].([]any)[i].(map[string]any)
}

// set sets a field of an object, a path whose parts are divided by dots.
func (g *ground) set(object, path string, value any) {
	var parsed any
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(text, &parsed) != nil {
		g.t.Fatal(err)
	}
	if err := unstructured.SetNestedField(g.objects[object], parsed, strings.Split(path, ".")...); err != nil {
		g.t.Fatal(err)
	}
}

func (g *ground) cluster() *inspect.Cluster {
	if m := g.objects["ConfigMap/pillion-system/pillion"]; m != nil {
		text, err := json.Marshal(g.served)
		if err != nil {
			g.t.Fatal(err)
		}
		m["data"] = map[string]any{settings.File: string(text)}
	}
	var all []string
	for _, o := range g.objects {
		text, err := json.Marshal(o)
		if err != nil {
			g.t.Fatal(err)
		}
		all = append(all, string(text))
	}
	c := inspecttest.Cluster(g.t, strings.Join(all, "\n---\n"), inspecttest.Options{Place: g.place, Forbidden: g.forbidden})
	c.Version = func(context.Context) ([]byte, error) { return g.version() }
	c.Objects.(*dynamicfake.FakeDynamicClient).PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains(g.forbidden, "create pods "+a.GetNamespace()) {
			return false, nil, nil
		}
		pod := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		return true, pod, g.created(pod)
	})
	c.Proxy = func(_ context.Context, pod string, _ int, path string) ([]byte, error) {
		if why := g.unready[pod]; why != "" && path == "/readyz" {
			return []byte("not ready:\n" + why), errors.New("503")
		}
		if g.states[pod] == nil {
			return nil, errors.New("no answer")
		}
		return json.Marshal(g.states[pod])
	}
	return c
}

func (g *ground) run() Report { return Run(g.t.Context(), g.cluster(), "1", now) }

func TestASoundInstallationIsSound(t *testing.T) {
	r := soundGround(t).run()
	for _, o := range r.Outcomes {
		if o.Result != OK || len(o.Findings) > 0 {
			t.Errorf("%s is %s: %+v", o.Name, o.Result, o.Findings)
		}
	}
	if !r.IsSound(true) || len(r.Outcomes) != len(All()) {
		t.Errorf("%d of %d checks; sound: %t", len(r.Outcomes), len(All()), r.IsSound(true))
	}
}

const (
	mutating   = "MutatingWebhookConfiguration//pillion"
	validating = "ValidatingWebhookConfiguration//pillion"
	deployed   = "Deployment/pillion-system/pillion"
	configured = "ConfigMap/pillion-system/pillion"
	rollback   = "helm -n pillion-system rollback pillion $(helm -n pillion-system history pillion --max 1 | awk 'END {print $1}')"
	replaced   = "kubectl -n pillion-system get configmap pillion-rendered -o jsonpath='{.data.objects\\.yaml}' | kubectl create -f - -l app.kubernetes.io/component=registration --dry-run=client -o json | sed "
	logged     = "kubectl -n pillion-system logs -l app.kubernetes.io/instance=pillion"
)

// without deletes an object.
func without(names ...string) func(g *ground) {
	return func(g *ground) {
		for _, name := range names {
			delete(g.objects, name)
		}
	}
}

// asks adds a namespace with a value of its annotation, and its label.
func asks(name, value, label string) func(g *ground) {
	return func(g *ground) {
		g.add(strings.NewReplacer("NAME", name, "VALUE", value, "LABEL", label).Replace(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {kubernetes.io/metadata.name: NAME, pillion.dev/injection: LABEL}, annotations: {pillion.dev/inject: "VALUE"},
			managedFields: [{manager: pillion.dev, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:pillion.dev/injection": {}}}}}]}}`))
	}
}

// byHand adds a namespace whose label a hand set.
func byHand(name, annotations, label string) func(g *ground) {
	return func(g *ground) {
		g.add(strings.NewReplacer("NAME", name, "ANNOTATIONS", annotations, "LABEL", label).Replace(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {kubernetes.io/metadata.name: NAME, pillion.dev/injection: "LABEL"}, annotations: {ANNOTATIONS},
			managedFields: [{manager: kubectl, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:pillion.dev/injection": {}}}}}]}}`))
	}
}

var notFound = apierrors.NewNotFound(corev1.Resource("namespaces"), "pillion-system-proof")

// faults are damages to a sound installation: each makes one check find something.
var faults = []struct {
	check, fault string
	damage       func(g *ground)
	result       Result
	// says is part of a finding's message, and remedy the beginning of its remedy.
	says, remedy string
}{
	{"api-server", "no answer", func(g *ground) { g.version = func() ([]byte, error) { return nil, errors.New("connection refused") } }, Failed, "does not answer: connection refused", "kubectl cluster-info"},
	{"api-server", "credentials that have ended", func(g *ground) {
		g.version = func() ([]byte, error) { return nil, apierrors.NewUnauthorized("Unauthorized") }
	}, Failed, "does not accept your credentials", "kubectl config view --minify"},
	{"api-server", "too old", func(g *ground) {
		g.version = func() ([]byte, error) { return []byte(`{"major": "1", "minor": "28"}`), nil }
	}, Failed, "of version 1.28; Pillion supports 1.35 and later", "kubectl version"},
	{"deployment", "no settings", without(configured), Failed, "0 in namespace pillion-system have the labels", "kubectl get deployments -A -l app.kubernetes.io/name=pillion"},
	{"deployment", "absent", without(deployed), Failed, "there is no Deployment pillion", rollback},
	{"deployment", "scaled to nothing", func(g *ground) { g.set(deployed, "spec.replicas", 0) }, Failed, "wants no replica", "kubectl -n pillion-system scale deployment pillion --replicas=2"},
	{"deployment", "none available", func(g *ground) { g.set(deployed, "status.availableReplicas", 0) }, Failed, "none of the 2 replicas", "kubectl -n pillion-system describe pods -l app.kubernetes.io/instance=pillion"},
	{"deployment", "one of two available", func(g *ground) { g.set(deployed, "status.availableReplicas", 1) }, Warning, "1 of 2 replicas", "kubectl -n pillion-system describe pods"},
	{"deployment", "in the middle of an upgrade", func(g *ground) { g.set(deployed, "status.updatedReplicas", 1) }, Warning, "newest version", "kubectl -n pillion-system rollout status deployment pillion"},
	{"deployment", "one replica", func(g *ground) { g.set(deployed, "spec.replicas", 1) }, Warning, "one replica", "kubectl -n pillion-system scale deployment pillion --replicas=2"},
	{"replicas", "none", without("Pod/pillion-system/a", "Pod/pillion-system/b"), Failed, "no pod of Pillion runs", "kubectl -n pillion-system describe pods"},
	{"replicas", "not ready", func(g *ground) { g.unready["a"] = "certificates: no CA" }, Failed, "replica a is not ready: certificates: no CA", logged},
	{"replicas", "no answer", func(g *ground) { g.states["b"] = nil }, Failed, "replica b ", logged},
	{"replicas", "failing", func(g *ground) { g.states["a"].Certificates.Problems = []string{"publish: x"} }, Failed, "replica a fails at publish: x", logged},
	{"replicas", "old data", func(g *ground) { g.states["a"].CacheAgeSeconds["templates"] = 150 }, Warning, "replica a last had a current cache of templates 2m30s ago", logged},
	{"replicas", "two versions", func(g *ground) { g.states["a"].Version = "2" }, Warning, "replicas of version 2, and this pillion is 1", "kubectl -n pillion-system get deployments"},
	{"account", "deleted", without("ServiceAccount/pillion-system/pillion"), Failed, "pillion-system:pillion is missing", rollback},
	{"account", "made again", func(g *ground) {
		g.set("ServiceAccount/pillion-system/pillion", "metadata.creationTimestamp", "2026-06-01T11:30:00Z")
	}, Failed, "created again at 2026-06-01T11:30:00Z: the token of replica a", "kubectl -n pillion-system rollout restart deployment/pillion"},
	{"rights", "rules taken", func(g *ground) { g.set("ClusterRole//pillion", "rules", []any{}) }, Failed, "clusterrole/pillion: it has rules [], and the chart renders [{", rollback},
	{"rights", "one taken", func(g *ground) {
		g.objects["ClusterRole//pillion"]["rules"].([]any)[0].(map[string]any)["verbs"] = []any{"get", "list", "watch"}
	}, Failed, `clusterrole/pillion: it has rules[0].verbs ["get","list","watch"], and the chart renders ["get","list","watch","patch"]`, rollback},
	{"rights", "not bound", without("RoleBinding/pillion-system/pillion"), Failed, "there is no rolebinding/pillion", rollback},
	{"policies", "one missing", without("ValidatingAdmissionPolicy//pillion-labels"), Failed, "there is no validatingadmissionpolicy/pillion-labels", rollback},
	{"policies", "one that warns", func(g *ground) {
		g.set("ValidatingAdmissionPolicyBinding//pillion-labels", "spec.validationActions", []string{"Warn"})
	}, Failed, `validatingadmissionpolicybinding/pillion-labels: it has spec.validationActions[0] "Warn", and the chart renders "Deny"`, replaced},
	{"policies", "a condition added", func(g *ground) {
		g.set("ValidatingAdmissionPolicy//pillion-labels", "spec.matchConditions", []any{map[string]any{"name": "never", "expression": "false"}})
	}, Failed, `it has spec.matchConditions [{"expression":"false","name":"never"}], and the chart renders none`, replaced},
	{"policies", "the end of a long expression changed", func(g *ground) {
		v := g.objects["ValidatingAdmissionPolicy//pillion-labels"]["spec"].(map[string]any)["validations"].([]any)[0].(map[string]any)
		v["expression"] = strings.TrimSuffix(v["expression"].(string), "true") + "false"
	}, Failed, `&&  false", and the chart renders`, replaced},
	{"crds", "missing", without("CustomResourceDefinition//sidecartemplates.pillion.dev"), Failed, "there is no CustomResourceDefinition sidecartemplates.pillion.dev", applyDefinitions},
	{"crds", "that of namespaces is missing", without("CustomResourceDefinition//namespacedsidecartemplates.pillion.dev"), Failed, "there is no CustomResourceDefinition namespacedsidecartemplates.pillion.dev", applyDefinitions},
	{"crds", "not established", func(g *ground) {
		g.set("CustomResourceDefinition//sidecartemplates.pillion.dev", "status.conditions", []any{map[string]any{"type": "Established", "status": "False", "message": "names clash"}})
	}, Failed, "names clash", "kubectl get crd sidecartemplates.pillion.dev -o yaml"},
	{"crds", "another version served", func(g *ground) {
		g.set("CustomResourceDefinition//sidecartemplates.pillion.dev", "spec.versions", []any{map[string]any{"name": "v1", "served": true}})
	}, Failed, "serves v1, and this pillion reads v1alpha1", applyDefinitions},
	{"registration", "a configuration missing", without(mutating), Failed, "there is no mutatingwebhookconfiguration/pillion", rollback},
	{"registration", "nothing to compare with", without("ConfigMap/pillion-system/pillion-rendered"), Failed, "the ConfigMap pillion-rendered is missing", rollback},
	{"registration", "an entry missing", func(g *ground) { g.objects[mutating]["webhooks"] = g.objects[mutating]["webhooks"].([]any)[:1] }, Failed, "mutatingwebhookconfiguration/pillion: entry enforced.pillion.dev is missing", replaced},
	{"registration", "an entry added", func(g *ground) {
		g.objects[mutating]["webhooks"] = append(g.objects[mutating]["webhooks"].([]any), map[string]any{"name": "more.example.com", "clientConfig": map[string]any{"url": "https://example.com"}})
	}, Failed, `entry more.example.com is not part of the chart: {"clientConfig":{"url":"https://example.com"}`, replaced},
	{"registration", "a URL in the Service's place", func(g *ground) {
		g.entry(mutating, 1)["clientConfig"] = map[string]any{"url": "https://example.com/"}
	}, Failed, `entry enforced.pillion.dev has clientConfig.url "https://example.com/", and the chart renders none`, replaced},
	{"registration", "failure policy", func(g *ground) { g.entry(mutating, 1)["failurePolicy"] = "Ignore" }, Failed, `entry enforced.pillion.dev has failurePolicy "Ignore", and the chart renders "Fail"`, replaced},
	{"registration", "a default that is none any more", func(g *ground) { g.entry(mutating, 0)["timeoutSeconds"] = 3 }, Failed, "entry namespaces.pillion.dev has timeoutSeconds 3, and the chart renders none", replaced},
	{"registration", "a condition added", func(g *ground) {
		g.entry(validating, 0)["matchConditions"] = []any{map[string]any{"name": "never", "expression": "false"}}
	}, Failed, `validatingwebhookconfiguration/pillion: entry required.pillion.dev has matchConditions [{`, replaced},
	{"registration", "another value in a selector", func(g *ground) {
		g.entry(mutating, 1)["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "pillion.dev/injection", "operator": "In", "values": []any{"x"}}}}
	}, Failed, `has namespaceSelector.matchExpressions[0].values[0] "x", and the chart renders "enforced"`, replaced},
	{"registration", "selects objects", func(g *ground) {
		g.entry(mutating, 1)["objectSelector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
	}, Failed, `has objectSelector.matchLabels {"a":"b"}, and the chart renders none`, replaced},
	{"registration", "the Service selects other pods", func(g *ground) {
		g.set("Service/pillion-system/pillion", "spec.selector", map[string]any{"app.kubernetes.io/name": "pillion", "color": "blue"})
	}, Failed, `service/pillion: it has spec.selector.color "blue", and the chart renders none`, replaced},
	{"registration", "the Service has another port", func(g *ground) {
		g.objects["Service/pillion-system/pillion"]["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["port"] = 444
	}, Failed, "it has spec.ports[webhook].port 444, and the chart renders 443", replaced},
	{"registration", "a copy of the configuration", func(g *ground) { g.copies("copy", false) }, Failed, "mutatingwebhookconfiguration/copy is not part of the chart, and its entry namespaces.pillion.dev calls Pillion", "kubectl delete mutatingwebhookconfiguration/copy"},
	{"registration", "a copy beside others' entries", func(g *ground) { g.copies("copy", true) }, Failed, "mutatingwebhookconfiguration/copy is not part of the chart", "kubectl edit mutatingwebhookconfiguration/copy"},
	{"certificates", "no caBundle", func(g *ground) {
		delete(g.entry(mutating, 1)["clientConfig"].(map[string]any), "caBundle")
	}, Failed, "entry enforced.pillion.dev has no certificate in its caBundle that is valid; Pillion restores it", logged},
	{"certificates", "expired, and cainjector writes it", func(g *ground) {
		g.served.Certificates.Provider = "cert-manager"
		g.entry(mutating, 1)["clientConfig"].(map[string]any)["caBundle"] = aCA(now.Add(-time.Hour))
	}, Failed, "that is valid; cert-manager's cainjector writes it", "kubectl -n cert-manager logs deployment/cert-manager-cainjector"},
	{"certificates", "of another CA", func(g *ground) { g.states["a"].Certificates.Published[0].Verifies = false }, Failed, "does not verify the certificate of replica a", logged},
	{"certificates", "over", func(g *ground) { g.states["a"].Certificates.Ends = new(now.Add(-time.Hour)) }, Failed, "ended at 2026-06-01T11:00:00Z", logged},
	{"certificates", "soon", func(g *ground) { g.states["a"].Certificates.Ends = new(now.Add(time.Hour)) }, Warning, "ends in 1h0m0s", logged},
	{"proof", "not injected", func(g *ground) { g.created = func(*unstructured.Unstructured) error { return nil } }, Failed, "came back without the sidecar pillion-proof", rollback},
	{"proof", "refused", func(g *ground) {
		g.created = func(*unstructured.Unstructured) error {
			return apierrors.NewInternalError(errors.New(`failed calling webhook "enforced.pillion.dev"`))
		}
	}, Failed, `the API server refuses a pod of namespace pillion-system-proof: Internal error occurred: failed calling webhook "enforced.pillion.dev"`, logged},
	{"proof", "no namespace", func(g *ground) { g.created = func(*unstructured.Unstructured) error { return notFound } }, Failed, "there is no proof namespace", rollback},
	{"proof", "a replica that has not proven itself", func(g *ground) { g.states["a"].EnforcementProven = new(false) }, Warning, "replica a has not yet proven", logged},
	{"proof", "nothing to prove", func(g *ground) { g.served.Namespaces.Proof = "" }, Skipped, "has no proof namespace", ""},
	{"templates", "a mistake", func(g *ground) { g.set("SidecarTemplate//fluent-bit", "spec.oder", 1) }, Failed, "template fluent-bit has a mistake: ", "kubectl get sidecartemplate fluent-bit -o yaml | pillion lint -"},
	{"templates", "not accepted", func(g *ground) {
		g.set("SidecarTemplate//fluent-bit", "status.conditions", []any{map[string]any{"type": "Accepted", "status": "False", "message": "64MB is no quantity"}})
	}, Failed, "template fluent-bit is not accepted: 64MB is no quantity", "kubectl get sidecartemplate fluent-bit -o yaml"},
	{"templates", "of a namespace, not accepted", func(g *ground) {
		g.set("NamespacedSidecarTemplate/team/team-logs", "status", map[string]any{"conditions": []any{map[string]any{"type": "Accepted", "status": "False", "message": "64MB is no quantity"}}})
	}, Failed, "template team/team-logs is not accepted: 64MB is no quantity", "kubectl -n team get namespacedsidecartemplate team-logs -o yaml"},
	{"templates", "in force without its object", func(g *ground) {
		g.states["a"].Templates["lost"], g.states["b"].Templates["lost"] = "abc", "abc"
	}, Warning, "the templates lost are in force, and their objects are gone", applyTemplates},
	{"templates", "differ", func(g *ground) { g.states["a"].Templates["fluent-bit"] = "def" }, Warning, "different versions of fluent-bit", "pillion status"},
	{"template-names", "misspelt", asks("web", "fluentbit", "enforced"), Failed, `namespace web names fluentbit, which does not exist`, "kubectl annotate namespace web pillion.dev/inject=fluent-bit --overwrite"},
	{"template-names", "one of another namespace", asks("web", "team-logs,fluent-bit", "enforced"), Failed, "namespace web names team-logs", "kubectl annotate namespace web pillion.dev/inject=TEMPLATE,fluent-bit --overwrite"},
	{"template-names", "no list of names", asks("web", "+fluent-bit", "enforced"), Failed, `the annotation pillion.dev/inject of namespace web is "+fluent-bit"`, "kubectl annotate namespace web pillion.dev/inject=TEMPLATE --overwrite"},
	{"template-names", "gone, and pods have its sidecar", func(g *ground) {
		asks("web", "fluentbit", "enforced")(g)
		g.add(`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: web, labels: {fluentbit.pillion.dev/hash: abc}}}`)
	}, Failed, "pods of it run with the sidecar of fluentbit. Apply the template again", applyTemplates},
	{"labels", "missing", func(g *ground) {
		g.add(`{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {kubernetes.io/metadata.name: web}, annotations: {pillion.dev/inject: fluent-bit}}}`)
	}, Failed, "these namespaces (web) lack the label pillion.dev/injection", "kubectl auth can-i patch namespaces --as=system:serviceaccount:pillion-system:pillion"},
	{"labels", "that of required templates is missing", func(g *ground) {
		g.add(`{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {kubernetes.io/metadata.name: web, mesh: "on", pillion.dev/injection: enforced}}}`)
	}, Failed, "these namespaces (web) lack the label pillion.dev/required", "kubectl auth can-i patch namespaces"},
	{"labels", "not enforced", asks("web", "fluent-bit", "enabled"), Warning, "these namespaces (web) are not enforced although", logged},
	{"labels", "in Pillion's name", func(g *ground) {
		g.add(`{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {kubernetes.io/metadata.name: web, pillion.dev/injection: enforced}, annotations: {pillion.dev/inject: fluent-bit}, managedFields: [{manager: pillion.dev, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:pillion.dev/injection": {}}}}}]}}`)
	}, Failed, "from somebody who wrote it as the field manager pillion.dev", "kubectl label namespace web pillion.dev/injection-"},
	{"labels", "an unknown value", byHand("web", "", "true"), Warning, "pillion.dev/injection=true, which is not recognised", "kubectl label namespace web pillion.dev/injection-"},
	{"labels", "switched off", byHand("web", "pillion.dev/inject: fluent-bit", "disabled"), Warning, "disabled keeps Pillion away", "kubectl label namespace web pillion.dev/injection-"},
	{"labels", "the label alone", byHand("web", "", "enabled"), Warning, "by hand, which requests no sidecar", "kubectl annotate namespace web pillion.dev/inject=TEMPLATE && kubectl label namespace web pillion.dev/injection-"},
	{"labels", "never enforced", byHand("web", "pillion.dev/inject: fluent-bit", "enabled"), Warning, "so Pillion never enforces there", "kubectl label namespace web pillion.dev/injection-"},
	{"labels", "of an excluded namespace", func(g *ground) {
		g.set("Namespace//kube-system", "metadata.annotations", map[string]any{"pillion.dev/inject": "fluent-bit"})
	}, Warning, "namespace kube-system asks for sidecars, but Pillion excludes it", "kubectl annotate namespace kube-system pillion.dev/inject-"},
}

// copies adds a copy of the mutating configuration, with an entry of others in it.
func (g *ground) copies(name string, others bool) {
	c := runtime.DeepCopyJSON(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": name}})
	webhooks := g.objects[mutating]["webhooks"].([]any)
	if others {
		webhooks = append(slices.Clone(webhooks), map[string]any{"name": "other.example.com", "clientConfig": map[string]any{"url": "https://example.com"}})
	}
	c["webhooks"] = webhooks
	g.objects["MutatingWebhookConfiguration//"+name] = c
}

func TestEachFaultIsFoundByItsCheckWithTheCommandThatHelps(t *testing.T) {
	for _, f := range faults {
		t.Run(f.check+" "+f.fault, func(t *testing.T) {
			g := soundGround(t)
			f.damage(g)
			r := g.run()
			i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Name == f.check })
			if i < 0 {
				t.Fatalf("no outcome: %+v", r)
			}
			o := r.Outcomes[i]
			if o.Result != f.result || !slices.ContainsFunc(o.Findings, func(found Finding) bool {
				return found.Result == f.result && strings.Contains(found.Message, f.says) && strings.HasPrefix(found.Remedy, f.remedy) && (f.remedy == "") == (found.Remedy == "")
			}) {
				t.Errorf("%s is %s:", o.Name, o.Result)
				for _, found := range o.Findings {
					t.Errorf("%s %s\n  %s", found.Result, found.Message, found.Remedy)
				}
			}
			if sound := r.IsSound(false); sound != (r.Count(Failed) == 0) || f.result == Failed && sound || r.IsSound(true) {
				t.Errorf("sound: %t, strictly %t", sound, r.IsSound(true))
			}
		})
	}
}

// The proof namespace stays with the chart's label when enforcement becomes None. Nobody set that label by hand.
func TestALeftProofNamespaceIsNoFault(t *testing.T) {
	g := soundGround(t)
	g.served.Namespaces.Proof = ""
	g.add(`{apiVersion: v1, kind: Namespace, metadata: {name: old-proof, labels: {kubernetes.io/metadata.name: old-proof, pillion.dev/injection: enforced, pillion.dev/proof: "true"}, managedFields: [{manager: helm, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:pillion.dev/injection": {}}}}}]}}`)
	for _, o := range g.run().Outcomes {
		if o.Name == "labels" && len(o.Findings) > 0 {
			t.Errorf("%+v", o.Findings)
		}
	}
}

// A copy may be the configuration by which pods have their sidecars.
func TestACopyIsNotToBeDeletedBeforeTheChartsOwnIsBack(t *testing.T) {
	g := soundGround(t)
	g.copies("copy", false)
	delete(g.objects, mutating)
	o := g.run().Outcomes[7]
	if o.Name != "registration" || len(o.Findings) != 2 || o.Findings[0].Remedy != rollback || o.Findings[1].Remedy != "" || !strings.HasSuffix(o.Findings[1].Message, "Repair the faults above first") {
		t.Errorf("%+v", o)
	}
}

// A user who lacks rights is told which, and that nobody can tell.
func TestAMissingRightIsNamedAndNothingIsSaidToBeSound(t *testing.T) {
	for forbidden, checks := range map[string][]string{
		"get deployments pillion-system":     {"deployment"},
		"get mutatingwebhookconfigurations":  {"registration", "certificates"},
		"list mutatingwebhookconfigurations": {"registration"},
		"get configmaps pillion-system":      {"rights", "policies", "registration"},
		"get clusterroles":                   {"rights"},
		"get serviceaccounts pillion-system": {"account"},
		"create pods pillion-system-proof":   {"proof"},
		"list namespaces":                    {"template-names", "labels"},
		"list validatingadmissionpolicies":   {"required-policies"},
		"get customresourcedefinitions":      {"crds"},
		"list sidecartemplates":              {"templates", "template-names", "required-policies", "labels"},
		"list pods pillion-system":           {"replicas", "account", "certificates", "proof", "labels"},
	} {
		g := soundGround(t)
		g.forbidden = []string{forbidden}
		r := g.run()
		var unseen []string
		for _, o := range r.Outcomes {
			if len(o.Findings) > 0 && o.Findings[0].Unseen {
				unseen = append(unseen, o.Name)
				if f := o.Findings[0]; o.Result != Skipped || !strings.HasPrefix(f.Message, "not checked: you lack the right to ") || !strings.Contains(f.Remedy, " create ") || !strings.Contains(f.Remedy, " && kubectl") {
					t.Errorf("%s: %s is %s: %+v", forbidden, o.Name, o.Result, f)
				}
			}
		}
		if !slices.Equal(unseen, checks) || r.IsConclusive() || r.IsSound(false) {
			t.Errorf("%s: unseen are %q, want %q; judged %t, sound %t", forbidden, unseen, checks, r.IsConclusive(), r.IsSound(false))
		}
	}
}

// The texts of a cluster's objects must not change a terminal.
func TestNamesCannotChangeATerminal(t *testing.T) {
	g := soundGround(t)
	g.unready["a"] = "bad \x1b[31m\x07"
	g.set("Namespace//shop", "metadata.annotations", map[string]any{"pillion.dev/inject": "\x1b]0;x\x07"})
	var out bytes.Buffer
	if err := Write(&out, g.run(), false, false); err != nil || strings.ContainsAny(out.String(), "\x1b\x07") {
		t.Errorf("%v %q", err, out.String())
	}
}

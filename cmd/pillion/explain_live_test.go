package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/offline/chain"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
)

var updateExplained = flag.Bool("update-explained", false, "write testdata/explain anew")

// liveCluster has a namespace that asks for a sidecar, whose label came late, and a Deployment
// with three pods: one as it would be created now, one with an older sidecar, one without.
const liveCluster = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: pillion, namespace: pillion-system}
spec:
  template:
    spec:
      containers:
      - {name: pillion, args: [serve, --templates=/etc/pillion/templates, --values=/etc/pillion/values/values.yaml, --webhook-configuration=pillion], volumeMounts: [{name: templates, mountPath: /etc/pillion/templates}, {name: values, mountPath: /etc/pillion/values}]}
      volumes: [{name: templates, configMap: {name: templates}}, {name: values, configMap: {name: values}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: values, namespace: pillion-system}
data: {values.yaml: "defaults: {side: {level: low}}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: templates, namespace: pillion-system}
data:
  side.yaml: |
    apiVersion: pillion.dev/v1alpha1
    kind: SidecarTemplate
    metadata: {name: side}
    spec:
      parameters:
      - {name: image, type: image, default: "registry.example.com/side:2"}
      - {name: level, type: string, default: high}
      - {name: size, type: quantity, default: 1Mi, maximum: 1Gi}
      inject:
        metadata: {labels: {team: sidecars}}
        spec:
          initContainers:
          - {name: side, restartPolicy: Always, image: "${params.image}", env: [{name: LEVEL, value: "${params.level}"}], resources: {limits: {memory: "${params.size}"}}}
          containers:
          - {$each: App, env: [{name: SIDE, value: "on"}]}
  other.yaml: |
    apiVersion: pillion.dev/v1alpha1
    kind: SidecarTemplate
    metadata: {name: other}
    spec: {inject: {metadata: {labels: {other: "true"}}}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {kubernetes.io/metadata.name: shop, pillion.dev/injection: enabled}
  annotations: {pillion.dev/inject: side, side.pillion.dev/size: 2Mi, pillion.dev/injekt: side}
  managedFields:
  - {manager: pillion, operation: Apply, time: "2026-11-22T10:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:pillion.dev/injection": {}}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, annotations: {pillion.dev/inject: other}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, team: web}}
    spec: {containers: [{name: web, image: "web:1", env: [{name: SIDE, value: "off"}]}]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: shop}
spec: {limits: [{type: Container, max: {memory: 1Mi}}]}
`

// chained are webhooks around Pillion's.
const chained = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: z-mesh}
webhooks: [{name: mesh.example.com, clientConfig: {service: {namespace: mesh, name: injector}}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], reinvocationPolicy: Never, failurePolicy: Fail, timeoutSeconds: 5,
  matchConditions: [{name: not-nodes, expression: "!('system:nodes' in request.userInfo.groups)"}]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: pillion}
webhooks: [{name: requested.pillion.dev, clientConfig: {service: {namespace: pillion-system, name: pillion}}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], reinvocationPolicy: IfNeeded, failurePolicy: Ignore, timeoutSeconds: 10,
  namespaceSelector: {matchLabels: {pillion.dev/injection: enabled}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: a-tracer}
webhooks: [{name: tracing.example.com, clientConfig: {url: "https://tracer.example.com/mutate"}, rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}], reinvocationPolicy: Never, failurePolicy: Ignore, timeoutSeconds: 2},
  {name: elsewhere.example.com, clientConfig: {url: "https://tracer.example.com/other"}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], namespaceSelector: {matchLabels: {trace: "yes"}}}]
`

// livePod is a pod of the Deployment web, created at an hour, injected by the templates of a
// cluster or not.
func livePod(t *testing.T, name string, hour int, with *cluster) map[string]any {
	t.Helper()
	var pod map[string]any
	text := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  generateName: web-5d8f-
  namespace: shop
  uid: %s
  creationTimestamp: "2026-11-22T%02d:00:00Z"
  labels: {app: web, team: web, pod-template-hash: 5d8f}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d8f, uid: r, controller: true}]
spec: {containers: [{name: web, image: "web:1", env: [{name: SIDE, value: "off"}]}]}
status: {phase: Running}
`, name, name, hour)
	documents, err := workload.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	pod = documents[0].Object
	if with == nil {
		return pod
	}
	s := with.session()
	ns, err := with.namespaceOf(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	s.namespaces.keep(ns)
	out, err := s.outcomeOf(t.Context(), pod, ns.Namespace.Namespace, injector.Request{})
	if err != nil || !out.Allowed {
		t.Fatalf("injecting: %v %s", err, out.Message)
	}
	return out.Pod
}

// openFake returns the cluster of manifests, as a user sees it who may not do what forbidden
// names: VERB RESOURCE NAMESPACE.
func openFake(t *testing.T, manifests string, pods []map[string]any, forbidden ...string) *cluster {
	t.Helper()
	client := fakeObjects(t, manifests, pods, forbidden...)
	c := &cluster{objects: client, trial: client, heard: &heardWarnings{}, namespace: "shop"}
	c.list = func(ctx context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error) {
		if slices.Contains(forbidden, "list pods "+namespace) {
			return nil, forbids("list", "", "pods", namespace)
		}
		selector, err := labels.Parse(o.LabelSelector)
		if err != nil {
			return nil, err
		}
		items := []any{}
		for _, p := range pods {
			u := unstructured.Unstructured{Object: p}
			if u.GetNamespace() == namespace && selector.Matches(labels.Set(u.GetLabels())) {
				items = append(items, p)
			}
		}
		data, err := json.Marshal(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": items})
		return io.NopCloser(bytes.NewReader(data)), err
	}
	if err := c.read(t.Context(), &installation{namespace: "pillion-system"}, templates.DefaultPrefix, templates.NewestKubernetes()); err != nil {
		t.Fatal(err)
	}
	return c
}

// forbids is an API server's answer to a user who lacks a right.
func forbids(verb, group, resource, namespace string) error {
	where := "at the cluster scope"
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", fmt.Errorf("User \"mia\" cannot %s resource %q in API group %q %s", verb, resource, group, where))
}

func fakeObjects(t *testing.T, manifests string, pods []map[string]any, forbidden ...string) *fake.FakeDynamicClient {
	t.Helper()
	var objects []runtime.Object
	for _, text := range strings.Split(manifests, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &unstructured.Unstructured{Object: o})
	}
	for _, p := range pods {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
	kinds := map[schema.GroupVersionResource]string{
		{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}:                             "SidecarTemplateList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}:         "MutatingAdmissionPolicyList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"}:   "MutatingAdmissionPolicyBindingList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}:     "MutatingWebhookConfigurationList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}:       "ValidatingAdmissionPolicyList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}: "ValidatingAdmissionPolicyBindingList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}:   "ValidatingWebhookConfigurationList",
		{Version: "v1", Resource: "limitranges"}:                                                              "LimitRangeList",
		{Version: "v1", Resource: "resourcequotas"}:                                                           "ResourceQuotaList",
	}
	for _, version := range policyVersions[1:] {
		kinds[schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: version, Resource: "mutatingadmissionpolicies"}] = "MutatingAdmissionPolicyList"
		kinds[schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: version, Resource: "mutatingadmissionpolicybindings"}] = "MutatingAdmissionPolicyBindingList"
	}
	for _, k := range objectKinds {
		kinds[schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource}] = k.kind + "List"
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.GetResource()
		if slices.Contains(forbidden, strings.TrimSpace(a.GetVerb()+" "+r.Resource+" "+a.GetNamespace())) {
			return true, nil, forbids(a.GetVerb(), r.Group, r.Resource, a.GetNamespace())
		}
		return false, nil, nil
	})
	return client
}

// A team's rights: edit in its namespace, and nothing elsewhere.
var teamsRights = []string{"list deployments pillion-system", "get mutatingwebhookconfigurations"}

// Golden transcripts of what explain says of objects of a cluster. Each is no wider than 80
// columns, and its JSON has what its text has.
func TestExplainOfACluster(t *testing.T) {
	shown := func(hash string) string {
		return liveCluster + "---\n" + `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
status: {hash: ` + hash + `}
spec:
  parameters:
  - {name: image, type: image, default: "registry.example.com/side:2"}
  - {name: level, type: string, default: high}
  - {name: size, type: quantity, default: 1Mi, maximum: 1Gi}
  inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "${params.image}", env: [{name: LEVEL, value: "${params.level}"}], resources: {limits: {memory: "${params.size}"}}}]}}
`
	}
	// A template of the cluster, and a mirror of the same name: that has the installer's defaults.
	mirrored := func(hash string) string {
		_, own, _ := strings.Cut(shown(hash), liveCluster)
		return liveCluster + strings.NewReplacer("{name: side}\nstatus", `{name: side, labels: {pillion.dev/mirror: "true"}}`+"\nstatus", "default: high", "default: low",
			"inject: {spec: {", `inject: {metadata: {labels: {team: sidecars}}, spec: {containers: [{$each: App, env: [{name: SIDE, value: "on"}]}], `).Replace(own)
	}
	admin := openFake(t, liveCluster, nil)
	older := openFake(t, strings.ReplaceAll(liveCluster, "side:2", "side:1"), nil)
	side, _ := admin.settings.set.Get("side")
	pods := []map[string]any{livePod(t, "web-5d8f-early", 9, nil), livePod(t, "web-5d8f-old", 11, older), livePod(t, "web-5d8f-new", 12, admin)}
	for name, c := range map[string]struct {
		manifests string
		forbidden []string
		args      []string
		chain     bool
		says      []string
	}{
		"the chain of a pod": {chain: true, manifests: liveCluster + chained, forbidden: []string{"list validatingadmissionpolicies"}, args: []string{"pod/web-5d8f-new"}, says: []string{
			"1. tracing.example.com in MutatingWebhookConfiguration/a-tracer", "2. requested.pillion.dev in MutatingWebhookConfiguration/pillion (Pillion)", "3. mesh.example.com in MutatingWebhookConfiguration/z-mesh",
			"its matchCondition \"not-nodes\" depends on userInfo", "the chain lacks all validatingadmissionpolicies: you lack the right to list them. Who may grant it: kubectl create clusterrole pillion-chain --verb=list --resource=validatingadmissionpolicies.admissionregistration.k8s.io kubectl create clusterrolebinding pillion-chain --clusterrole=pillion-chain --user=mia",
		}},
		"a pod as it would be now": {args: []string{"pod/web-5d8f-new"}, says: []string{"injected already; created now: Injected, and then refused by the cluster", "level low (Installer)", "yes: the pod has the record", "size 2Mi (Namespace, side.pillion.dev/size)"}},
		"a pod with an older sidecar": {args: []string{"pod", "web-5d8f-old"}, says: []string{
			"injected, and outdated: side; created now: Injected, and then refused by the cluster", "differs spec.initContainers[name=side].image (side)",
			`spec.containers[name=web].env[name=SIDE]`, "metadata.labels.team: web; side wants sidecars", "the LimitRange small refuses the pod",
		}},
		"a pod from before the label": {args: []string{"po/web-5d8f-early"}, says: []string{
			"not injected; missing: side; created now: Injected, and then refused by the cluster", "no: the pod was created at 2026-11-22T09:00:00Z, and the namespace's label was written later, at 2026-11-22T10:00:00Z",
		}},
		"a Deployment": {args: []string{"deploy/web"}, says: []string{
			"warning: annotation pillion.dev/inject means nothing", "3 pods, 1 as they would be created now, 2 not", "web-5d8f-early missing: side", "web-5d8f-old outdated: side", "new pods: kubectl -n shop rollout restart deployment/web",
		}},
		"a namespace": {args: []string{"ns/shop"}, says: []string{"called yes: the namespace has the label pillion.dev/injection=enabled", `side.pillion.dev/size: "2Mi"`, "a plain pod in namespace shop", "warning annotation pillion.dev/injekt means nothing"}},
		"a team that may read templates": {manifests: shown("0123456789abcdef"), forbidden: teamsRights, args: []string{"deploy/web"}, says: []string{
			"the installer's values, which change side, cannot be read", "web-5d8f-new perhaps outdated: side", "created now it is admitted, as the API server answers to a dry run; by what can be read: injected (Injected), and then refused by the cluster", "The API server's answer to a dry run", "Who may grant more: kubectl -n pillion-system create role pillion-settings --verb=get,list --resource=deployments.apps,configmaps kubectl -n pillion-system create rolebinding pillion-settings --role=pillion-settings --user=mia", "level high (Default, unless the installer sets another)",
		}},
		"a team whose templates have another hash": {manifests: shown(side.Template.Hash()), forbidden: teamsRights, args: []string{"pod/web-5d8f-new"}, says: []string{"injected already, version " + side.Template.Hash()}},
		"a team that may read mirrors":             {manifests: mirrored(side.Template.Hash()), forbidden: teamsRights, args: []string{"pod/web-5d8f-new"}, says: []string{"injected already, version " + side.Template.Hash(), "level low (Default)"}},
		"a team that may read nothing else": {forbidden: append([]string{"list sidecartemplates", "get namespaces", "list limitranges shop", "create pods shop"}, teamsRights...), args: []string{"pod/web-5d8f-old"}, says: []string{
			"which templates it gets cannot be told with your rights", "side the pod has version", "the templates in force cannot be read: you lack the right to list sidecartemplates.pillion.dev in all namespaces", "not known: the namespace's label cannot be read", "yes: the pod has the record",
			"the API server was not asked by dry run: you lack the right to create pods in namespace shop",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.manifests == "" {
				c.manifests = liveCluster
			}
			cl := openFake(t, c.manifests, pods, c.forbidden...)
			cl.chain = c.chain
			targets, err := parseObjects(c.args)
			if err != nil {
				t.Fatal(err)
			}
			report, err := cl.explain(t.Context(), targets)
			if err != nil {
				t.Fatal(err)
			}
			var text, encoded bytes.Buffer
			if err := report.Text(&text, explain.Style{Width: 80}); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata/explain", strings.ReplaceAll(name, " ", "-")+".txt"), text.String(), *updateExplained)
			for line := range strings.Lines(text.String()) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 && !strings.HasPrefix(line, "    kubectl ") {
					t.Errorf("wider than 80 columns: %s", line)
				}
			}
			for _, want := range c.says {
				if !strings.Contains(flat(text.String()), want) {
					t.Errorf("no %q in\n%s", want, text.String())
				}
			}
			if err := report.JSON(&encoded); err != nil {
				t.Fatal(err)
			}
			var again explain.Report
			if err := json.Unmarshal(encoded.Bytes(), &again); err != nil {
				t.Fatal(err)
			}
			var retold bytes.Buffer
			if err := again.Text(&retold, explain.Style{Width: 80}); err != nil || retold.String() != text.String() {
				t.Errorf("the JSON says something else: %v\n%s\nwant\n%s", err, retold.String(), text.String())
			}
		})
	}
}

// Kubernetes has mutating policies since 1.32, and in v1 since 1.36.
func TestTheChainHasThePoliciesOfOlderVersions(t *testing.T) {
	const policies = `
apiVersion: admissionregistration.k8s.io/VERSION
kind: MutatingAdmissionPolicy
metadata: {name: p}
spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}
---
apiVersion: admissionregistration.k8s.io/VERSION
kind: MutatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p}
`
	for _, version := range append(slices.Clone(policyVersions), "none") {
		for _, forbidden := range []string{"", "list mutatingadmissionpolicybindings"} {
			client := fakeObjects(t, strings.ReplaceAll(policies, "VERSION", version), nil, forbidden)
			client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				r := a.GetResource()
				if strings.HasPrefix(r.Resource, "mutatingadmissionpolic") && r.Version != version {
					return true, nil, apierrors.NewNotFound(r.GroupResource(), "")
				}
				return false, nil, nil
			})
			all, notes, err := readChain(t.Context(), client)
			want := map[bool]int{true: 0, false: 1}[version == "none"]
			if err != nil || len(all.MutatingPolicies) != want || forbidden == "" && (len(all.MutatingBindings) != want || len(notes) > 0) {
				t.Errorf("%s: %v %+v %v", version, err, all, notes)
			}
			if unread := slices.Contains(all.Unread, chain.MutatingBindings); unread != (forbidden != "" && version != "none") || unread && len(notes) != 1 {
				t.Errorf("%s, %q: %v %v", version, forbidden, all.Unread, notes)
			}
		}
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has something else; -update-explained writes it:\n%s", file, got)
	}
}

func TestObjectsAreNamedAsInKubectl(t *testing.T) {
	for args, want := range map[string]string{
		"pod/a": "Pod a", "deploy a b": "Deployment a,Deployment b", "sts/a ds/b rs/c job/d cj/e": "StatefulSet a,DaemonSet b,ReplicaSet c,Job d,CronJob e",
		"deployment.apps/a": "Deployment a", "ns shop": "Namespace shop", "deployments/a Deployments.apps/b deployment.v1.apps/c": "Deployment a,Deployment b,Deployment c", "pods/a po/b Pod/c": "Pod a,Pod b,Pod c", "cronjobs/a": "CronJob a",
		"pods.v1/a": "!", "deployment.batch/a": "!", "web": "!", "/web": "!", "deploy/a deploy": "!",
		"svc/a": "!", "pod": "!", "pod/": "!", "pod/a b": "!", "deploy a deploy/b": "!", "pod/a/b": "!",
	} {
		found, err := parseObjects(strings.Fields(args))
		var names []string
		for _, o := range found {
			names = append(names, o.kind+" "+o.name)
		}
		if got := strings.Join(names, ","); (want == "!") != (err != nil) || err == nil && got != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
}

// docs/explain.md shows golden transcripts of TestExplainOfACluster.
func TestTheDocsShowWhatExplainPrints(t *testing.T) {
	page := filepath.Join("../../docs", "explain.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	now := string(text)
	for name, command := range map[string]string{
		"a pod with an older sidecar":    "kubectl pillion explain -n shop pod/web-5d8f-old",
		"a team that may read templates": "kubectl pillion explain -n shop deploy/web",
		"the chain of a pod":             "kubectl pillion explain -n shop pod/web-5d8f-new --chain",
	} {
		shown, err := os.ReadFile(filepath.Join("testdata/explain", strings.ReplaceAll(name, " ", "-")+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		said := string(shown)
		if at := strings.Index(said, "Mutating webhooks"); at > 0 {
			said = "…\n" + said[at:]
		}
		if now, err = transcript.Replace(now, "recorded by TestTheDocsShowWhatExplainPrints: "+name, "$ "+command+"\n"+said); err != nil {
			t.Fatal(err)
		}
	}
	if *updateExplained {
		if err := os.WriteFile(page, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if now != string(text) {
		t.Error("docs/explain.md shows something else than the golden transcripts; -update-explained writes it")
	}
}

package inspect_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
	"github.com/pillion-dev/pillion/webhook/state"
)

var update = flag.Bool("update", false, "write the transcripts of the docs anew")

func statusSet(t *testing.T, tags map[string]string) *templates.Set {
	t.Helper()
	var manifests []string
	for name, tag := range tags {
		manifests = append(manifests, fmt.Sprintf(`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: %s}, spec: {inject: {spec: {initContainers: [{name: %s, restartPolicy: Always, image: "%s:%s"}]}}}}`, name, name, name, tag))
	}
	return templatestest.Set(t, manifests...)
}

// statusPod makes a running pod of a Deployment.
func statusPod(namespace, deployment string, n int, inject string) string {
	annotations := ""
	if inject != "" {
		annotations = fmt.Sprintf(`"pillion.dev/inject":%q`, inject)
	}
	owner := ""
	if deployment != "" {
		owner = fmt.Sprintf(`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%s-5d8c","uid":"1","controller":true}],`, deployment)
	}
	return fmt.Sprintf(`{"metadata":{"name":"%s-5d8c-%d","namespace":%q,"uid":"7",%s"labels":{"pod-template-hash":"5d8c"},"annotations":{%s}},"spec":{"containers":[{"name":"app","image":"app:1"}]},"status":{"phase":"Running"}}`,
		deployment, n, namespace, owner, annotations)
}

// injected returns the pod as the webhook makes it, with the templates of a set.
func injected(t *testing.T, set *templates.Set, ns templates.Namespace, pod string) string {
	t.Helper()
	var object map[string]any
	errtest.ExpectNone(t, json.Unmarshal([]byte(pod), &object))
	object["apiVersion"], object["kind"] = "v1", "Pod"
	out, err := injector.NewPipeline(injector.Config{}).Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: object, Namespace: ns, Templates: set})
	if err != nil || !out.Allowed {
		t.Fatalf("%v: %s", err, out.Message)
	}
	text, err := json.Marshal(out.Pod)
	errtest.ExpectNone(t, err)
	return string(text)
}

// statusOf returns a cluster with these pods and namespaces, and manifests of others.
func statusOf(t *testing.T, pods []string, set *templates.Set, namespaces []templates.Namespace, manifests ...string) *inspect.Live {
	t.Helper()
	o := inspecttest.Options{}
	for _, text := range pods {
		var pod map[string]any
		errtest.ExpectNone(t, json.Unmarshal([]byte(text), &pod))
		o.Pods = append(o.Pods, pod)
	}
	for _, ns := range namespaces {
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns.Name, "labels": ns.Labels, "annotations": ns.Annotations}})
		errtest.ExpectNone(t, err)
		manifests = append(manifests, string(text))
	}
	c := inspecttest.Cluster(t, strings.Join(manifests, "\n---\n"), o)
	c.Namespace = "pillion-system"
	return c.WithSettings(inspect.Settings{Excluded: []string{"kube-system"}, Templates: set})
}

func statusNamespace(name, injection, inject string) templates.Namespace {
	ns := templates.Namespace{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}, Annotations: map[string]string{"pillion.dev/inject": inject}}
	if injection != "" {
		ns.Labels["pillion.dev/injection"] = injection
	}
	return ns
}

func statusEvent(namespace, reason, component string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: %s, namespace: %s}, reason: %s, reportingComponent: %s, message: 'template proxy: level: "loud" is not allowed', eventTime: "2026-01-02T03:04:05.000000Z", involvedObject: {kind: ReplicaSet, name: web-5d8c}}`,
		strings.ToLower(reason)+component, namespace, reason, component)
}

// statusCluster has a namespace of every kind.
func statusCluster(t *testing.T) *inspect.Live {
	old, now := statusSet(t, map[string]string{"proxy": "1", "logs": "1"}), statusSet(t, map[string]string{"proxy": "2", "logs": "1"})
	shop, bank, off := statusNamespace("shop", "enabled", "proxy,logs"), statusNamespace("bank", "enforced", "logs"), statusNamespace("off", "disabled", "logs")
	broken, never := statusNamespace("broken", "enabled", "gone"), statusNamespace("never", "", "false")
	pods := []string{
		statusPod("shop", "web", 0, ""), statusPod("shop", "web", 1, ""), injected(t, old, shop, statusPod("shop", "api", 0, "")), injected(t, now, shop, statusPod("shop", "db", 0, "")),
		statusPod("shop", "", 0, ""), statusPod("shop", "quiet", 0, "false"), strings.Replace(statusPod("shop", "job", 0, ""), "Running", "Succeeded", 1),
		injected(t, old, bank, statusPod("bank", "vault", 0, "")), injected(t, old, bank, statusPod("bank", "vault", 1, "")),
		injected(t, old, statusNamespace("off", "", "logs"), statusPod("off", "past", 0, "")), statusPod("off", "bare", 0, ""),
		statusPod("never", "web", 0, ""), statusPod("broken", "web", 0, ""),
	}
	return statusOf(t, pods, now, []templates.Namespace{shop, bank, off, broken, never, statusNamespace("kube-system", "enabled", "logs")},
		statusEvent("shop", "BadParameter", "pillion"), statusEvent("shop", "Suspended", "pillion"))
}

func TestStatusCountsPodsByNamespaceAndWorkload(t *testing.T) {
	reader := statusCluster(t)
	r, err := reader.ComparePods(t.Context(), inspect.Target{})
	errtest.ExpectNone(t, err)
	for _, n := range r.Namespaces {
		if sum := n.UpToDate + n.Missing + n.Outdated + n.WouldBeRefused; sum != n.Pods {
			t.Errorf("the pods of %s add up to %d, want %d", n.Name, sum, n.Pods)
		}
	}
	var out strings.Builder
	r.Write(&out, inspect.Target{})
	want := `NAMESPACE  INJECTION  PODS  UP TO DATE  MISSING  OUTDATED  REFUSED
shop       enabled    6     2           3        1         0
broken     enabled    1     0           0        0         1
bank       enforced   2     2           0        0         0
off        disabled   1     1           0        0         0

WORKLOAD        NAMESPACE  PODS  OUTDATED OR MISSING
deployment/web  shop       2     missing: logs, proxy
bare pods       shop       1     missing: logs, proxy
deployment/api  shop       1     outdated: proxy
deployment/web  broken     1     refused: gone

Recently refused, from Pillion's events:
  shop replicaset/web-5d8c (BadParameter): template proxy: level: "loud" is not allowed

To bring the pods up to date:
  pillion rollout ns/shop --dry-run
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	transcript.Recorded(t, filepath.Join("../docs", "reference", "coverage.md"), "pillion status", *update, func(string) string { return "$ pillion status\n" + want })
	for line := range strings.Lines(out.String()) {
		if len(line) > 90 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

func TestAnArgumentNamesATemplateOrANamespace(t *testing.T) {
	reader := statusOf(t, nil, statusSet(t, map[string]string{"proxy": "1", "shop": "1"}), []templates.Namespace{statusNamespace("shop", "", ""), statusNamespace("bank", "", "")})
	for arg, want := range map[string]string{
		"proxy": "sct/proxy", "bank": "ns/bank", "ns/shop": "ns/shop", "namespace/shop": "ns/shop", "sct/shop": "sct/shop", "template/proxy": "sct/proxy",
		"shop": `"shop" is a template and a namespace; write sct/shop or ns/shop`, "gone": `no namespace and no template in force has the name "gone"; the templates are: proxy, shop`,
		"sct/bank": `there is no template "bank" in force; there are: proxy, shop`, "ns/proxy": `reading namespace proxy: namespaces "proxy" not found`, "pod/x": `"pod/x" names neither a template nor a namespace`, "ns/": `"ns/" names neither`,
	} {
		got, err := reader.FindTarget(t.Context(), arg, reader.Templates)
		text := got.String()
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s, want %s", arg, text, want)
		}
	}
}

// A record and an annotation are a tenant's to write: neither may command the terminal of the
// person who runs status, or add rows to its tables.
func TestStatusShowsForgedNamesAsText(t *testing.T) {
	forged := "\x1b[2Jx\n\tall is well"
	pod := strings.Replace(statusPod("shop", "web", 0, ""), `"annotations":{}`, `"annotations":{"pillion.dev/status":`+quotedJSON(t, `{"v":1,"templates":{`+quotedJSON(t, forged)+`:"`+strings.Repeat("f", 5000)+`"}}`)+`}`, 1)
	ns := statusNamespace("shop", "enabled", "none-such,"+forged)
	r, err := statusOf(t, []string{pod}, statusSet(t, map[string]string{"proxy": "1"}), []templates.Namespace{ns}).ComparePods(t.Context(), inspect.Target{})
	if err != nil || len(r.Workloads) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	for _, of := range []inspect.Target{{}, {Namespace: "shop"}} {
		var out strings.Builder
		if r.Write(&out, of); strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\n\tall") || strings.Contains(out.String(), "\nall") {
			t.Errorf("%q", out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 200 {
				t.Errorf("a line of %d columns", len(line))
			}
		}
	}
}

func quotedJSON(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	errtest.ExpectNone(t, err)
	return string(data)
}

// The library is part of the program: another version of it would call every pod outdated.
func TestAnotherVersionOfATemplateThanTheReplicasApplyIsSaid(t *testing.T) {
	set := statusSet(t, map[string]string{"proxy": "1", "logs": "1"})
	hash := func(name string) string { e, _ := set.Get(name); return e.Template.Hash() }
	applies := func(proxy string) state.Replica {
		return state.Replica{Answers: true, State: state.State{Templates: map[string]string{"proxy": proxy, "logs": hash("logs")}}}
	}
	for _, test := range []struct {
		replicas []state.Replica
		want     int
	}{
		{[]state.Replica{applies(hash("proxy"))}, 0},
		{[]state.Replica{applies("0123")}, 1},
		{[]state.Replica{applies("0123"), applies(hash("proxy"))}, 0}, // an upgrade goes on
		{[]state.Replica{{}}, 0}, {nil, 0},
	} {
		if notes := inspect.Skew(test.replicas, set, "1"); len(notes) != test.want || test.want > 0 && !strings.HasPrefix(notes[0], "template proxy: the replicas apply 0123, and this pillion (1) compares") {
			t.Errorf("%+v: %q, want %d", test.replicas, notes, test.want)
		}
	}
}

// Ten thousand pods, each of a workload of its own, leave a bounded report.
func TestWhatStatusKeepsIsBounded(t *testing.T) {
	var pods []string
	for i := range 10_000 {
		pods = append(pods, statusPod("shop", fmt.Sprintf("w%d", i), 0, ""))
	}
	reader := statusOf(t, pods, statusSet(t, map[string]string{"proxy": "1"}), []templates.Namespace{statusNamespace("shop", "enabled", "proxy")})
	r, err := reader.ComparePods(t.Context(), inspect.Target{})
	if err != nil || len(r.Workloads) != inspect.MaxWorkloads || r.PodsOfMoreWorkloads != 10_000-inspect.MaxWorkloads || r.Namespaces[0].Missing != 10_000 {
		t.Errorf("%d workloads, %d pods of more, %+v: %v", len(r.Workloads), r.PodsOfMoreWorkloads, r.Namespaces[:1], err)
	}
	var out strings.Builder
	if r.Write(&out, inspect.Target{}); strings.Count(out.String(), "\n") > 40 {
		t.Errorf("%d lines", strings.Count(out.String(), "\n"))
	}
}

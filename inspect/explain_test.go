package inspect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/show"
)

var updateExplained = flag.Bool("update-explained", false, "write testdata/explain anew")

// livePod is a pod of the Deployment web, created at an hour, injected by the templates of a
// cluster or not.
func livePod(t *testing.T, name string, hour int, with *inspect.Live) map[string]any {
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
	errtest.ExpectNone(t, err)
	pod = documents[0].Object
	if with == nil {
		return pod
	}
	s := with.Session()
	ns, err := with.NamespaceOf(t.Context(), "shop")
	errtest.ExpectNone(t, err)
	s.Namespaces.Add(ns)
	out, err := s.OutcomeOf(t.Context(), pod, ns.Namespace, injector.Request{})
	if err != nil || !out.Allowed {
		t.Fatalf("injecting: %v %s", err, out.Message)
	}
	return out.Pod
}

// errUncalled stands for an API server that does not call Pillion.
var errUncalled = errors.New("not called")

// created is the pod that an API server returns, which calls the Pillion of a cluster.
func created(t *testing.T, with *inspect.Live, pod *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	data, err := pod.MarshalJSON()
	errtest.ExpectNone(t, err)
	exact, err := injector.DecodePod(data)
	errtest.ExpectNone(t, err)
	ns, err := with.NamespaceOf(t.Context(), "shop")
	errtest.ExpectNone(t, err)
	out, err := with.Compare.Pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: exact, Namespace: ns.Namespace, Templates: with.Templates})
	if err != nil || !out.Allowed {
		t.Fatalf("injecting: %v %s", err, out.Message)
	}
	if data, err = json.Marshal(out.Pod); err == nil {
		err = json.Unmarshal(data, &pod.Object)
	}
	errtest.ExpectNone(t, err)
	return pod
}

// failing are events of the ReplicaSet of web, the newest in the middle, and one of another.
const failing = `---
{apiVersion: v1, kind: Event, metadata: {name: e1, namespace: shop}, involvedObject: {kind: ReplicaSet, name: web-5d8f, uid: r}, reason: FailedCreate, message: an old one, lastTimestamp: "2026-11-22T12:00:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: e2, namespace: shop}, involvedObject: {kind: ReplicaSet, name: web-5d8f, uid: r}, reason: FailedCreate, count: 7, message: 'pods "web-5d8f-" is forbidden: violates PodSecurity', lastTimestamp: "2026-11-22T12:30:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: e3, namespace: shop}, involvedObject: {kind: ReplicaSet, name: other, uid: x}, reason: FailedCreate, message: of another, lastTimestamp: "2026-11-22T13:00:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: e4, namespace: shop}, involvedObject: {kind: ReplicaSet, name: web-5d8f, uid: r}, reason: SuccessfulCreate, message: well, lastTimestamp: "2026-11-22T13:00:00Z"}
`

// Golden transcripts of what explain says of objects of a cluster. Each is no wider than 80
// columns, and its JSON has what its text has.
func TestExplainOfACluster(t *testing.T) {
	// The status says which version the server has.
	shown := func(hash string) string {
		return strings.Replace(inspecttest.Shop, "metadata: {name: side}\n", "metadata: {name: side}\nstatus: {hash: \""+hash+"\"}\n", 1)
	}
	unlimited, _, _ := strings.Cut(inspecttest.Shop, "---\napiVersion: v1\nkind: LimitRange")
	admin := inspecttest.Live(t, inspecttest.Shop, nil)
	older := inspecttest.Live(t, strings.ReplaceAll(inspecttest.Shop, "side:2", "side:1"), nil)
	side, _ := admin.Templates.Get("side")
	pods := []map[string]any{livePod(t, "web-5d8f-early", 9, nil), livePod(t, "web-5d8f-old", 11, older), livePod(t, "web-5d8f-new", 12, admin)}
	for name, c := range map[string]struct {
		manifests string
		forbidden []string
		args      []string
		// answer is the API server's, in place of a pod that admin injects.
		answer error
	}{
		"a pod as it would be now":                                       {args: []string{"pod/web-5d8f-new"}},
		"a pod with an older sidecar":                                    {args: []string{"pod", "web-5d8f-old"}},
		"a pod from before the label":                                    {args: []string{"po/web-5d8f-early"}},
		"a Deployment":                                                   {args: []string{"deploy/web"}},
		"a Deployment that the API server refuses":                       {manifests: unlimited + failing, args: []string{"deploy/web"}, answer: apierrors.NewForbidden(corev1.Resource("pods"), "web-x", errors.New(`violates PodSecurity "restricted:latest"`))},
		"a Deployment whose pods use up the quota":                       {manifests: unlimited, args: []string{"deploy/web"}, answer: apierrors.NewForbidden(corev1.Resource("pods"), "web-x", errors.New("exceeded quota: q"))},
		"a Deployment that lacks pods for the quota":                     {manifests: unlimited + failing, args: []string{"deploy/web"}, answer: apierrors.NewForbidden(corev1.Resource("pods"), "web-x", errors.New("exceeded quota: q"))},
		"a Deployment whose controller tells more than the user may try": {manifests: strings.Replace(unlimited, "uid: r,", "uid: other,", 1) + strings.ReplaceAll(failing, "uid: r}", "uid: other}"), forbidden: []string{"create pods shop"}, args: []string{"deploy/web"}},
		"a Deployment whose events may not be read":                      {manifests: unlimited, forbidden: []string{"list events shop"}, args: []string{"deploy/web"}},
		"a Deployment for which API servers do not call Pillion":         {manifests: unlimited, args: []string{"deploy/web"}, answer: errUncalled},
		"a Deployment that rolls out":                                    {manifests: strings.Replace(inspecttest.Shop, `image: "web:1"`, `image: "web:2"`, 1), args: []string{"deploy/web"}},
		"a namespace":                                                    {args: []string{"ns/shop"}},
		"a team that may read templates":                                 {manifests: shown("0123456789abcdef"), forbidden: inspecttest.TeamsRights, args: []string{"deploy/web"}},
		"a team whose templates have another hash":                       {manifests: shown(side.Template.Hash()), forbidden: inspecttest.TeamsRights, args: []string{"pod/web-5d8f-new"}},
		"a team that may read nothing else":                              {forbidden: append([]string{"list sidecartemplates", "get namespaces", "create pods shop"}, inspecttest.TeamsRights...), args: []string{"pod/web-5d8f-old"}},
		"a namespace's admin who may not read templates":                 {forbidden: append([]string{"list sidecartemplates"}, inspecttest.TeamsRights...), args: []string{"deploy/web"}},
		"a namespace's admin whose pods are refused":                     {forbidden: append([]string{"list sidecartemplates"}, inspecttest.TeamsRights...), args: []string{"pod/web-5d8f-early"}, answer: apierrors.NewForbidden(corev1.Resource("pods"), "web-x", errors.New("no such parameter (BadParameter)"))},
		"a namespace's admin whose pods opt out": {manifests: strings.Replace(inspecttest.Shop, "metadata: {labels: {app: web, team: web}}\n", "metadata: {labels: {app: web, team: web}, annotations: {pillion.dev/inject: 'false'}}\n", 1), answer: errUncalled,
			forbidden: append([]string{"list sidecartemplates"}, inspecttest.TeamsRights...), args: []string{"deploy/web"}},
		"a namespace's admin without a label": {manifests: strings.Replace(inspecttest.Shop, ", pillion.dev/injection: enabled}", "}", 1), forbidden: append([]string{"list sidecartemplates"}, inspecttest.TeamsRights...), args: []string{"ns/shop"}, answer: errUncalled},
	} {
		t.Run(name, func(t *testing.T) {
			if c.manifests == "" {
				c.manifests = inspecttest.Shop
			}
			cl := inspecttest.Live(t, c.manifests, pods, c.forbidden...)
			cl.Trial.(*fake.FakeDynamicClient).PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				pod := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
				switch {
				case slices.Contains(c.forbidden, "create pods shop"):
					return false, nil, nil
				case errors.Is(c.answer, errUncalled):
					return true, pod, nil
				case c.answer != nil:
					return true, nil, c.answer
				}
				return true, created(t, admin, pod), nil
			})
			targets, err := inspect.ParseObjects(c.args)
			errtest.ExpectNone(t, err)
			report, err := cl.Explain(t.Context(), targets)
			errtest.ExpectNone(t, err)
			var text, encoded bytes.Buffer
			errtest.ExpectNone(t, report.Text(&text, explain.Style{Width: 80}))
			golden(t, filepath.Join("testdata/explain", strings.ReplaceAll(name, " ", "-")+".txt"), text.String(), *updateExplained)
			for line := range strings.Lines(text.String()) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 && !strings.HasPrefix(line, "    kubectl ") {
					t.Errorf("wider than 80 columns: %s", line)
				}
			}
			// A headline is a verdict, and rights are named once, at the end.
			if first, _, _ := strings.Cut(text.String(), "\n"); strings.Contains(first, "right") || strings.Count(flat(text.String()), "you lack the right") > 1 {
				t.Errorf("rights are not named once, at the end:\n%s", text.String())
			}
			errtest.ExpectNone(t, show.JSON(&encoded, report))
			var again explain.Report
			errtest.ExpectNone(t, json.Unmarshal(encoded.Bytes(), &again))
			var retold bytes.Buffer
			if err := again.Text(&retold, explain.Style{Width: 80}); err != nil || retold.String() != text.String() {
				t.Errorf("the JSON says something else: %v\n%s\nwant\n%s", err, retold.String(), text.String())
			}
		})
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string, update bool) {
	t.Helper()
	if update {
		errtest.ExpectNone(t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(file)
	errtest.ExpectNone(t, err)
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
		found, err := inspect.ParseObjects(strings.Fields(args))
		var names []string
		for _, o := range found {
			names = append(names, o.Kind+" "+o.Name)
		}
		if got := strings.Join(names, ","); (want == "!") != (err != nil) || err == nil && got != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
}

// docs/troubleshoot/explain.md shows a golden transcript of TestExplainOfACluster.
func TestTheDocsShowWhatExplainPrints(t *testing.T) {
	shown, err := os.ReadFile("testdata/explain/a-pod-with-an-older-sidecar.txt")
	errtest.ExpectNone(t, err)
	transcript.Recorded(t, "../docs/troubleshoot/explain.md", "a pod with an older sidecar", *updateExplained, func(string) string {
		return "$ kubectl pillion explain -n shop pod/web-5d8f-old\n" + string(shown)
	})
}

// flat is a text with one space in the place of each space and line end.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

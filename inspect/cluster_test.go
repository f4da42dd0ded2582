package inspect_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
)

func TestATemplateWhosePodsTheAPIServerRefusesIsNamed(t *testing.T) {
	t.Parallel()
	object := func(kind, metadata, status string) string {
		return "---\napiVersion: pillion.dev/v1alpha1\nkind: " + kind + "\nmetadata: {" + metadata + ", generation: 2}\nspec: {inject: {metadata: {labels: {a: b}}}}\n" +
			"status: {conditions: [{type: Accepted, reason: x, " + status + "}]}\n"
	}
	live := inspecttest.Live(t, inspecttest.Shop+
		object("SidecarTemplate", "name: bad", "status: 'False', observedGeneration: 2, message: \"template bad: one\\ntemplate bad: two\"")+
		object("SidecarTemplate", "name: mended", "status: 'False', observedGeneration: 1, message: old")+
		object("SidecarTemplate", "name: good", "status: 'True', observedGeneration: 2, message: fine")+
		object("SidecarTemplate", "name: unasked", "status: Unknown, observedGeneration: 2, message: nobody")+
		object("NamespacedSidecarTemplate", "name: own, namespace: shop", "status: 'False', observedGeneration: 2, message: own"), nil)
	const bad, own = "warning: template bad: one; template bad: two", "warning: own"
	for of, want := range map[inspect.Target][]string{
		{}:                                   {bad},
		{Template: "bad"}:                    {bad},
		{Template: "good"}:                   nil,
		{Namespace: "shop"}:                  {bad, own},
		{Namespace: "shop", Template: "own"}: {own},
		{Namespace: "cart"}:                  {bad},
	} {
		if got := live.AcceptanceWarnings(t.Context(), of); !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", of, got, want)
		}
	}
}

// A command that is pasted must not change the cluster of the current context, where flags chose
// another one.
func TestCommandsNameTheClusterThatFlagsChose(t *testing.T) {
	for text, want := range map[string]string{
		"kubectl -n shop rollout restart deployment/web":                                         "kubectl --kubeconfig /k --context 'a b' -n shop rollout restart deployment/web",
		"helm -n p rollback pillion $(helm -n p history pillion --max 1 | awk 'END {print $1}')": "helm --kubeconfig /k --kube-context 'a b' -n p rollback pillion $(helm --kubeconfig /k --kube-context 'a b' -n p history pillion --max 1 | awk 'END {print $1}')",
		"kubectl get x -o yaml | kubectl replace -f -":                                           "kubectl --kubeconfig /k --context 'a b' get x -o yaml | kubectl --kubeconfig /k --context 'a b' replace -f -",
		"pillion status --pillion-namespace pillion":                                             "pillion status --pillion-namespace pillion --kubeconfig /k --context 'a b'",
		"pillion policy a --cluster | kubectl apply -f -":                                        "pillion policy a --cluster --kubeconfig /k --context 'a b' | kubectl --kubeconfig /k --context 'a b' apply -f -",
		"curl http://127.0.0.1:8080/metrics":                                                     "curl http://127.0.0.1:8080/metrics",
		"kubectl annotate namespace a b=TEMPLATE && kubectl label namespace a c-":                "kubectl --kubeconfig /k --context 'a b' annotate namespace a b=TEMPLATE && kubectl --kubeconfig /k --context 'a b' label namespace a c-",
	} {
		if got := (inspect.Place{Kubeconfig: "/k", Context: "a b"}).Command(text); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if got := (inspect.Place{}).Command(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	a, shared := inspect.Place{Context: "prod"}, []string{"kubectl version"}
	explained := explain.Report{Notes: []explain.Note{{Remedy: shared}}, Pods: []explain.Pod{{}, {Running: &explain.Running{}}, {Running: &explain.Running{Remedy: "kubectl version"}}}}
	a.AddFlags(explained)
	if got := explained.Pods[2].Running.Remedy + explained.Pods[1].Running.Remedy + explained.Notes[0].Remedy[0]; got != "kubectl --context prod versionkubectl version" {
		t.Error(got)
	}
	where := inspect.Place{Namespace: "sidecars", Context: "prod"}
	if got := where.Args(); got != " --pillion-namespace sidecars --context prod" {
		t.Error(got)
	}
	if got := (inspect.Place{Namespace: "pillion-system"}).Args(); got != "" {
		t.Error(got)
	}
}

//go:embed testdata/pods.yaml
var ownPods string

func TestReplicasAreRunningPodsThatAreNotBeingDeleted(t *testing.T) {
	c := inspecttest.Cluster(t, ownPods, inspecttest.Options{Place: inspect.Place{Namespace: "own"}})
	replicas, notRunning, err := c.FindReplicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range replicas {
		names = append(names, r.Name())
	}
	if got := strings.Join(names, " "); got != "running" {
		t.Errorf("the replicas are %q", got)
	}
	if !slices.Equal(notRunning, []string{"not running: evicted: Failed: Evicted", "not running: pending: Pending: ImagePullBackOff: no such image"}) {
		t.Errorf("of the other pods is said %q", notRunning)
	}
}

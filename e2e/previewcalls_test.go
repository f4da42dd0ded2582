package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestControllersCauseNoPreviews(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), open())
	must(t, workloadOf("Deployment", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	must(t, workloadOf("Job", "once", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	settled := func(generation string, pods int) {
		t.Helper()
		eventually(t, soon, func() error {
			d, err := client.AppsV1().Deployments(n.name).Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil && (d.Status.ObservedGeneration != d.Generation || d.Annotations["deployment.kubernetes.io/revision"] != generation || int(d.Status.Replicas) != pods) {
				err = fmt.Errorf("the Deployment has not settled: %s", pretty(d.Status))
			}
			return err
		})
	}
	settled("1", 1)
	// Neither scaling nor a label of somebody else's changes what pods meet.
	must(t, "", "kubectl", "-n", n.name, "scale", "deployment", "web", "--replicas=3")
	must(t, "", "kubectl", "-n", n.name, "label", "deployment", "web", "team=any")
	settled("1", 3)
	must(t, "", "kubectl", "-n", n.name, "set", "image", "deployment/web", "app=nginx:1.30")
	settled("2", 4) // one more than wanted: none becomes ready here
	if _, err := client.AppsV1().Deployments(n.name).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const byPeople = 4 // the namespace, the Deployment, the Job, the new image
	if got := n.reviews(t, "preview", byPeople); got != byPeople {
		t.Errorf("%d previews, want %d", got, byPeople)
	}
}

// Where nothing can come of it, API servers themselves say so.
func TestWhoAsksWherePillionIsNotCalledIsWarned(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	must(t, workloadOf("Pod", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	for _, excluded := range []string{"kube-system", "pillion-system"} {
		none := "the annotation pillion.dev/inject has no effect in the namespace " + excluded + ": it is excluded"
		wantWarnings(t, kubectlSays(t, "", "annotate", "namespace", excluded, "pillion.dev/inject=fluent-bit", "--dry-run=server"), none)
		wantWarnings(t, kubectlSays(t, "", "annotate", "namespace", excluded, "pillion.dev/inject=false", "--dry-run=server"))
		in := &namespace{name: excluded}
		for _, kind := range []string{"Deployment", "CronJob", "Pod"} {
			wantWarnings(t, in.applyDry(t, workloadOf(kind, "asks", "", "pillion.dev/inject: fluent-bit", "")), none)
		}
	}
	// A running pod.
	wantWarnings(t, kubectlSays(t, "", "-n", n.name, "annotate", "pod", "web", "pillion.dev/inject=fluent-bit"), "the pod web stays as it is: the annotation pillion.dev/inject is read only when a pod is created")
	wantWarnings(t, kubectlSays(t, "", "-n", n.name, "annotate", "pod", "web", "example.com/inject=fluent-bit"))
	wantWarnings(t, kubectlSays(t, "", "-n", n.name, "label", "pod", "web", "team=web"))
	// Prefixes that look like Pillion's, once.
	for _, key := range []string{"pillion.io/inject", "pilion.dev/inject", "pillions.dev/inject", "pillino.dev/inject", "pillion/inject"} {
		wantWarnings(t, kubectlSays(t, "", "annotate", "namespace", n.name, key+"=fluent-bit"), "the annotation "+key+" is not recognised by Pillion; did you mean pillion.dev/inject?")
		wantWarnings(t, n.applyDry(t, workloadOf("Deployment", "asks", "", key+": fluent-bit", "")), "the annotation "+key+" is not recognised")
	}
	for _, key := range []string{"sidecar.istio.io/inject", "linkerd.io/inject", "example.com/inject", "pillion.example.com/inject", "pillion.io/injects"} {
		wantWarnings(t, kubectlSays(t, "", "annotate", "namespace", n.name, key+"=true"))
	}
	if got := n.reviews(t, "preview", 0); got != 0 {
		t.Errorf("%d previews in a namespace that never asked", got)
	}
	// The label alone, as for another injector.
	wantWarnings(t, kubectlSays(t, "", "label", "namespace", n.name, injectionLabel+"=enabled"), "namespace "+n.name+": the label "+injectionLabel+" requests no sidecar")
}

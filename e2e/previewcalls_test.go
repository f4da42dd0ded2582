package e2e

import (
	"testing"
)

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
	// The pod of a controller: nobody reads warnings when it is created, and its later annotations are a hand's.
	wantWarnings(t, n.applyDry(t, `{apiVersion: v1, kind: Pod, metadata: {name: replica, labels: {pod-template-hash: x}, annotations: {pillion.io/inject: fluent-bit}}, spec: {containers: [{name: app, image: nginx}]}}`))
	must(t, "", "kubectl", "-n", n.name, "label", "pod", "web", "pod-template-hash=x")
	wantWarnings(t, kubectlSays(t, "", "-n", n.name, "annotate", "pod", "web", "pillion.dev/inject=git-sync", "--overwrite"), "the pod web stays as it is")
	// Prefixes that look like Pillion's, once.
	for _, key := range []string{"pillion.io/inject", "pilion.dev/inject", "pillions.dev/inject", "pillino.dev/inject", "pillion/inject"} {
		wantWarnings(t, kubectlSays(t, "", "annotate", "namespace", n.name, key+"=fluent-bit"), "the annotation "+key+" is not recognised by Pillion; did you mean pillion.dev/inject?")
		wantWarnings(t, n.applyDry(t, workloadOf("Deployment", "asks", "", key+": fluent-bit", "")), "the annotation "+key+" is not recognised")
	}
	for _, key := range []string{"sidecar.istio.io/inject", "linkerd.io/inject", "example.com/inject", "pillion.example.com/inject", "pillion.io/injects"} {
		wantWarnings(t, kubectlSays(t, "", "annotate", "namespace", n.name, key+"=true"))
	}
	// The label alone, as for another injector.
	wantWarnings(t, kubectlSays(t, "", "label", "namespace", n.name, injectionLabel+"=enabled"), "namespace "+n.name+": the label "+injectionLabel+" requests no sidecar")
}

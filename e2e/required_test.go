package e2e

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// newRequired applies a template that namespaces with the returned label cannot opt out
// of, and returns one of them.
func newRequired(t *testing.T, labels map[string]string) (m manifest, n *namespace) {
	t.Helper()
	return newRequiredBy(t, sidecarSpec, labels)
}

// newRequiredBy is newRequired for a template of that spec, which does not say where it is
// required.
func newRequiredBy(t *testing.T, spec string, labels map[string]string) (m manifest, n *namespace) {
	t.Helper()
	team := unique("team")
	m = requiredFor(team, spec)
	m.apply(t)
	all := map[string]string{"team": team}
	maps.Copy(all, labels)
	waitRequired(t, all)
	n = newNamespace(t, nil, all)
	injects(t, n, m.name)
	return m, n
}

// waitRequired waits until a namespace that is created with these labels gets Pillion's label
// in the same write: then its pods are verified from the first one.
func waitRequired(t *testing.T, labels map[string]string) {
	t.Helper()
	eventually(t, soon, func() error {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("e2e"), Labels: labels}}
		got, err := client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Labels[requiredLabel] != "true" {
			err = fmt.Errorf("a new namespace has the labels %v", got.Labels)
		}
		return err
	})
}

func TestPodsCannotOptOutOfARequiredTemplate(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, nil)
	for i, annotations := range []map[string]string{asking("false"), asking("-" + m.name), asking("fluent-bit")} {
		if got := n.mustCreate(t, newPod(fmt.Sprint("web-", i), annotations)); sidecar(got, m.name) == nil {
			t.Errorf("a pod that says %v has the containers %s", annotations, containerNames(got))
		}
	}
	set := newPod("set", map[string]string{m.name + ".pillion.dev/log-level": "debug"})
	wantNoError(t, forbiddenWith(errorOf(n.create(t, set)), "may be set by nobody"))
	wantNoError(t, refusedWith(attempt(t, "", "kubectl", "delete", "sidecartemplate", m.name), "it is required"))
}

// firstPod creates a pod in a namespace that was made just now. It has a service account of its own, so that it waits
// for no controller.
func firstPod(t *testing.T, c kubernetes.Interface, namespace string) (*corev1.Pod, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	wantNoError(t, errorOf(c.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})))
	pod := newPod("web", nil)
	pod.Spec.ServiceAccountName = account.Name
	return c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
}

// An attacker's many fresh namespaces in a second, each with a pod as soon as it can be.
func TestNoPodOfFreshNamespacesGoesWithoutTheRequiredSidecar(t *testing.T) {
	t.Parallel()
	maker, team := asMaker(t), unique("team")
	m := requiredFor(team, sidecarSpec)
	m.apply(t)
	waitRequired(t, map[string]string{"team": team})
	const namespaces = 30
	bare := make([]string, namespaces)
	var group sync.WaitGroup
	for i := range namespaces {
		group.Go(func() {
			made, err := makeNamespace(t, maker, metav1.ObjectMeta{Labels: map[string]string{"team": team, nameLabel: "kube-system"}}, metav1.CreateOptions{})
			if err != nil {
				bare[i] = err.Error()
				return
			}
			created, err := firstPod(t, maker, made.Name)
			if err == nil && sidecar(created, m.name) == nil {
				bare[i] = fmt.Sprintf("the pod of %s has the containers %s", made.Name, containerNames(created))
			}
		})
	}
	group.Wait()
	for _, what := range bare {
		if what != "" {
			t.Error(what)
		}
	}
}

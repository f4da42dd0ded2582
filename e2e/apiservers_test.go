package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// withSeveralAPIServers begins the names of tests that need API_SERVERS=3: three kube-apiservers, and
// three replicas behind one ClusterIP. Each replica tries another API server first.
const withSeveralAPIServers = "TestWithSeveralAPIServers"

// An apiServer is one of them, with a client of an admin that talks to it alone.
type apiServer struct {
	*ground.APIServer
	number int
	client kubernetes.Interface
}

// apiServers are all of them, with as many replicas. They are healthy again after the test.
func apiServers(t *testing.T) []*apiServer {
	t.Helper()
	g := shared.(*ground.ControlPlane)
	var all []*apiServer
	for i, s := range g.APIServers() {
		_, c, err := measure.Connect(s.Kubeconfig)
		expectNoError(t, err)
		all = append(all, &apiServer{s, i + 1, c})
	}
	if len(g.Replicas(ground.Namespace)) != len(all) {
		expectNoError(t, g.Scale(t.Context(), ground.Namespace, len(all)))
	}
	t.Cleanup(func() {
		for _, s := range all {
			_ = s.Signal(syscall.SIGCONT) // an error means that it is stopped, and the test says so
		}
	})
	return all
}

// newPlace makes a namespace through the API server, with a service account of its own, so that pods
// need no controller. It returns the namespace's name, and a function that makes a pod for it.
func (s *apiServer) newPlace(t *testing.T, annotations, labels map[string]string) (string, func(name string) *corev1.Pod) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("e2e"), Annotations: annotations, Labels: labels}}
	temporary(t, s.client.CoreV1().Namespaces(), object)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	create(t, s.client.CoreV1().ServiceAccounts(object.Name), account)
	return object.Name, func(name string) *corev1.Pod {
		pod := newPod(name, nil)
		pod.Spec.ServiceAccountName = account.Name
		return pod
	}
}

// create creates the pod through this API server.
func (s *apiServer) create(ctx context.Context, namespace string, pod *corev1.Pod, o metav1.CreateOptions) (*corev1.Pod, error) {
	made, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, o)
	if err != nil {
		err = fmt.Errorf("through API server %d: %w", s.number, err)
	}
	return made, err
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// injects waits until this API server has pods of the namespace injected.
func (s *apiServer) injects(t *testing.T, namespace, name string) time.Duration {
	t.Helper()
	return eventually(t, soon, func() error {
		pod, err := s.create(t.Context(), namespace, newPod("web", nil), dryRun)
		if err == nil && sidecar(pod, name) == nil {
			err = fmt.Errorf("through API server %d a pod has no %s", s.number, name)
		}
		return err
	})
}

// What reaches one address goes on through the other API servers.
func TestWithSeveralAPIServersOneMayBeAway(t *testing.T) {
	all := apiServers(t)
	n := newNamespace(t, asking("fluent-bit"), enforced())
	for _, s := range all {
		s.injects(t, n.name, "fluent-bit")
	}
	all[0].Stop(t.Context(), 0)
	for _, s := range all[1:] {
		t.Logf("API server 1 is away: pods through API server %d are injected within %s", s.number, s.injects(t, n.name, "fluent-bit"))
	}
	eventually(t, soon, func() error { return errorOf(ground.Run(t.Context(), shared, "kubectl", "get", "namespace", n.name)) })
	expectNoError(t, all[0].Start(t.Context()))
	all[0].injects(t, n.name, "fluent-bit")
	for _, r := range shared.Replicas(ground.Namespace) {
		eventually(t, soon, func() error { return metric(r, `pillion_cache_state{`, `state="current"`, " 1") })
	}
}

// late is how much later API servers 2 and 3 learn of changes, and the replicas that prefer them.
const late = 300 * time.Millisecond

// behind has all API servers but the first learn of changes late, until the test ends.
func behind(t *testing.T, all []*apiServer) {
	t.Helper()
	for _, s := range all[1:] {
		s.Lag(late)
	}
	t.Cleanup(func() {
		for _, s := range all[1:] {
			s.Lag(0)
		}
	})
}

// A namespace that an API server has not seen yet is read live by it.
func TestWithSeveralAPIServersAPodOfANewNamespaceIsInjectedThroughEachAtOnce(t *testing.T) {
	all := apiServers(t)
	behind(t, all)
	for i := range all {
		name, pod := all[0].newPlace(t, asking("fluent-bit"), nil)
		for k := range all {
			s := all[(i+k)%len(all)]
			if got, err := s.create(t.Context(), name, pod(fmt.Sprint("web-", s.number)), metav1.CreateOptions{}); err != nil || sidecar(got, "fluent-bit") == nil {
				t.Errorf("the first pod through API server %d has the containers %s (%v)", s.number, containerNames(got), err)
			}
		}
	}
}

// An API server that hangs has old caches for a moment when it goes on.
func TestWithSeveralAPIServersNoPodGetsPastARequiredTemplateThroughOneThatHung(t *testing.T) {
	all := apiServers(t)
	m, n := newRequired(t, nil)
	for _, s := range all {
		s.injects(t, n.name, m.name)
	}
	hung := all[1]
	for round := range 3 {
		expectNoError(t, hung.Signal(syscall.SIGSTOP))
		// The sidecar changes meanwhile, and a namespace comes under the template.
		m.spec = strings.ReplaceAll(m.spec, fmt.Sprint("NAME:", round+1), fmt.Sprint("NAME:", round+2))
		must(t, m.yaml(), "kubectl", "apply", "-f", "-")
		fresh, pod := all[0].newPlace(t, nil, map[string]string{"team": n.labels(t)["team"]})
		for _, s := range []*apiServer{all[0], all[2]} {
			// A replica that reads from the one that hangs knows the sidecar of before, refuses the pod, and
			// the pod's controller tries again.
			eventually(t, soon, func() error {
				got, err := s.create(t.Context(), fresh, pod("web"), dryRun)
				if err == nil && sidecar(got, m.name) == nil {
					t.Errorf("while API server %d hangs, a pod through %d has the containers %s", hung.number, s.number, containerNames(got))
				}
				return err
			})
		}
		if round == 0 {
			time.Sleep(6 * time.Second) // the replica that talked to it notices
		}
		expectNoError(t, hung.Signal(syscall.SIGCONT))
		for i := range 40 {
			for _, in := range []string{n.name, fresh} {
				web := pod(fmt.Sprint("web-", i))
				web.Annotations = asking("false")
				if in == n.name {
					web.Spec.ServiceAccountName = ""
				}
				got, err := hung.create(t.Context(), in, web, dryRun)
				if err != nil || sidecar(got, m.name) == nil {
					t.Errorf("pod %d of %s has the containers %s (%v)", i, in, containerNames(got), err)
				}
			}
		}
	}
	eventually(t, soon, func() error { return proven("1") })
}

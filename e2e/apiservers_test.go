package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// withSeveralAPIServers begins the names of tests that need API_SERVERS=3: three kube-apiservers, and
// three replicas behind one ClusterIP, of which each prefers another API server.
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
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &apiServer{s, i + 1, c})
	}
	if len(g.Replicas(ground.Namespace)) != len(all) {
		if err := g.Scale(t.Context(), ground.Namespace, len(all)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(g)
		}
	})
	return all
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
	eventually(t, soon, func() error {
		_, err := ground.Run(t.Context(), shared, "kubectl", "get", "namespace", n.name)
		return err
	})
	if err := all[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	all[0].injects(t, n.name, "fluent-bit")
	for _, r := range shared.Replicas(ground.Namespace) {
		eventually(t, soon, func() error { return metric(r, `pillion_cache_state{`, `state="current"`, " 1") })
	}
}

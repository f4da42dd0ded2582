package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	expectNoError(t, err)
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), object.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	_, err = s.client.CoreV1().ServiceAccounts(object.Name).Create(t.Context(), account, metav1.CreateOptions{})
	expectNoError(t, err)
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

// One of them may be the one that does not call Pillion. Each replica has a token of its own.
func TestWithSeveralAPIServersTheProofsOfAReplicaAskAnyOfThem(t *testing.T) {
	all := apiServers(t)
	took := eventually(t, 4*soon, func() error {
		asked := map[string]map[int]bool{}
		for _, s := range all {
			log, err := os.ReadFile(s.AuditLog)
			if err != nil {
				return err
			}
			for line := range bytes.Lines(log) {
				var entry struct {
					Verb      string
					ObjectRef struct{ Resource, Namespace string }
					User      struct{ Extra map[string][]string }
				}
				err := json.Unmarshal(line, &entry) // the last line may be half of one
				if of := entry.ObjectRef; err != nil || entry.Verb != "create" || of.Resource != "pods" || of.Namespace != proofNamespace {
					continue
				}
				token := fmt.Sprint(entry.User.Extra["authentication.kubernetes.io/credential-id"])
				if asked[token] == nil {
					asked[token] = map[int]bool{}
				}
				if asked[token][s.number] = true; len(asked[token]) > 1 {
					return nil
				}
			}
		}
		return fmt.Errorf("each replica has asked one: %v", asked)
	})
	t.Attr("asked", took.String())
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

// loads begins a load through each API server of pods that get a sidecar of that name. Call the
// result to end them: no pod may be refused or bare.
func loads(t *testing.T, all []*apiServer, n *namespace, name string) (end func()) {
	t.Helper()
	var each []*podLoad
	for _, s := range all {
		s.injects(t, n.name, name)
		each = append(each, underLoad(t, &namespace{name: n.name, client: s.client}, name))
	}
	return func() {
		t.Helper()
		for i, l := range each {
			l.stop(t)
			t.Attr(fmt.Sprintf("pods-through-API-server-%d", i+1), l.String())
			if l.counts()[injected] < 10 {
				t.Errorf("pods through API server %d: %s; want many", i+1, l)
			}
		}
	}
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

// The API server that took the annotation calls Pillion as soon as its own watch has brought the label, a
// few milliseconds later. Whichever replica answers has its cache contradicted by the entry. The others
// call it when they have seen the label.
func TestWithSeveralAPIServersPodsOfAnAnnotatedNamespaceAreInjectedOnceTheAPIServerHasSeenIt(t *testing.T) {
	all := apiServers(t)
	n := newNamespace(t, nil, nil)
	for _, s := range all {
		eventually(t, soon, func() error {
			_, err := s.create(t.Context(), n.name, newPod("web", nil), dryRun)
			return err
		})
	}
	behind(t, all)
	patch := []byte(`{"metadata":{"annotations":{"pillion.dev/inject":"fluent-bit"}}}`)
	_, err := all[0].client.CoreV1().Namespaces().Patch(t.Context(), n.name, types.MergePatchType, patch, metav1.PatchOptions{})
	expectNoError(t, err)
	began := time.Now()
	seen := eventually(t, soon, func() error {
		pod, err := all[0].create(t.Context(), n.name, newPod("web", nil), dryRun)
		if err == nil && sidecar(pod, "fluent-bit") == nil {
			err = fmt.Errorf("a pod has the containers %s", containerNames(pod))
		}
		return err
	})
	t.Attr("injected-through-API-server-1", fmt.Sprintf("after %s", seen))
	var pods sync.WaitGroup
	for range 20 { // on as many connections, to all replicas
		pods.Go(func() {
			if pod, err := all[0].create(t.Context(), n.name, newPod("web", nil), dryRun); err != nil || sidecar(pod, "fluent-bit") == nil {
				t.Errorf("once the API server has seen the label, a pod has the containers %s (%v)", containerNames(pod), err)
			}
		})
	}
	for _, s := range all[1:] {
		pods.Go(func() {
			var last time.Duration
			for time.Since(began) < late+2*time.Second {
				asked := time.Since(began)
				pod, err := s.create(t.Context(), n.name, newPod("web", nil), dryRun)
				if err != nil {
					t.Errorf("%s after the annotation: %v", asked, err)
				} else if sidecar(pod, "fluent-bit") == nil {
					last = asked
				}
			}
			t.Attr(fmt.Sprintf("bare-through-API-server-%d", s.number), fmt.Sprintf("until %s; it is %s late", last, late))
			if last > late+time.Second {
				t.Errorf("pods through API server %d were bare until %s after the annotation, want about %s", s.number, last, late)
			}
		})
	}
	pods.Wait()
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
		fresh, pod := all[0].newPlace(t, nil, map[string]string{"team": labelOf(t, n.name, "team")})
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

// labelOf is the value of a namespace's label.
func labelOf(t *testing.T, namespace, key string) string {
	t.Helper()
	object, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	expectNoError(t, err)
	return object.Labels[key]
}

// Certificates live for seconds, so that the test holds what a cluster meets in years.
func TestWithSeveralAPIServersNoPodIsLostWhileCertificatesAreReplaced(t *testing.T) {
	all := apiServers(t)
	settings := func(args ...string) {
		t.Helper()
		must(t, "", "helm", append([]string{"upgrade", ground.Release, checkout.Chart(), "-n", ground.Namespace}, args...)...)
		ctx := context.Background()
		err := shared.Scale(ctx, ground.Namespace, 0)
		deleted := client.CoreV1().Secrets(ground.Namespace).Delete(ctx, caSecret, metav1.DeleteOptions{}) // its CA lives for a year
		if err := errors.Join(err, deleted, shared.Scale(ctx, ground.Namespace, len(all))); err != nil {
			t.Error(err)
		}
	}
	settings(append(slices.Clone(installed), flags([]string{"shutdown.delaySeconds=0", "certs.caDuration=20s", "certs.leafDuration=6s", "certs.settle=1s"})...)...)
	defer func() { settings(installed...) }()
	r := &rotating{home: ground.Namespace, webhooks: ground.Release, server: ground.Release + "." + ground.Namespace + ".svc", leaves: map[string]bool{}, cas: map[string]bool{}}
	n := newNamespace(t, asking("fluent-bit"), enforced())
	behind(t, all)
	end := loads(t, all, n, "fluent-bit")
	took := eventually(t, 2*soon, func() error {
		if err := r.verified(t.Context()); err != nil {
			return err
		}
		if len(r.cas) < 3 || len(r.leaves) < 9 {
			return fmt.Errorf("%d certificates of %d CAs were served, want 9 of 3", len(r.leaves), len(r.cas))
		}
		return nil
	})
	t.Attr("certificates", fmt.Sprintf("%d of %d CAs in %s", len(r.leaves), len(r.cas), took))
	end()
}

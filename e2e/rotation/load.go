package rotation

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// The namespaces of the pods: where a failing webhook refuses them, and where it lets
// them through.
const (
	enforcedNamespace = "rotation-enforced"
	openNamespace     = "rotation-open"
)

// sidecar is the container that every pod is to get.
const sidecar = "fluent-bit"

// newPod is a pod that nobody has created yet.
func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "rotation-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}},
	}
}

// create sends a pod by server-side dry run, and says whether it came back injected.
func create(ctx context.Context, client kubernetes.Interface, namespace string) (injected bool, err error) {
	pod, err := client.CoreV1().Pods(namespace).Create(ctx, newPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false, err
	}
	return measure.Container(pod, sidecar) != nil, nil
}

// makeNamespaces makes both, and returns when every API server has pods injected in both.
func makeNamespaces(ctx context.Context, clients []kubernetes.Interface) error {
	for name, labels := range map[string]map[string]string{enforcedNamespace: {"pillion.dev/injection": "enforced"}, openNamespace: {"pillion.dev/injection": "enabled"}} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"pillion.dev/inject": sidecar}}}
		if _, err := clients[0].CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	want, err := configurationVersions(ctx, clients[0], metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i, client := range clients {
		if err := measure.Within(ctx, 30*time.Second, func() error { return knows(ctx, client, want) }); err != nil {
			return fmt.Errorf("API server %d: %w", i+1, err)
		}
	}
	time.Sleep(grace)
	for i, client := range clients {
		for _, name := range []string{enforcedNamespace, openNamespace} {
			err := measure.Within(ctx, 30*time.Second, func() error {
				injected, err := create(ctx, client, name)
				if err == nil && !injected {
					err = fmt.Errorf("a pod in %s is not injected", name)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("API server %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// knows is nil if the API server's own cache, by which it calls webhooks, has the
// configurations in these versions or later ones. A pod that it has injected does not
// tell: it may be about to learn of a damage that is healed for the others.
func knows(ctx context.Context, client kubernetes.Interface, want map[string]uint64) error {
	versions, err := configurationVersions(ctx, client, metav1.ListOptions{ResourceVersion: "0"})
	for kind, version := range want {
		if err == nil && versions[kind] < version {
			err = fmt.Errorf("the %s webhook configuration %s is shown in version %d, and is in version %d", kind, configurationName, versions[kind], version)
		}
	}
	return err
}

// configurationVersions are the resourceVersions of Pillion's configurations by their kind.
func configurationVersions(ctx context.Context, client kubernetes.Interface, o metav1.ListOptions) (map[string]uint64, error) {
	mutating, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, o)
	if err != nil {
		return nil, err
	}
	validating, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, o)
	if err != nil {
		return nil, err
	}
	versions := map[string]uint64{}
	for _, c := range mutating.Items {
		if c.Name == configurationName {
			versions["mutating"] = revision(c.ResourceVersion)
		}
	}
	for _, c := range validating.Items {
		if c.Name == configurationName {
			versions["validating"] = revision(c.ResourceVersion)
		}
	}
	return versions, nil
}

// outcome is what became of a pod that was not created as it should.
type outcome struct {
	began, ended time.Time
	namespace    string
	apiServer    int
	err          error // nil: created without its sidecar
}

func (o outcome) String() string {
	what := "created without its sidecar"
	if o.err != nil {
		what = o.err.Error()
	}
	return fmt.Sprintf("%s, through API server %d in %s: %s", o.began.Format("15:04:05.000"), o.apiServer+1, o.namespace, what)
}

// load is the clients that create pods.
type load struct {
	clients []kubernetes.Interface // one for each API server

	// gate is held for reading while a pod is created: who holds it for writing has all
	// clients wait.
	gate sync.RWMutex

	mu    sync.Mutex
	tried int
	bad   []outcome
}

// Each client creates at most ten pods a second. Those of an API server that is late have
// to wait for it, so there are more of them.
const (
	clientsFirst, clientsLate = 2, 6
	pace                      = 100 * time.Millisecond
)

// run creates pods until ctx ends.
func (l *load) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range l.clients {
		each := clientsFirst
		if i > 0 {
			each = clientsLate
		}
		for _, namespace := range []string{enforcedNamespace, openNamespace} {
			for range each {
				all.Go(func() {
					measure.Every(ctx, pace, func() { l.try(context.WithoutCancel(ctx), i, namespace) })
				})
			}
		}
	}
	all.Wait()
}

func (l *load) try(ctx context.Context, apiServer int, namespace string) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	began := time.Now()
	injected, err := create(ctx, l.clients[apiServer], namespace)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried++
	if err != nil || !injected {
		l.bad = append(l.bad, outcome{began, time.Now(), namespace, apiServer, err})
	}
}

// take returns the bad outcomes since the last call, and how many pods were tried in all.
func (l *load) take() (bad []outcome, tried int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bad, l.bad = l.bad, nil
	return bad, l.tried
}

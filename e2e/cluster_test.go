package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

const (
	injectAnnotation = "pillion.dev/inject"
	statusAnnotation = "pillion.dev/status"
	injectionLabel   = "pillion.dev/injection"
	requiredLabel    = "pillion.dev/required"
)

// soon bounds what should take about a second, on a machine that may be busy.
const soon = 20 * time.Second

// eventually calls try until it returns nil, and fails the test with its last error when
// limit is over. It returns how long it took.
func eventually(t *testing.T, limit time.Duration, try func() error) time.Duration {
	t.Helper()
	began := time.Now()
	if err := measure.Within(context.Background(), limit, try); err != nil { // cleanups wait, too
		t.Fatal(err)
	}
	return time.Since(began)
}

// expectNoError ends the test where err is one, as framework.ExpectNoError does in Kubernetes' own e2e.
func expectNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantNoError fails the test where err is an error, and lets it go on. What tells when it came.
func wantNoError(t *testing.T, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Error(append(what, err)...)
	}
}

// errorOf is the error of a call whose other result does not matter.
func errorOf[T any](_ T, err error) error { return err }

// refusedWith is nil for an error that has each of the texts.
func refusedWith(err error, texts ...string) error {
	if err == nil {
		return fmt.Errorf("it is not refused, want an error with %q", texts)
	}
	return lacks(err.Error(), texts...)
}

// forbiddenWith is refusedWith for what an API server forbids.
func forbiddenWith(err error, texts ...string) error {
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("the error is %w, want that it is forbidden", err)
	}
	return refusedWith(err, texts...)
}

// refusedByPolicy is refusedWith for a denial by a ValidatingAdmissionPolicy.
func refusedByPolicy(err error) error {
	return refusedWith(err, "ValidatingAdmissionPolicy '", "denied request")
}

// lacks is nil if what somebody says has each of the texts.
func lacks(says string, texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(says, text) {
			return fmt.Errorf("%q is not in\n%s", text, says)
		}
	}
	return nil
}

// wantTexts fails the test unless what somebody says has each of the texts.
func wantTexts(t *testing.T, who, says string, texts ...string) {
	t.Helper()
	wantNoError(t, lacks(says, texts...), who)
}

// inOneLine is text with one space for all spaces and line ends.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// atTheEnd does something when the test ends, whose own context is over by then.
func atTheEnd(t *testing.T, do func(ctx context.Context) error) {
	t.Helper()
	t.Cleanup(func() { wantNoError(t, do(context.Background())) })
}

// create makes an object by a typed client, such as client.CoreV1().Secrets(namespace).
func create[T any](t *testing.T, api interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
}, object T) T {
	t.Helper()
	made, err := api.Create(t.Context(), object, metav1.CreateOptions{})
	expectNoError(t, err)
	return made
}

// temporary is create for an object that goes with the test.
func temporary[T metav1.Object](t *testing.T, api interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}, object T) T {
	t.Helper()
	made := create(t, api, object)
	atTheEnd(t, func(ctx context.Context) error { return api.Delete(ctx, made.GetName(), metav1.DeleteOptions{}) })
	return made
}

// run runs one of the ground's tools ("kubectl", "helm", "pillion") and returns what it
// wrote to each stream.
func run(t *testing.T, input, tool string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return ground.Exec(t.Context(), shared, input, tool, args...)
}

// attempt is run for a command of which only the error matters. It has what the tool wrote.
func attempt(t *testing.T, input, tool string, args ...string) error {
	t.Helper()
	_, _, err := run(t, input, tool, args...)
	return err
}

// must is run for a command that has to succeed; it returns standard output.
func must(t *testing.T, input, tool string, args ...string) string {
	t.Helper()
	stdout, _, err := run(t, input, tool, args...)
	expectNoError(t, err)
	return stdout
}

// A namespace is one test's own place in the cluster, removed after the test.
type namespace struct {
	name     string
	client   kubernetes.Interface // gathers warnings
	warnings *warnings
}

// warnings are those that the API server sent to one client.
type warnings struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// take returns the warnings since the last call, one a line.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.text, "\n")
	w.text = nil
	return text
}

// unique is a name that no other test has.
func unique(prefix string) string { return prefix + "-" + rand.String(6) }

// newNamespace makes a namespace in which pods can be created.
func newNamespace(t *testing.T, annotations, labels map[string]string) *namespace {
	t.Helper()
	return newNamespaceCalled(t, unique("e2e"), annotations, labels)
}

// newNamespaceCalled is newNamespace with a given name.
func newNamespaceCalled(t *testing.T, name string, annotations, labels map[string]string) *namespace {
	t.Helper()
	w := &warnings{}
	own := rest.CopyConfig(config)
	own.WarningHandler = w
	c, err := kubernetes.NewForConfig(own)
	expectNoError(t, err)
	temporary(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: labels}})
	eventually(t, soon, func() error {
		return errorOf(c.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{}))
	})
	w.take() // a test of the namespace's own annotation has its own client
	return &namespace{name: name, client: c, warnings: w}
}

// asking is a namespace annotation that asks for templates.
func asking(names string) map[string]string { return map[string]string{injectAnnotation: names} }

// enforced is the label of a namespace that fails closed, set by hand, and open that of one
// that stays open whatever Pillion proves.
func enforced() map[string]string { return map[string]string{injectionLabel: "enforced"} }

func open() map[string]string { return map[string]string{injectionLabel: "enabled"} }

// newPod is a pod with one container, app, that nobody has created yet.
func newPod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}},
	}
}

// create sends a pod to the API server and returns it as it was stored.
func (n *namespace) create(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return n.client.CoreV1().Pods(n.name).Create(t.Context(), pod, metav1.CreateOptions{})
}

// mustCreate is create for a pod that has to be admitted.
func (n *namespace) mustCreate(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	stored, err := n.create(t, pod)
	if err != nil {
		t.Fatalf("creating pod %s: %v", pod.Name, err)
	}
	return stored
}

// preview is create by dry run.
func (n *namespace) preview(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return n.client.CoreV1().Pods(n.name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// waitPods waits until the namespace has so many pods that a label selector finds.
func (n *namespace) waitPods(t *testing.T, count int, selector string) (pods []corev1.Pod) {
	t.Helper()
	eventually(t, soon, func() error {
		list, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err == nil && len(list.Items) != count {
			err = fmt.Errorf("%d pods of %q, want %d", len(list.Items), selector, count)
		}
		pods = list.Items
		return err
	})
	return pods
}

// previews waits until the pod, by dry run, is as want says, and returns how long that took.
func (n *namespace) previews(t *testing.T, limit time.Duration, in *corev1.Pod, want func(*corev1.Pod) bool) time.Duration {
	t.Helper()
	return eventually(t, limit, func() error {
		pod, err := n.preview(t, in)
		if err == nil && !want(pod) {
			err = fmt.Errorf("the pod is %s", pretty(pod))
		}
		return err
	})
}

// sidecar is the container of that name, init or app, nil if the pod has none.
func sidecar(pod *corev1.Pod, name string) *corev1.Container {
	return measure.Container(pod, name)
}

// containerNames are the names of init and app containers, in their order.
func containerNames(pod *corev1.Pod) string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

func environment(c *corev1.Container, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// A manifest is a SidecarTemplate to be applied. Its name is that of its sidecar.
type manifest struct {
	name string
	spec string // YAML, not indented; NAME stands for the name
}

func (m manifest) yaml() string {
	return "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + m.name + "}\nspec:" +
		strings.ReplaceAll(strings.ReplaceAll(strings.TrimRight(m.spec, "\n"), "\n", "\n  "), "NAME", m.name) + "\n"
}

// apply applies the template with kubectl and removes it after the test.
func (m manifest) apply(t *testing.T) {
	t.Helper()
	must(t, m.yaml(), "kubectl", "apply", "-f", "-")
	atTheEnd(t, func(ctx context.Context) error {
		// Namespaces of the test may still name it; it may be gone already.
		_, _ = ground.Run(ctx, shared, "kubectl", "annotate", "sidecartemplate", m.name, "pillion.dev/allow-delete=true")
		return errorOf(ground.Run(ctx, shared, "kubectl", "delete", "sidecartemplate", m.name, "--ignore-not-found"))
	})
}

// served applies a template of a new name and waits until pods get it.
func served(t *testing.T, spec string) manifest {
	t.Helper()
	m := manifest{name: unique("side"), spec: spec}
	m.apply(t)
	injects(t, newNamespace(t, asking(m.name), open()), m.name)
	return m
}

// newTemplate is the name of a served template with sidecarSpec.
func newTemplate(t *testing.T) string {
	t.Helper()
	return served(t, sidecarSpec).name
}

// metric is nil if a line of the replica's metrics has all of texts.
func metric(r ground.Replica, texts ...string) error {
	_, metrics, err := asked(r, "/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(metrics) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return nil
		}
	}
	return fmt.Errorf("no metric of %s has all of %q", r.Name, texts)
}

// pretty is an object as JSON, for messages.
func pretty(object any) string {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

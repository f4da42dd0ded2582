package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/charts"
)

// libraryCase is one of the cases that a library template ships, whose pod is
// admitted and whose installer's values are none.
type libraryCase struct {
	template, name string
	// annotations are the namespace's.
	annotations map[string]string
	pod         *corev1.Pod
	// injected tells whether the template adds anything to the pod.
	injected bool
}

// readYAML is fromYAML for a file that may be missing, which it reports.
func readYAML(t *testing.T, path string, into any) bool {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	fromYAML(t, path, into)
	return true
}

// libraryCases are the cases of a template.
func libraryCases(t *testing.T, template string) []libraryCase {
	t.Helper()
	dirs, err := filepath.Glob(checkout.Path("charts", "testdata", template, "*"))
	expectNoError(t, err)
	var found []libraryCase
	for _, dir := range dirs {
		c := libraryCase{template: template, name: filepath.Base(dir), annotations: asking(template), pod: &corev1.Pod{}}
		var want, values map[string]any
		if !readYAML(t, filepath.Join(dir, "want.yaml"), &want) || readYAML(t, filepath.Join(dir, "values.yaml"), &values) {
			continue
		}
		fromYAML(t, filepath.Join(dir, "pod.yaml"), c.pod)
		c.pod.Namespace = ""
		var given map[string]any
		fromYAML(t, filepath.Join(dir, "pod.yaml"), &given)
		c.injected = pretty(given) != pretty(want)
		var ns corev1.Namespace
		if readYAML(t, filepath.Join(dir, "namespace.yaml"), &ns) {
			c.annotations = ns.Annotations
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		t.Errorf("the library's template %s has no case of an admitted pod", template)
	}
	return found
}

// newLibraryNamespace is a namespace with what the cases' pods name.
func newLibraryNamespace(t *testing.T, annotations, labels map[string]string) *namespace {
	t.Helper()
	n := newNamespace(t, annotations, labels)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	create(t, client.CoreV1().ServiceAccounts(n.name), account)
	for _, name := range []string{"business-critical", "own"} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000}
		if _, err := client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return n
}

// restricted is the label of a namespace whose pods keep to the restricted Pod
// Security Standard.
func restricted() map[string]string {
	return map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
}

// newRestrictedPod is newPod that keeps to that standard.
func newRestrictedPod(name string, annotations map[string]string) *corev1.Pod {
	pod := newPod(name, annotations)
	yes, no := true, false
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	return pod
}

// libraryFacts are those of testdata/library.yaml: settings with which every template is injected, and the cases
// that do not keep to the restricted standard.
type libraryFacts struct {
	Settings   map[string]string
	Privileged []string
}

func aboutLibrary(t *testing.T) (facts libraryFacts) {
	t.Helper()
	fromYAML(t, "testdata/library.yaml", &facts)
	return facts
}

// It also keeps to the restricted Pod Security Standard where the library says so.
func TestTheAPIServerAcceptsWhatTheLibraryMakesOfPods(t *testing.T) {
	t.Parallel()
	privileged := aboutLibrary(t).Privileged
	for _, template := range charts.Names() {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			for _, c := range libraryCases(t, template) {
				stored, err := newLibraryNamespace(t, c.annotations, nil).preview(t, c.pod)
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				} else if got := strings.Contains(stored.Annotations[statusAnnotation], template); got != c.injected {
					t.Errorf("%s: injected %t, want %t; status %q", c.name, got, c.injected, stored.Annotations[statusAnnotation])
				}
				_, err = newLibraryNamespace(t, c.annotations, restricted()).preview(t, c.restrictedPod())
				if slices.Contains(privileged, c.template+"/"+c.name) {
					err = refusedWith(err, "violates PodSecurity")
				}
				wantNoError(t, err, c.name, "in a restricted namespace:")
			}
		})
	}
}

// restrictedPod is a pod that keeps to the restricted standard, with what the template may read of
// the case's pod.
func (c libraryCase) restrictedPod() *corev1.Pod {
	pod := newRestrictedPod("web", c.pod.Annotations)
	app := pod.Spec.Containers[0]
	pod.Spec.Containers = nil
	for _, own := range c.pod.Spec.Containers { // annotations may name them
		app.Name = own.Name
		pod.Spec.Containers = append(pod.Spec.Containers, app)
	}
	for _, v := range c.pod.Spec.Volumes {
		if v.EmptyDir != nil { // which a sidecar may mount
			pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		}
	}
	return pod
}

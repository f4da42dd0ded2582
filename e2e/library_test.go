package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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

func readYAML(t *testing.T, path string, into any) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
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
		readYAML(t, filepath.Join(dir, "pod.yaml"), c.pod)
		c.pod.Namespace = ""
		var given map[string]any
		readYAML(t, filepath.Join(dir, "pod.yaml"), &given)
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

// privileged are the cases whose sidecars do not keep to the restricted standard, as
// docs/reference/library.md says.
var privileged = map[string]bool{
	"istio-proxy/rewrites-probes":           true,
	"istio-proxy/excluded-ports":            true,
	"istio-proxy/istios-own-annotations":    true,
	"istio-proxy/hooks-and-native-sidecars": true,
	"istio-proxy/probes-of-other-sidecars":  true,
	"istio-proxy/host-network":              true, // with the pod of this test it is not one of the host's network
	"debug-toolbox/for-tcpdump":             true,
}

// It also keeps to the restricted Pod Security Standard where the library says so.
func TestTheAPIServerAcceptsWhatTheLibraryMakesOfPods(t *testing.T) {
	t.Parallel()
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
				switch refused := privileged[c.template+"/"+c.name]; {
				case refused && (err == nil || !strings.Contains(err.Error(), "violates PodSecurity")):
					t.Errorf("%s: error %v, want one of Pod Security", c.name, err)
				case !refused && err != nil:
					t.Errorf("%s, in a restricted namespace: %v", c.name, err)
				}
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

// librarySettings are annotations with which every template of the library is injected.
var librarySettings = map[string]string{
	"vault-agent.pillion.dev/role": "shop", "vault-agent.pillion.dev/secrets.db": "secret/data/shop/db",
	"pgbouncer.pillion.dev/host":                "orders-db.databases.svc",
	"pgbouncer.pillion.dev/secret-name":         "orders-db",
	"otel-collector.pillion.dev/endpoint":       "https://otlp.example.com:4317",
	"cloud-sql-proxy.pillion.dev/instances":     "example-project:europe-west1:orders",
	"git-sync.pillion.dev/repository":           "https://git.example.com/shop/pages.git",
	"oauth2-proxy.pillion.dev/login":            "github",
	"oauth2-proxy.pillion.dev/client-id":        "shop",
	"oauth2-proxy.pillion.dev/email-domains":    "example.com",
	"tls-terminator.pillion.dev/secret-name":    "shop-tls",
	"environment.pillion.dev/env.HTTPS_PROXY":   "http://proxy.example.com:3128",
	"pod-defaults.pillion.dev/dns-ndots":        "2",
	"istio-proxy.pillion.dev/init":              "false",
	"istio-proxy.pillion.dev/cluster-id":        "blue",
	"statsd-exporter.pillion.dev/statsd-port":   "8125",
	"ca-bundle.pillion.dev/config-map":          "corporate-ca",
	"debug-toolbox.pillion.dev/share-processes": "true",
}

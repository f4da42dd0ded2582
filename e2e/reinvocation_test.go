package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// otherWebhook is somebody else's mutating webhook for one namespace. It runs before or after
// Pillion, since webhooks run in the order of their configurations' names. Change gets
// each pod and returns the operations of a JSON patch, none if it has nothing to say.
func otherWebhook(t *testing.T, n *namespace, prefix string, again admissionregistrationv1.ReinvocationPolicyType, change func(*corev1.Pod) []map[string]any) (calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review admissionv1.AdmissionReview
		var pod corev1.Pod
		if err := json.NewDecoder(r.Body).Decode(&review); err == nil {
			err = json.Unmarshal(review.Request.Object.Raw, &pod)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if operations := change(&pod); len(operations) > 0 {
			kind := admissionv1.PatchTypeJSONPatch
			review.Response.PatchType = &kind
			review.Response.Patch, _ = json.Marshal(operations) // plain data
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // the API server reports what it did not get
	}))
	registers(t, unique(prefix), measure.PodWebhook("other.example.com", calling(server, ""), n.name, again))
	return calls
}

// calling is how API servers call a path of the server.
func calling(server *httptest.Server, path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: new(server.URL + path), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
}

// registers makes a configuration of webhooks, which goes with the test.
func registers(t *testing.T, name string, webhooks ...admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	temporary(t, client.AdmissionregistrationV1().MutatingWebhookConfigurations(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks})
}

// newServer serves handler by TLS where the API server reaches it.
func newServer(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(shared.Host(), 0).String())
	expectNoError(t, err)
	certificate, key, err := cert.GenerateSelfSignedCertKey(shared.Host().String(), nil, nil)
	expectNoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	expectNoError(t, err)
	server := &httptest.Server{
		Listener: listener,
		Config:   &http.Server{Handler: handler},
		TLS:      &tls.Config{Certificates: []tls.Certificate{pair}},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// waitCalled waits until the API server knows the other webhook.
func waitCalled(t *testing.T, n *namespace, calls *atomic.Int64) {
	t.Helper()
	eventually(t, soon, func() error {
		before := calls.Load()
		_, err := n.preview(t, newPod("probe", nil))
		if err == nil && calls.Load() == before {
			err = errors.New("the other webhook is not called")
		}
		return err
	})
}

func count[T any](items []T, is func(T) bool) int {
	n := 0
	for _, item := range items {
		if is(item) {
			n++
		}
	}
	return n
}

// meddle is a webhook that adds a container of the name with a probe, takes all images from a mirror,
// and turns the environments of ordinary containers round. A sidecar that Pillion added stays as it is
// but for its image: Pillion replaces no sidecar that another webhook changed in more than its image.
func meddle(container string) func(*corev1.Pod) []map[string]any {
	return func(pod *corev1.Pod) []map[string]any {
		var operations []map[string]any
		op := func(kind, path string, value any) {
			operations = append(operations, map[string]any{"op": kind, "path": path, "value": value})
		}
		const mirror = "mirror.example.com/"
		for list, containers := range map[string][]corev1.Container{"containers": pod.Spec.Containers, "initContainers": pod.Spec.InitContainers} {
			for i, c := range containers {
				at := "/spec/" + list + "/" + strconv.Itoa(i)
				if !strings.HasPrefix(c.Image, mirror) {
					op("replace", at+"/image", mirror+c.Image)
				}
				if env := slices.Clone(c.Env); list == "containers" && len(env) > 1 {
					slices.Reverse(env)
					op("replace", at+"/env", env)
				}
			}
		}
		if sidecar(pod, container) == nil {
			op("add", "/spec/containers/0", corev1.Container{Name: container, Image: mirror + container, ReadinessProbe: probe("/" + container)})
		}
		return operations
	}
}

func TestOtherWebhooksBeforeAndAfterMayDoWhatTheyLike(t *testing.T) {
	t.Parallel()
	name := served(t, meshSpec).name
	n := newNamespace(t, asking(name), nil)
	waitCalled(t, n, otherWebhook(t, n, "aa-other", admissionregistrationv1.NeverReinvocationPolicy, meddle("early")))
	waitCalled(t, n, otherWebhook(t, n, "zz-other", admissionregistrationv1.NeverReinvocationPolicy, meddle("late")))
	web := newPod("web", nil)
	web.Spec.Containers[0].ReadinessProbe = probe("/ready")
	web.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
	pod := n.mustCreate(t, web)
	if got, want := containerNames(pod), name+" late early app"; got != want {
		t.Errorf("containers %s, want %s", got, want)
	}
	mesh := sidecar(pod, name)
	if got, want := environment(mesh, "PROBES"), "late=/late early=/early app=/ready"; got != want {
		t.Errorf("the proxy knows the probes %q, want %q", got, want)
	}
	if got, want := mesh.Image, "mirror.example.com/registry.example.com/"+name+":1"; got != want {
		t.Errorf("the sidecar's image is %s, want %s", got, want)
	}
	for _, c := range []string{"late", "early", "app"} {
		container := sidecar(pod, c)
		if got, want := container.ReadinessProbe.HTTPGet.Path, "/app/"+c; got != want {
			t.Errorf("the probe of %s asks for %s, want %s", c, got, want)
		}
		if got := count(container.Env, func(e corev1.EnvVar) bool { return e.Name == "MESH" && e.Value == name }); got != 1 {
			t.Errorf("container %s has the template's variable %d times, want once", c, got)
		}
	}
	if env := sidecar(pod, "app").Env; count(env, func(e corev1.EnvVar) bool { return e.Name == "A" && e.Value == "1" || e.Name == "B" && e.Value == "2" }) != 2 {
		t.Errorf("the app's own environment is now %v", env)
	}
}

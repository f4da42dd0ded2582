package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// otherWebhook is somebody else's mutating webhook for one namespace. It runs after
// Pillion, since webhooks run in the order of their configurations' names. Change gets
// each pod and returns the operations of a JSON patch, none if it has nothing to say.
func otherWebhook(t *testing.T, n *namespace, change func(*corev1.Pod) []map[string]any) (calls *atomic.Int64) {
	t.Helper()
	return otherWebhookNamed(t, n, "zz-other", change)
}

// otherWebhookNamed is otherWebhook with a name that begins so: before or after Pillion's.
func otherWebhookNamed(t *testing.T, n *namespace, prefix string, change func(*corev1.Pod) []map[string]any) (calls *atomic.Int64) {
	t.Helper()
	return otherWebhookCalledAgain(t, n, prefix, admissionregistrationv1.NeverReinvocationPolicy, change)
}

// otherWebhookCalledAgain is otherWebhookNamed with a policy about being called again.
func otherWebhookCalledAgain(t *testing.T, n *namespace, prefix string, again admissionregistrationv1.ReinvocationPolicyType, change func(*corev1.Pod) []map[string]any) (calls *atomic.Int64) {
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
	name := unique(prefix)
	policy := admissionregistrationv1.Fail
	effects, all := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.AllScopes
	url := server.URL
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "other.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &url,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &all},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.name}},
			FailurePolicy:           &policy,
			SideEffects:             &effects,
			ReinvocationPolicy:      &again,
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return calls
}

// newServer serves handler by TLS where the API server reaches it.
func newServer(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", netip.AddrPortFrom(shared.Host(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{shared.Host().AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{
		Listener: listener,
		Config:   &http.Server{Handler: handler},
		TLS:      &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
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
		if _, err := n.preview(t, newPod("probe", nil)); err != nil {
			return err
		}
		if calls.Load() == before {
			return context.DeadlineExceeded
		}
		return nil
	})
}

func TestAContainerThatAnotherWebhookAddsLaterGetsItsPartAndNothingIsDoubled(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	calls := otherWebhook(t, n, func(pod *corev1.Pod) []map[string]any {
		if sidecar(pod, "late") != nil {
			return nil
		}
		return []map[string]any{{"op": "add", "path": "/spec/containers/-", "value": map[string]any{
			"name": "late", "image": "late:1", "env": []any{map[string]any{"name": "SHARED", "value": "its own"}},
		}}}
	})
	waitCalled(t, n, calls)
	pod := n.mustCreate(t, newPod("web", nil))
	if got, want := containerNames(pod), name+" app late"; got != want {
		t.Fatalf("containers %s, want %s", got, want)
	}
	for _, c := range []string{"app", "late"} {
		if got := count(sidecar(pod, c).VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name }); got != 1 {
			t.Errorf("container %s mounts the template's volume %d times, want once", c, got)
		}
	}
	if got := environment(sidecar(pod, "late"), "SHARED"); got != "its own" {
		t.Errorf("the late container's own variable is %q now, want that it stays", got)
	}
	if got := count(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }); got != 1 {
		t.Errorf("the pod has the template's volume %d times, want once", got)
	}
}

func TestWhatAnotherWebhookChangesInTheSidecarIsKept(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	const mirror = "mirror.example.com/"
	calls := otherWebhook(t, n, func(pod *corev1.Pod) []map[string]any {
		var operations []map[string]any
		for i, c := range pod.Spec.InitContainers {
			if !strings.HasPrefix(c.Image, mirror) {
				operations = append(operations, map[string]any{"op": "replace", "path": "/spec/initContainers/" + string(rune('0'+i)) + "/image", "value": mirror + c.Image})
			}
		}
		return operations
	})
	waitCalled(t, n, calls)
	pod := n.mustCreate(t, newPod("web", nil))
	if got := containerNames(pod); got != name+" app" {
		t.Fatalf("containers %s, want %s app", got, name)
	}
	if got, want := sidecar(pod, name).Image, mirror+"registry.example.com/"+name+":1"; got != want {
		t.Errorf("the sidecar's image is %s, want %s", got, want)
	}
}

func TestAnInjectedPodThatIsCreatedAgainStaysAsItIs(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	first := n.mustCreate(t, newPod("web", nil))
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "copy", Labels: first.Labels, Annotations: first.Annotations}, Spec: first.Spec}
	second := n.mustCreate(t, again.DeepCopy())
	if got, want := pretty(second.Spec), pretty(first.Spec); got != want {
		t.Errorf("the copy of an injected pod is\n%s\nwant\n%s", got, want)
	}
	if got, want := second.Annotations[statusAnnotation], first.Annotations[statusAnnotation]; got != want {
		t.Errorf("its status is %s, want %s", got, want)
	}
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

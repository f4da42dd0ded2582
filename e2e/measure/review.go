package measure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// requestedEntry is the entry of the webhook configuration for namespaces that fail open.
const requestedEntry = "requested.pillion.dev"

// A Reviewer sends reviews to one replica, as API servers do for namespaces that fail open.
type Reviewer struct {
	Name      string // of the replica
	URL       url.URL
	Transport *http.Transport
	client    http.Client
}

// NewReviewer reads from the webhook configuration how API servers call the replica, and verify it.
func NewReviewer(ctx context.Context, client kubernetes.Interface, replica ground.Replica, timeout time.Duration) (*Reviewer, error) {
	configuration, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, ground.Release, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading how API servers call Pillion: %w", err)
	}
	for _, w := range configuration.Webhooks {
		if w.Name != requestedEntry {
			continue
		}
		service, roots := w.ClientConfig.Service, x509.NewCertPool()
		if !roots.AppendCertsFromPEM(w.ClientConfig.CABundle) {
			return nil, fmt.Errorf("the CA bundle of %s holds no certificate", w.Name)
		}
		name := service.Name + "." + service.Namespace + ".svc"
		r := &Reviewer{Name: replica.Name, URL: url.URL{Scheme: "https", Host: name, Path: *service.Path}, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, replica.Serve.String())
			},
		}}
		r.client = http.Client{Transport: r.Transport, Timeout: timeout}
		return r, nil
	}
	return nil, fmt.Errorf("the webhook configuration %s has no entry %s", ground.Release, requestedEntry)
}

// Post sends a body to a path, and returns the status and the whole answer. The API server that it stands for
// waits for so long.
func (r *Reviewer) Post(ctx context.Context, path string, waits time.Duration, body io.Reader) (status int, answer []byte, err error) {
	target := r.URL
	target.Path, target.RawQuery = path, "timeout="+waits.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), body)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	response, err := r.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// Review posts a review, which has to be answered.
func (r *Reviewer) Review(ctx context.Context, review []byte) ([]byte, error) {
	status, answer, err := r.Post(ctx, r.URL.Path, 10*time.Second, bytes.NewReader(review))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers with HTTP %d: %.200s", r.Name, status, answer)
	}
	return answer, err
}

// ReviewOf is the review of a pod in its namespace that an API server has completed, as API servers send it.
func ReviewOf(pod *corev1.Pod, uid types.UID, dryRun bool) ([]byte, error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	request := &admissionv1.AdmissionRequest{
		UID: uid, Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource, Namespace: pod.Namespace,
		Operation: admissionv1.Create, DryRun: &dryRun, Object: runtime.RawExtension{Raw: object},
		Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
	}
	request.UserInfo.Username = "system:serviceaccount:kube-system:replicaset-controller"
	request.UserInfo.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
}

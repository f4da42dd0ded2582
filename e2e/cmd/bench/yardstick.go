package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// The paths of the yardstick: webhooks as somebody would write them who needs one sidecar,
// with encoding/json and the typed objects of k8s.io/api.
const (
	fixedPath     = "/fixed"             // adds a sidecar by a fixed patch
	withMountPath = "/fixed-with-mount"  // the same, with the mount of the service account's token
	recordPath    = "/fixed-with-record" // and with the annotation and the labels that Pillion writes, too
)

// An addition is what a template adds to a pod of one container.
type addition struct {
	Sidecar corev1.Container     `json:"sidecar"`
	Volumes []corev1.Volume      `json:"volumes"`
	Mounts  []corev1.VolumeMount `json:"mounts"` // of the pod's own container
	// Record is the value of the annotation statusKey, and Labels are Pillion's labels. Only recordPath adds them.
	Record string            `json:"record"`
	Labels map[string]string `json:"labels"`
}

const statusKey = "pillion.dev/status"

// An operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// operations add all of it to a pod without init containers, with one more mount in the
// sidecar if token is not nil.
func (a addition) operations(token *corev1.VolumeMount) []operation {
	sidecar := a.Sidecar
	if token != nil {
		sidecar.VolumeMounts = append(slices.Clone(sidecar.VolumeMounts), *token)
	}
	ops := []operation{{"add", "/spec/initContainers", []corev1.Container{sidecar}}}
	for _, v := range a.Volumes {
		ops = append(ops, operation{"add", "/spec/volumes/-", v})
	}
	for _, m := range a.Mounts {
		ops = append(ops, operation{"add", "/spec/containers/0/volumeMounts/-", m})
	}
	return ops
}

// marks are the operations by which Pillion marks a pod that has labels and no annotations.
func (a addition) marks() []operation {
	ops := []operation{{"add", "/metadata/annotations", map[string]string{statusKey: a.Record}}}
	for key, value := range a.Labels {
		ops = append(ops, operation{"add", "/metadata/labels/" + strings.ReplaceAll(key, "/", "~1"), value})
	}
	return ops
}

// tokenMount is where a container has the service account's token, nil if it has not.
func tokenMount(c *corev1.Container) *corev1.VolumeMount {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == measure.TokenPath {
			return &c.VolumeMounts[i]
		}
	}
	return nil
}

// patch is the operations for a pod on a path, none if the pod has the sidecar.
func (a addition) patch(path string, raw []byte) ([]operation, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil || measure.Container(&pod, a.Sidecar.Name) != nil {
		return nil, err
	}
	if path == fixedPath {
		return a.operations(nil), nil
	}
	operations := a.operations(tokenMount(&pod.Spec.Containers[0]))
	if path == recordPath {
		operations = append(operations, a.marks()...)
	}
	return operations, nil
}

// answer decodes a review, and answers with the patch for its object.
func (a addition) answer(path string, body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return nil, err
	}
	if review.Request == nil {
		return nil, errors.New("the review has no request")
	}
	operations, err := a.patch(path, review.Request.Object.Raw)
	if err != nil {
		return nil, err
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if len(operations) > 0 {
		response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		if response.Patch, err = json.Marshal(operations); err != nil {
			return nil, err
		}
	}
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}

// ServeHTTP implements http.Handler.
func (a addition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := a.answer(r.URL.Path, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // an API server that has gone away reports it
}

// An order is what a process that serves the yardstick reads from its standard input.
type order struct {
	Listen      string   `json:"listen"`
	Certificate []byte   `json:"certificate"` // PEM, like Key
	Key         []byte   `json:"key"`
	Addition    addition `json:"addition"`
}

// serveYardstick does what the order on standard input says, until standard input ends:
// when the process at its other end dies, so does this one.
func serveYardstick() error {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	certificate, err := tls.X509KeyPair(o.Certificate, o.Key)
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true) // API servers call Services so
	server := &http.Server{Addr: o.Listen, Handler: o.Addition, Protocols: &protocols, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end is the end
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

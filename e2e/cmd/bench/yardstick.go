package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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

	typeName string // what CEL calls the type of Value, or of its items
}

// operations add all of it to a pod without init containers, with one more mount in the
// sidecar if token is not nil.
func (a addition) operations(token *corev1.VolumeMount) []operation {
	sidecar := a.Sidecar
	if token != nil {
		sidecar.VolumeMounts = append(slices.Clone(sidecar.VolumeMounts), *token)
	}
	ops := []operation{{"add", "/spec/initContainers", []corev1.Container{sidecar}, "Object.spec.initContainers"}}
	for _, v := range a.Volumes {
		ops = append(ops, operation{"add", "/spec/volumes/-", v, "Object.spec.volumes"})
	}
	for _, m := range a.Mounts {
		ops = append(ops, operation{"add", "/spec/containers/0/volumeMounts/-", m, "Object.spec.containers.volumeMounts"})
	}
	return ops
}

// marks are the operations by which Pillion marks a pod that has labels and no annotations.
func (a addition) marks() []operation {
	ops := []operation{{Op: "add", Path: "/metadata/annotations", Value: map[string]string{statusKey: a.Record}}}
	for key, value := range a.Labels {
		ops = append(ops, operation{Op: "add", Path: "/metadata/labels/" + strings.ReplaceAll(key, "/", "~1"), Value: value})
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

// A yardstick answers on all its paths.
type yardstick struct {
	addition addition
}

func (y *yardstick) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+fixedPath, y.answer(func(raw []byte) ([]operation, error) { return y.patch(raw, false) }))
	mux.HandleFunc("POST "+withMountPath, y.answer(func(raw []byte) ([]operation, error) { return y.patch(raw, true) }))
	mux.HandleFunc("POST "+recordPath, y.answer(func(raw []byte) ([]operation, error) {
		ops, err := y.patch(raw, true)
		if len(ops) > 0 {
			ops = append(ops, y.addition.marks()...)
		}
		return ops, err
	}))
	return mux
}

// patch is the operations for a pod, none if the pod has the sidecar.
func (y *yardstick) patch(raw []byte, withMount bool) ([]operation, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return nil, err
	}
	if measure.Container(&pod, y.addition.Sidecar.Name) != nil {
		return nil, nil
	}
	var token *corev1.VolumeMount
	if withMount {
		token = tokenMount(&pod.Spec.Containers[0])
	}
	return y.addition.operations(token), nil
}

// answer decodes a review, and answers with the patch that change makes for its object.
func (y *yardstick) answer(change func(raw []byte) ([]operation, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		operations, err := change(review.Request.Object.Raw)
		if err == nil && len(operations) > 0 {
			kind := admissionv1.PatchTypeJSONPatch
			response.PatchType = &kind
			response.Patch, err = json.Marshal(operations)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // an API server that has gone away reports it
	}
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
func serveYardstick(ctx context.Context) error {
	input := json.NewDecoder(os.Stdin)
	var o order
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	certificate, err := tls.X509KeyPair(o.Certificate, o.Key)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true) // API servers call Services so
	y := yardstick{addition: o.Addition}
	server := &http.Server{Handler: y.handler(), Protocols: &protocols, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, io.MultiReader(input.Buffered(), os.Stdin)) // any end is the end
	}()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

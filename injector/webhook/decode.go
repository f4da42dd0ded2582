package webhook

import (
	"bytes"
	"encoding/json"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/injector"
)

const (
	v1Version      = "admission.k8s.io/v1"
	v1beta1Version = "admission.k8s.io/v1beta1"
)

// Review is the request of an AdmissionReview, as far as the webhooks read it. Its
// JSON form is the same in v1 and v1beta1. A Review is for one goroutine.
type Review struct {
	UID types.UID `json:"uid"`
	Target
	Operation string                    `json:"operation"`
	UserInfo  authenticationv1.UserInfo `json:"userInfo"`
	DryRun    bool                      `json:"dryRun"`
	Object    json.RawMessage           `json:"object"`
	OldObject json.RawMessage           `json:"oldObject"`

	// pod is the decoded object, once Pod has been called.
	pod map[string]any
}

// Target says which object a review is about.
type Target struct {
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Namespace   string                      `json:"namespace"`
	// Name is empty for an object whose name the API server has yet to generate.
	Name string `json:"name"`
}

// decodeReview reads an AdmissionReview, v1 or v1beta1, and returns its version and
// its request. Every error is a [MalformedError].
func decodeReview(body []byte) (apiVersion string, r *Review, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return "", nil, Malformed("the body is empty; an AdmissionReview is expected")
	}
	var review struct {
		APIVersion string  `json:"apiVersion"`
		Kind       string  `json:"kind"`
		Request    *Review `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return "", nil, Malformed("the body is not an AdmissionReview: %v", err)
	}
	if review.Kind != "AdmissionReview" {
		return "", nil, Malformed("the body's kind is %q; allowed is AdmissionReview", review.Kind)
	}
	if review.APIVersion != v1Version && review.APIVersion != v1beta1Version {
		return "", nil, Malformed("the review's apiVersion is %q; allowed are %s and %s", review.APIVersion, v1Version, v1beta1Version)
	}
	if review.Request == nil {
		return "", nil, Malformed("the review has no request")
	}
	if review.Request.UID == "" {
		return "", nil, Malformed("the review's request has no uid")
	}
	return review.APIVersion, review.Request, nil
}

// aboutPod returns a [MalformedError] unless the review is about a v1 Pod or one of
// its subresources.
func (r *Review) aboutPod() error {
	if want := (metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}); r.Kind != want {
		return Malformed("the review is about %s; this webhook is for v1 Pods", r.Kind.String())
	}
	if r.Resource.Resource != "pods" {
		return Malformed("the review is about the resource %q; this webhook is for pods", r.Resource.Resource)
	}
	return nil
}

// Pod returns the pod under review, with its numbers kept exact. The caller does not
// modify it. Every error is a [MalformedError].
func (r *Review) Pod() (map[string]any, error) {
	if r.pod != nil {
		return r.pod, nil
	}
	if err := r.aboutPod(); err != nil {
		return nil, err
	}
	if isAbsent(r.Object) {
		return nil, Malformed("the review's request has no object")
	}
	pod, err := injector.DecodePod(r.Object)
	if err != nil {
		return nil, Malformed("the review's object is not a pod: %v", err)
	}
	// The API server always says what its object is.
	if kind, version := pod["kind"], pod["apiVersion"]; kind != "Pod" || version != "v1" {
		return nil, Malformed("the review's object is a %v of %v; this webhook is for v1 Pods", kind, version)
	}
	r.pod = pod
	return pod, nil
}

// OldPod returns the pod before an update. Every error is a [MalformedError].
func (r *Review) OldPod() (map[string]any, error) {
	pod, err := injector.DecodePod(r.OldObject)
	if err != nil {
		return nil, Malformed("the review's old object is not a pod: %v", err)
	}
	return pod, nil
}

// FromNode reports whether a kubelet sent the request: only nodes are in the group
// system:nodes.
func (r *Review) FromNode() bool { return slices.Contains(r.UserInfo.Groups, "system:nodes") }

// objectName names the object in the log. A controller's pod has no name yet, only
// the beginning of one.
func (r *Review) objectName() string {
	if r.Name != "" {
		return r.Name
	}
	meta, _ := r.pod["metadata"].(map[string]any)
	if name, ok := meta["generateName"].(string); ok && name != "" {
		return name + "…"
	}
	return "(no name yet)"
}

// isAbsent reports whether a review leaves an object out.
func isAbsent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

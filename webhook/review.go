package webhook

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

const (
	v1Version      = "admission.k8s.io/v1"
	v1beta1Version = "admission.k8s.io/v1beta1"
	// maxName bounds names in a review, in bytes. A name in Kubernetes has 253 at most.
	maxName = 512
	// maxUserInfo bounds the JSON of a review's user, in bytes: thousands of groups.
	maxUserInfo = 256 << 10
)

// Review is the request of an AdmissionReview, as far as the webhooks read it. Its
// JSON form is the same in v1 and v1beta1. A Review is for one goroutine.
//
// The objects are decoded when a webhook asks for them, and only then: that is where
// the memory goes.
type Review struct {
	UID types.UID `json:"uid"`
	Target
	Operation string `json:"operation"`
	DryRun    bool   `json:"dryRun"`
	Object    part   `json:"object"`
	OldObject part   `json:"oldObject"`
	UserInfo  part   `json:"userInfo"`

	memory memory
	// head is the beginning of a pod, and metadata and pod are what is decoded of it. They are
	// empty until [Review.Metadata] and [Review.Pod] are called.
	head          head
	metadata, pod map[string]any
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

// part is the text of a JSON value. It is a part of the review's body, and valid as long as the
// body: the decoder of a text that is in memory neither copies nor changes it.
type part []byte

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (p *part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	text, err := d.ReadValue()
	*p = part(text)
	return err
}

// isAbsent reports whether a review leaves a part out.
func (p part) isAbsent() bool { return len(p) == 0 || string(p) == "null" }

// last is an object of which the last counts where an object has several of one name. For Go's
// structs and maps they would count together.
type last[T any] struct{ value T }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (l *last[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	l.value = *new(T)
	return json.UnmarshalDecode(d, &l.value)
}

// read decodes a JSON text into a Go value. It treats duplicate names, case and invalid UTF-8 as
// kube-apiserver does, and as [rawjson.Decode]: the last of several counts, names differ in
// case, and what is not UTF-8 is replaced.
func read(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
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
	if err := read(body, &review); err != nil {
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
	r = review.Request
	if r.UID == "" {
		return "", nil, Malformed("the review's request has no uid")
	}
	// All these texts are short; what is echoed and logged has to be.
	for _, text := range []string{string(r.UID), r.Namespace, r.Name, r.Operation, r.SubResource} {
		if len(text) > maxName {
			return "", nil, Malformed("the review's request has a name of %d bytes; allowed are %d", len(text), maxName)
		}
	}
	return review.APIVersion, r, nil
}

// head is the beginning of a pod: what it is, its metadata, and how many containers it has.
type head struct {
	apiVersion, kind, metadata part
	containers                 int
}

// readHead reads the beginning of a pod.
func readHead(pod []byte) (head, error) {
	var h head
	d := jsontext.NewDecoder(bytes.NewBuffer(pod), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := rawjson.Members(d, '{', func(name string) error {
		switch name {
		case "apiVersion":
			return h.apiVersion.UnmarshalJSONFrom(d)
		case "kind":
			return h.kind.UnmarshalJSONFrom(d)
		case "metadata":
			return h.metadata.UnmarshalJSONFrom(d)
		case "spec":
			return h.readSpec(d)
		}
		return d.SkipValue()
	})
	return h, err
}

// readSpec counts the containers of a pod.
func (h *head) readSpec(d *jsontext.Decoder) error {
	return eachMember(d, func(name string) error {
		if name != "initContainers" && name != "containers" || d.PeekKind() != '[' {
			return d.SkipValue()
		}
		return rawjson.Members(d, '[', func(string) error {
			h.containers++
			return d.SkipValue()
		})
	})
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

// Metadata returns a pod that has nothing but its metadata, without managed fields: they are half
// of an ordinary pod, and no template sees them. It costs little memory, however large the pod
// is. The caller does not modify it. The error is a [MalformedError], or one of [memory.hold].
func (r *Review) Metadata(ctx context.Context) (map[string]any, error) {
	if r.metadata != nil {
		return r.metadata, nil
	}
	if err := r.aboutPod(); err != nil {
		return nil, err
	}
	if r.Object.isAbsent() {
		return nil, Malformed("the review's request has no object")
	}
	h, err := readHead(r.Object)
	if err != nil {
		return nil, Malformed("the review's object is not a pod: %v", err)
	}
	// The API server always says what its object is.
	if string(h.kind) != `"Pod"` || string(h.apiVersion) != `"v1"` {
		return nil, Malformed("the review's object is a %.64s of %.64s; this webhook is for v1 Pods", h.kind, h.apiVersion)
	}
	if err := r.memory.holdPod(ctx, r.Namespace, len(h.metadata), 0); err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	if !h.metadata.isAbsent() {
		if metadata, err = r.decode(h.metadata, "managedFields"); err != nil {
			return nil, err
		}
	}
	r.head, r.metadata = h, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
	return r.metadata, nil
}

// Pod returns the pod under review, with its numbers kept exact. The caller does not
// modify it. Pod waits until there is memory for the decoded pod, and for what so many
// templates may make of it. The error is a [MalformedError], or one of [memory.hold].
func (r *Review) Pod(ctx context.Context, templates int) (map[string]any, error) {
	if r.pod != nil {
		return r.pod, nil
	}
	decided, err := r.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	work := int64(r.head.containers) * int64(templates) * workPerContainer
	if err := r.memory.holdPod(ctx, r.Namespace, len(r.Object), work); err != nil {
		return nil, err
	}
	pod, err := r.decode(r.Object, "metadata")
	if err != nil {
		return nil, err
	}
	if !r.head.metadata.isAbsent() {
		pod["metadata"] = decided["metadata"]
	}
	r.pod = pod
	return r.pod, nil
}

// decode decodes the text of a pod, or of its metadata, without a field, in the memory that the review holds. The error is a
// [MalformedError] or a [tooLargeError].
func (r *Review) decode(text part, without string) (map[string]any, error) {
	if rawjson.Exceeds(text, r.memory.bytes()) {
		return nil, &tooLargeError{r.memory.bytes()}
	}
	object, err := podschema.DecodeObject(text, without)
	if err != nil {
		return nil, Malformed("the review's object is not a pod: %v", err)
	}
	return object, nil
}

// object is the beginning of an object of any kind. Metadata is nil if there are none.
type object struct {
	Metadata last[*objectMeta] `json:"metadata"`
	Spec     part              `json:"spec"`
}

type objectMeta struct {
	Name          string                  `json:"name"`
	Labels        last[map[string]string] `json:"labels"`
	Annotations   last[map[string]string] `json:"annotations"`
	ManagedFields part                    `json:"managedFields"`
}

// readObject reads an object of a review, which should be of a kind. The error is a
// [MalformedError].
func readObject(text part, kind string) (*objectMeta, part, error) {
	if text.isAbsent() {
		return nil, nil, Malformed("the review's request has no object")
	}
	var o object
	if err := read(text, &o); err != nil {
		return nil, nil, Malformed("the review's object is no %s: %v", kind, err)
	}
	if o.Metadata.value == nil {
		return nil, nil, Malformed("the review's object is no %s: it has no metadata", kind)
	}
	return o.Metadata.value, o.Spec, nil
}

// oldContainer is what of a container before an update the pipeline compares.
type oldContainer struct {
	Name      string `json:"name"`
	Image     string `json:"image"`
	Resources part   `json:"resources"`
}

// OldPod returns what of the pod before an update the pipeline compares: labels, annotations, and of
// each container its name, image and resources. Every error is a [MalformedError].
func (r *Review) OldPod() (map[string]any, error) {
	metadata, text, err := readObject(r.OldObject, "Pod")
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for section, of := range map[string]map[string]string{"labels": metadata.Labels.value, "annotations": metadata.Annotations.value} {
		object := make(map[string]any, len(of))
		for key, value := range of {
			object[key] = value
		}
		values[section] = object
	}
	var lists struct {
		InitContainers      []oldContainer `json:"initContainers"`
		Containers          []oldContainer `json:"containers"`
		EphemeralContainers []oldContainer `json:"ephemeralContainers"`
	}
	if !text.isAbsent() {
		if err := read(text, &lists); err != nil {
			return nil, Malformed("the review's old object is no Pod: %v", err)
		}
	}
	spec := map[string]any{}
	for list, containers := range map[string][]oldContainer{"initContainers": lists.InitContainers, "containers": lists.Containers, "ephemeralContainers": lists.EphemeralContainers} {
		items := make([]any, len(containers))
		for i, c := range containers {
			container := map[string]any{"name": c.Name}
			if c.Image != "" {
				container["image"] = c.Image
			}
			if !c.Resources.isAbsent() {
				if container["resources"], err = rawjson.Decode(c.Resources); err != nil {
					return nil, Malformed("the review's old object is no Pod: %v", err)
				}
			}
			items[i] = container
		}
		if len(items) > 0 {
			spec[list] = items
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": values, "spec": spec}, nil
}

// drop gives back the memory of the objects. What names the review in the log stays.
func (r *Review) drop() {
	r.memory.free()
	r.Object, r.OldObject, r.UserInfo, r.head, r.pod = nil, nil, nil, head{}, nil
}

// FromNode reports whether a kubelet sent the request: only nodes are in the group
// system:nodes. The error is a [MalformedError].
func (r *Review) FromNode() (bool, error) {
	if r.UserInfo.isAbsent() {
		return false, nil
	}
	if len(r.UserInfo) > maxUserInfo {
		return false, Malformed("the review's userInfo has %d bytes; allowed are %d", len(r.UserInfo), maxUserInfo)
	}
	if !bytes.ContainsRune(r.UserInfo, '\\') && !bytes.Contains(r.UserInfo, []byte("system:nodes")) {
		return false, nil // no group can be spelt in another way
	}
	var user struct {
		Groups []string `json:"groups"`
	}
	if err := read(r.UserInfo, &user); err != nil {
		return false, Malformed("the review's userInfo cannot be read: %v", err)
	}
	return slices.Contains(user.Groups, "system:nodes"), nil
}

// objectName names the object in the log. A controller's pod has no name yet, only
// the beginning of one.
func (r *Review) objectName() string {
	if r.Name != "" {
		return r.Name
	}
	meta, _ := r.metadata["metadata"].(map[string]any)
	if name, ok := meta["generateName"].(string); ok && name != "" {
		return fmt.Sprintf("%.253s…", name)
	}
	return "(no name yet)"
}

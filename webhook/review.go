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

// Review is the request of an AdmissionReview, with the fields that the webhooks read. Its
// JSON form is the same in v1 and v1beta1. A Review is for one goroutine.
//
// Objects are decoded when a webhook gets them, because decoded objects need most of the
// memory.
type Review struct {
	UID types.UID `json:"uid"`
	Target
	Operation string `json:"operation"`
	DryRun    bool   `json:"dryRun"`
	Object    part   `json:"object"`
	OldObject part   `json:"oldObject"`
	UserInfo  part   `json:"userInfo"`

	memory     memory
	decodedPod `json:"-"`
}

// decodedPod has the parts of a pod that [Review.Metadata] and [Review.Pod] have decoded.
type decodedPod struct {
	head          head
	metadata, pod map[string]any
}

// Target identifies the object of a review.
type Target struct {
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Namespace   string                      `json:"namespace"`
	// Name is empty for an object whose name the API server has yet to generate.
	Name string `json:"name"`
}

// part is the JSON text of a value. It shares the memory of the review's body: the decoder of a
// text in memory neither copies nor changes it.
type part []byte

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (p *part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	text, err := d.ReadValue()
	*p = part(text)
	return err
}

// isAbsent reports whether a review leaves a part out.
func (p part) isAbsent() bool { return len(p) == 0 || string(p) == "null" }

// lastValue decodes a member of a JSON object, and replaces an earlier member of the same name. Go's
// structs and maps would merge both.
type lastValue[T any] struct{ value T }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (l *lastValue[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	l.value = *new(T)
	return json.UnmarshalDecode(d, &l.value)
}

// decodeJSON decodes a JSON text into a Go value. It treats duplicate names, case and invalid
// UTF-8 as kube-apiserver and [rawjson.Decode] do: the last of several members with one name
// counts, names are case-sensitive, and invalid UTF-8 is replaced.
func decodeJSON(text []byte, into any) error {
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
	if err := decodeJSON(body, &review); err != nil {
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
	// These texts are echoed and logged.
	for _, text := range []string{string(r.UID), r.Namespace, r.Name, r.Operation, r.SubResource} {
		if len(text) > maxName {
			return "", nil, Malformed("the review's request has a name of %d bytes; allowed are %d", len(text), maxName)
		}
	}
	return review.APIVersion, r, nil
}

// head is a pod without its spec: type, metadata, and the number of its containers.
type head struct {
	apiVersion, kind, metadata part
	containers                 int
}

// readHead reads the head of a pod without decoding the pod.
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

// checkPod returns a [MalformedError] unless the review is about a v1 Pod or one of
// its subresources.
func (r *Review) checkPod() error {
	if want := (metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}); r.Kind != want {
		return Malformed("the review is about %s; this webhook is for v1 Pods", r.Kind.String())
	}
	if r.Resource.Resource != "pods" {
		return Malformed("the review is about the resource %q; this webhook is for pods", r.Resource.Resource)
	}
	return nil
}

// Metadata returns a pod with its metadata only, without managed fields: they are half of an
// ordinary pod, and no template sees them. It needs little memory even for a large pod. The caller
// does not modify it. The error is a [MalformedError], or an error of [memory.acquire].
func (r *Review) Metadata(ctx context.Context) (map[string]any, error) {
	if r.metadata != nil {
		return r.metadata, nil
	}
	if err := r.checkPod(); err != nil {
		return nil, err
	}
	if r.Object.isAbsent() {
		return nil, Malformed("the review's request has no object")
	}
	h, err := readHead(r.Object)
	if err != nil {
		return nil, Malformed("the review's object is not a pod: %v", err)
	}
	// The API server always sets kind and apiVersion.
	if string(h.kind) != `"Pod"` || string(h.apiVersion) != `"v1"` {
		return nil, Malformed("the review's object is a %.64s of %.64s; this webhook is for v1 Pods", h.kind, h.apiVersion)
	}
	if err := r.memory.acquireForPod(ctx, r.Namespace, len(h.metadata), 0); err != nil {
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

// Pod returns the pod under review, with exact numbers. The caller does not modify it. Pod
// waits until there is memory for the decoded pod and for the work of that number of
// templates. The error is a [MalformedError], or an error of [memory.acquire].
func (r *Review) Pod(ctx context.Context, templates int) (map[string]any, error) {
	if r.pod != nil {
		return r.pod, nil
	}
	decided, err := r.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	work := int64(r.head.containers) * int64(templates) * workPerContainer
	if err := r.memory.acquireForPod(ctx, r.Namespace, len(r.Object), work); err != nil {
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

// decode decodes the text of a pod, or of its metadata, without one field. It uses the memory that the review has
// acquired. The error is a [MalformedError] or a [tooLargeError].
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

// object is an object of any kind, with its spec as text. Metadata may be nil.
type object struct {
	Metadata lastValue[*objectMeta] `json:"metadata"`
	Spec     part                   `json:"spec"`
}

type objectMeta struct {
	Name          string                       `json:"name"`
	Labels        lastValue[map[string]string] `json:"labels"`
	Annotations   lastValue[map[string]string] `json:"annotations"`
	ManagedFields part                         `json:"managedFields"`
}

// readObject reads an object of a review, which should be of a kind. The error is a
// [MalformedError].
func readObject(text part, kind string) (*objectMeta, part, error) {
	if text.isAbsent() {
		return nil, nil, Malformed("the review's request has no object")
	}
	var o object
	if err := decodeJSON(text, &o); err != nil {
		return nil, nil, Malformed("the review's object is no %s: %v", kind, err)
	}
	if o.Metadata.value == nil {
		return nil, nil, Malformed("the review's object is no %s: it has no metadata", kind)
	}
	return o.Metadata.value, o.Spec, nil
}

// comparedContainer has the fields of a container that the pipeline compares on an update.
type comparedContainer struct {
	Name      string `json:"name"`
	Image     string `json:"image"`
	Resources part   `json:"resources"`
}

// OldPod returns the pod before an update, with the fields that the pipeline compares: labels,
// annotations, and the name, image and resources of each container. Every error is a
// [MalformedError].
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
		InitContainers      []comparedContainer `json:"initContainers"`
		Containers          []comparedContainer `json:"containers"`
		EphemeralContainers []comparedContainer `json:"ephemeralContainers"`
	}
	if !text.isAbsent() {
		if err := decodeJSON(text, &lists); err != nil {
			return nil, Malformed("the review's old object is no Pod: %v", err)
		}
	}
	spec := map[string]any{}
	for list, containers := range map[string][]comparedContainer{"initContainers": lists.InitContainers, "containers": lists.Containers, "ephemeralContainers": lists.EphemeralContainers} {
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

// release returns the memory of the objects. The fields that name the review in the log stay.
func (r *Review) release() {
	r.memory.releaseSlots()
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
	if err := decodeJSON(r.UserInfo, &user); err != nil {
		return false, Malformed("the review's userInfo cannot be read: %v", err)
	}
	return slices.Contains(user.Groups, "system:nodes"), nil
}

// objectName names the object in the log. A controller's pod has only generateName, the
// beginning of its name.
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

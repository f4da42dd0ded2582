package webhook

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/templates/podschema"
)

const (
	v1Version      = "admission.k8s.io/v1"
	v1beta1Version = "admission.k8s.io/v1beta1"
)

// Review is the request of an AdmissionReview, as far as the webhooks read it. Its
// JSON form is the same in v1 and v1beta1. A Review is for one goroutine.
//
// The objects are decoded when a webhook asks for them, and only then: that is where
// the memory goes. Object and OldObject are parts of the review's body.
type Review struct {
	UID types.UID `json:"uid"`
	Target
	Operation string `json:"operation"`
	DryRun    bool   `json:"dryRun"`
	Object    part   `json:"object"`
	OldObject part   `json:"oldObject"`
	UserInfo  part   `json:"userInfo"`

	memory memory
	// head is what of the object is read with the review.
	head head
	// metadata and pod are the decoded object, once [Review.Metadata] and [Review.Pod]
	// have been called.
	metadata, pod map[string]any
}

// head is the beginning of an object: what it is, and its metadata without managed fields.
// For a pod, containers says how many it has.
type head struct {
	apiVersion, kind string
	metadata         []member
	// hasMetadata says that there is an object of metadata, unknown that it has fields which
	// are not here.
	hasMetadata, unknown bool
	containers           int
}

// member is a field of an object's metadata, with the text of its value.
type member struct {
	name string
	text part
}

// metadataFields are those of [metav1.ObjectMeta], and whether they decide about injection.
// Managed fields are half of an ordinary pod, and no template sees them.
var metadataFields = map[string]struct {
	name    string
	decides bool
}{
	"name": {"name", true}, "generateName": {"generateName", true}, "labels": {"labels", true}, "annotations": {"annotations", true},
	"ownerReferences": {"ownerReferences", true}, "namespace": {"namespace", false}, "selfLink": {"selfLink", false}, "uid": {"uid", false},
	"resourceVersion": {"resourceVersion", false}, "generation": {"generation", false}, "creationTimestamp": {"creationTimestamp", false},
	"deletionTimestamp": {"deletionTimestamp", false}, "deletionGracePeriodSeconds": {"deletionGracePeriodSeconds", false}, "finalizers": {"finalizers", false},
}

// readMetadata reads an object's metadata. Of several fields with one name the last counts.
func (h *head) readMetadata(s *scanner) error {
	h.metadata, h.unknown = h.metadata[:0], false
	h.hasMetadata = s.json.PeekKind() == '{'
	return s.object(func(name []byte) error {
		field, known := metadataFields[string(name)]
		if !known {
			h.unknown = h.unknown || string(name) != "managedFields"
			return s.json.SkipValue()
		}
		i := slices.IndexFunc(h.metadata, func(m member) bool { return m.name == field.name })
		if i < 0 {
			i = len(h.metadata)
			h.metadata = append(h.metadata, member{name: field.name})
		}
		return s.part(&h.metadata[i].text)
	})
}

// part is a part of a body, without a copy of it. It is valid as long as the body.
type part []byte

// MarshalJSON implements [json.Marshaler].
func (p part) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	return p, nil
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
	var review envelope
	if err := scan(body, review.read); err != nil {
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

// envelope is an AdmissionReview.
type envelope struct {
	APIVersion, Kind string
	Request          *Review
}

func (e *envelope) read(s *scanner) error {
	return s.object(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return s.string(&e.APIVersion)
		case "kind":
			return s.string(&e.Kind)
		case "request":
			if s.json.PeekKind() == 'n' {
				return s.json.SkipValue()
			}
			e.Request = &Review{}
			return e.Request.read(s)
		}
		return s.json.SkipValue()
	})
}

// read reads a review. It goes over the object once: what of its metadata decides about
// injection is found on the way.
func (r *Review) read(s *scanner) error {
	return s.object(func(name []byte) error {
		switch string(name) {
		case "uid":
			return s.string((*string)(&r.UID))
		case "kind":
			return s.object(func(name []byte) error {
				switch string(name) {
				case "group":
					return s.string(&r.Kind.Group)
				case "version":
					return s.string(&r.Kind.Version)
				case "kind":
					return s.string(&r.Kind.Kind)
				}
				return s.json.SkipValue()
			})
		case "resource":
			return s.object(func(name []byte) error {
				switch string(name) {
				case "group":
					return s.string(&r.Resource.Group)
				case "version":
					return s.string(&r.Resource.Version)
				case "resource":
					return s.string(&r.Resource.Resource)
				}
				return s.json.SkipValue()
			})
		case "subResource":
			return s.string(&r.SubResource)
		case "namespace":
			return s.string(&r.Namespace)
		case "name":
			return s.string(&r.Name)
		case "operation":
			return s.string(&r.Operation)
		case "dryRun":
			return s.bool(&r.DryRun)
		case "object":
			r.head = head{}
			return s.spanned(&r.Object, func() error { return r.head.read(s) })
		case "oldObject":
			return s.part(&r.OldObject)
		case "userInfo":
			return s.part(&r.UserInfo)
		}
		return s.json.SkipValue()
	})
}

func (h *head) read(s *scanner) error {
	var regular, init int
	err := s.object(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return s.string(&h.apiVersion)
		case "kind":
			return s.string(&h.kind)
		case "metadata":
			return h.readMetadata(s)
		case "spec":
			return s.object(func(name []byte) error {
				switch string(name) {
				case "containers":
					return s.count(&regular)
				case "initContainers":
					return s.count(&init)
				}
				return s.json.SkipValue()
			})
		}
		return s.json.SkipValue()
	})
	h.containers = regular + init
	return err
}

// maxName bounds names in a review, in bytes. A name in Kubernetes has 253 at most.
const maxName = 512

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

// Metadata returns a pod that has nothing but the parts of its metadata that decide
// about injection: labels, annotations, owners and names. It costs little memory, however
// large the pod is. The caller does not modify it. The error is a [MalformedError], or
// one of [bounds.Budget.Take].
func (r *Review) Metadata(ctx context.Context) (map[string]any, error) {
	if r.metadata != nil {
		return r.metadata, nil
	}
	if err := r.aboutPod(); err != nil {
		return nil, err
	}
	if isAbsent(r.Object) {
		return nil, Malformed("the review's request has no object")
	}
	// The API server always says what its object is.
	if r.head.kind != "Pod" || r.head.apiVersion != "v1" {
		return nil, Malformed("the review's object is a %.64s of %.64s; this webhook is for v1 Pods", r.head.kind, r.head.apiVersion)
	}
	if err := r.memory.hold(ctx, r.Namespace, r.firstParts()...); err != nil {
		return nil, err
	}
	metadata := make(map[string]any, len(r.head.metadata))
	for _, m := range r.head.metadata {
		if !metadataFields[m.name].decides {
			continue
		}
		value, err := podschema.Decode(m.text)
		if err != nil {
			return nil, Malformed("the review's object is not a pod: metadata.%s: %v", m.name, err)
		}
		if value != nil {
			metadata[m.name] = value
		}
	}
	r.metadata = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
	return r.metadata, nil
}

// firstParts are what memory is needed for when the metadata are decoded: those alone, or all
// of a small object, so that nothing more has to be waited for.
func (r *Review) firstParts() []part {
	if len(r.Object) <= smallPart {
		return []part{r.Object}
	}
	var parts []part
	for _, m := range r.head.metadata {
		if metadataFields[m.name].decides {
			parts = append(parts, m.text)
		}
	}
	return parts
}

// Pod returns the pod under review, with its numbers kept exact. The caller does not
// modify it. Pod waits until there is memory for the decoded pod, and for what so many
// templates may make of it. The error is a [MalformedError], or one of
// [bounds.Budget.Take].
func (r *Review) Pod(ctx context.Context, templates int) (map[string]any, error) {
	if r.pod != nil {
		return r.pod, nil
	}
	decided, err := r.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	work := int64(r.head.containers) * int64(templates) * workPerContainer
	if err := r.memory.holdFor(ctx, r.Namespace, work, r.Object); err != nil {
		return nil, err
	}
	if !r.head.hasMetadata || r.head.unknown {
		r.pod, err = podschema.DecodeObject(r.Object, "metadata", "managedFields")
	} else if r.pod, err = podschema.DecodeObject(r.Object, "metadata"); err == nil {
		r.pod["metadata"], err = r.wholeMetadata(decided["metadata"].(map[string]any))
	}
	if err != nil {
		r.pod = nil
		return nil, Malformed("the review's object is not a pod: %v", err)
	}
	return r.pod, nil
}

// wholeMetadata returns all of the metadata, with what is decoded already.
func (r *Review) wholeMetadata(decided map[string]any) (map[string]any, error) {
	metadata := make(map[string]any, len(r.head.metadata))
	for _, m := range r.head.metadata {
		value, ok := decided[m.name]
		if !ok {
			var err error
			if value, err = podschema.Decode(m.text); err != nil {
				return nil, fmt.Errorf("metadata.%s: %w", m.name, err)
			}
		}
		metadata[m.name] = value
	}
	return metadata, nil
}

// OldPod returns what of the pod before an update the pipeline compares: labels, and of
// each container its name, image and resources. Every error is a [MalformedError].
func (r *Review) OldPod() (map[string]any, error) {
	if isAbsent(r.OldObject) {
		return nil, Malformed("the review's request has no oldObject")
	}
	var labels map[string]string
	spec := map[string]any{}
	err := scan(r.OldObject, func(s *scanner) error {
		return s.object(func(name []byte) error {
			switch string(name) {
			case "metadata":
				labels = nil
				return s.object(func(name []byte) error {
					if string(name) == "labels" {
						return s.texts(&labels)
					}
					return s.json.SkipValue()
				})
			case "spec":
				clear(spec)
				return s.object(func(name []byte) (err error) {
					switch list := string(name); list {
					case "initContainers", "containers", "ephemeralContainers":
						spec[list], err = s.oldContainers()
						return err
					}
					return s.json.SkipValue()
				})
			}
			return s.json.SkipValue()
		})
	})
	if err != nil {
		return nil, Malformed("the review's old object is not a pod: %v", err)
	}
	values := make(map[string]any, len(labels))
	for key, value := range labels {
		values[key] = value
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"labels": values}, "spec": spec}, nil
}

// oldContainers reads containers as [Review.OldPod] returns them.
func (s *scanner) oldContainers() ([]any, error) {
	containers := []any{}
	err := s.list(func() error {
		container := map[string]any{}
		var name, image string
		var resources part
		err := s.object(func(field []byte) error {
			switch string(field) {
			case "name":
				return s.string(&name)
			case "image":
				return s.string(&image)
			case "resources":
				return s.part(&resources)
			}
			return s.json.SkipValue()
		})
		if err != nil {
			return err
		}
		container["name"] = name
		if image != "" {
			container["image"] = image
		}
		if !isAbsent(resources) {
			container["resources"], err = podschema.Decode(resources)
		}
		containers = append(containers, container)
		return err
	})
	return containers, err
}

// drop gives back the memory of the objects. What names the review in the log stays.
func (r *Review) drop() {
	r.memory.free()
	r.Object, r.OldObject, r.UserInfo, r.pod = nil, nil, nil, nil
}

// FromNode reports whether a kubelet sent the request: only nodes are in the group
// system:nodes. The error is a [MalformedError].
func (r *Review) FromNode() (bool, error) {
	if isAbsent(r.UserInfo) {
		return false, nil
	}
	if len(r.UserInfo) > maxUserInfo {
		return false, Malformed("the review's userInfo has %d bytes; allowed are %d", len(r.UserInfo), maxUserInfo)
	}
	if bytes.IndexByte(r.UserInfo, '\\') < 0 && !bytes.Contains(r.UserInfo, []byte("system:nodes")) {
		return false, nil // no group can be spelt in another way
	}
	node := false
	err := scan(r.UserInfo, func(s *scanner) error {
		return s.object(func(name []byte) error {
			if string(name) != "groups" {
				return s.json.SkipValue()
			}
			node = false
			return s.list(func() error {
				var group string
				err := s.string(&group)
				node = node || group == "system:nodes"
				return err
			})
		})
	})
	if err != nil {
		return false, Malformed("the review's userInfo cannot be read: %v", err)
	}
	return node, nil
}

// maxUserInfo bounds the JSON of a review's user, in bytes: thousands of groups.
const maxUserInfo = 256 << 10

// name returns the name of the object. A review of an object whose name the API server has
// generated has it in the object alone.
func (r *Review) name() string {
	if r.Name != "" {
		return r.Name
	}
	i := slices.IndexFunc(r.head.metadata, func(m member) bool { return m.name == "name" })
	if i < 0 {
		return ""
	}
	name, _ := podschema.Decode(r.head.metadata[i].text)
	text, _ := name.(string)
	return text
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

// isAbsent reports whether a review leaves a part out.
func isAbsent(raw []byte) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

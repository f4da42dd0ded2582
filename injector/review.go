package injector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/templates"
)

const (
	v1Version      = "admission.k8s.io/v1"
	v1beta1Version = "admission.k8s.io/v1beta1"
)

// review is an AdmissionReview as far as this package reads it. Its JSON form is
// the same in v1 and v1beta1.
type review struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Request    *reviewRequest `json:"request"`
}

type reviewRequest struct {
	UID         types.UID                   `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   string                      `json:"operation"`
	UserInfo    authenticationv1.UserInfo   `json:"userInfo"`
	Object      json.RawMessage             `json:"object"`
	OldObject   json.RawMessage             `json:"oldObject"`
	DryRun      *bool                       `json:"dryRun"`
}

// badReview is a mistake of whoever sent the review. Its text goes into the answer.
type badReview struct{ text string }

func (b *badReview) Error() string { return b.text }

func bad(format string, args ...any) error { return &badReview{fmt.Sprintf(format, args...)} }

// decodeReview reads a v1 or v1beta1 AdmissionReview of a pod.
func decodeReview(body []byte) (*review, error) {
	r, err := decodeAnyReview(body)
	if err != nil {
		return nil, err
	}
	if want := (metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}); r.Request.Kind != want {
		return nil, bad("the review is about %s; this webhook is for v1 Pods", r.Request.Kind.String())
	}
	if r.Request.Resource.Resource != "pods" {
		return nil, bad("the review is about the resource %q; this webhook is for pods", r.Request.Resource.Resource)
	}
	return r, nil
}

// decodeAnyReview reads a v1 or v1beta1 AdmissionReview.
func decodeAnyReview(body []byte) (*review, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, bad("the body is empty; an AdmissionReview is expected")
	}
	var r review
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, bad("the body is not an AdmissionReview: %v", err)
	}
	if r.Kind != "AdmissionReview" {
		return nil, bad("the body's kind is %q; allowed is AdmissionReview", r.Kind)
	}
	if r.APIVersion != v1Version && r.APIVersion != v1beta1Version {
		return nil, bad("the review's apiVersion is %q; allowed are %s and %s", r.APIVersion, v1Version, v1beta1Version)
	}
	if r.Request == nil {
		return nil, bad("the review has no request")
	}
	if r.Request.UID == "" {
		return nil, bad("the review's request has no uid")
	}
	return &r, nil
}

// pod decodes the object under review.
func (r *reviewRequest) pod() (map[string]any, error) {
	if len(r.Object) == 0 || bytes.Equal(r.Object, []byte("null")) {
		return nil, bad("the review's request has no object")
	}
	pod, err := DecodePod(r.Object)
	if err != nil {
		return nil, bad("the review's object is not a pod: %v", err)
	}
	// The API server always says what its object is.
	if kind, version := pod["kind"], pod["apiVersion"]; kind != "Pod" || version != "v1" {
		return nil, bad("the review's object is a %v of %v; this webhook is for v1 Pods", kind, version)
	}
	return pod, nil
}

// DecodePod decodes one JSON object with its numbers kept exact.
func DecodePod(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var pod map[string]any
	if err := d.Decode(&pod); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the object")
	}
	if pod == nil {
		return nil, errors.New("it is null")
	}
	return pod, nil
}

// NamespaceOf returns what the pipeline needs of a Namespace object.
func NamespaceOf(object map[string]any) templates.Namespace {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return templates.Namespace{Name: name, Labels: stringMap(meta["labels"]), Annotations: stringMap(meta["annotations"])}
}

func (r *reviewRequest) dryRun() bool { return r.DryRun != nil && *r.DryRun }

// fromNode reports whether a kubelet sent the request: only nodes are in the
// group system:nodes.
func (r *reviewRequest) fromNode() bool { return slices.Contains(r.UserInfo.Groups, "system:nodes") }

// podName names the pod for messages. A pod of a controller has no name yet.
func (r *reviewRequest) podName(pod map[string]any) string {
	if r.Name != "" {
		return r.Name
	}
	meta, _ := pod["metadata"].(map[string]any)
	if name, ok := meta["generateName"].(string); ok && name != "" {
		return name + "…"
	}
	return "(no name yet)"
}

// encodeReview writes the answer in the version of the question.
func encodeReview(apiVersion string, response *admissionv1.AdmissionResponse) ([]byte, error) {
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "AdmissionReview"},
		Response: response,
	})
}

const (
	maxWarning  = 255
	maxWarnings = 4095
)

// boundWarnings makes warnings fit what the API server passes on: no control
// characters, each under 256 characters, together under 4,096, none twice.
func boundWarnings(warnings []string) []string {
	var bounded []string
	total := 0
	for _, w := range warnings {
		w = printable(w)
		if runes := []rune(w); len(runes) > maxWarning {
			w = string(runes[:maxWarning-1]) + "…"
		}
		if w == "" || slices.Contains(bounded, w) {
			continue
		}
		if total += len([]rune(w)); total > maxWarnings {
			break
		}
		bounded = append(bounded, w)
	}
	return bounded
}

// printable replaces what could break a header or a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

package injector

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/reason"
)

// Verify returns the webhook that looks at pods when every other webhook is done,
// and refuses those that are not what the required templates make of them.
func (h *Handler) Verify() http.Handler { return h.validating("required", h.verify) }

func (h *Handler) verify(ctx context.Context, r *reviewRequest) (verdict, error) {
	if r.Kind.Kind != "Pod" || r.Kind.Group != "" || r.Resource.Resource != "pods" {
		return verdict{}, bad("the review is about %s; this webhook is for v1 Pods", r.Kind.String())
	}
	set := h.Templates()
	if !slices.ContainsFunc(set.All(), isRequired) {
		return allow(), nil
	}
	pod, err := r.pod()
	if err != nil {
		return verdict{}, err
	}
	var old map[string]any
	if r.Operation == "UPDATE" {
		if old, err = DecodePod(r.OldObject); err != nil {
			return verdict{}, bad("the review's old object is not a pod: %v", err)
		}
	}
	ns, err := h.Namespaces.Get(ctx, r.Namespace)
	if err != nil {
		return verdict{}, fmt.Errorf("reading namespace %q of the pod: %w", r.Namespace, err)
	}
	wrong, err := h.Pipeline.Verify(Request{
		Operation: r.Operation, Subresource: r.SubResource, FromNode: r.fromNode(), Pod: pod, Namespace: ns, Templates: set,
	}, old)
	if err != nil || len(wrong) == 0 {
		return allow(), err
	}
	return refuse(reason.RequiredMissing, "required here, and not as it has to be: "+strings.Join(wrong, "; ")), nil
}

package webhook

import (
	"context"

	"github.com/pillion-dev/pillion/injector/entries"
)

type verify struct {
	pods    Pods
	through entries.Entry
}

// NewVerify returns the webhook that verifies the pods of an entry after all mutating webhooks.
// It refuses a pod that the required templates would still change.
func NewVerify(p Pods, through entries.Entry) Webhook {
	return verify{p, through}
}

func (verify) Name() string { return "verify" }

func (v verify) Review(ctx context.Context, r *Review) (Response, error) {
	if err := r.checkPod(); err != nil {
		return Response{}, err
	}
	required := len(v.pods.Templates().Required())
	if required == 0 {
		return Allowed(), nil
	}
	request, err := v.pods.request(ctx, r, v.through)
	if err != nil || !request.RequiredHere() {
		return Allowed(), err
	}
	if request.Pod, err = r.Pod(ctx, required); err != nil {
		return Response{}, err
	}
	if r.Operation == "UPDATE" {
		if request.Old, err = r.OldPod(); err != nil {
			return Response{}, err
		}
	}
	out, err := v.pods.Pipeline.Verify(ctx, request)
	if err != nil {
		return Response{}, err
	}
	if !out.Allowed {
		response := Denied(out.Code, out.Lines()...)
		response.Events = eventsOf(request.Pod, out)
		return response, nil
	}
	return Allowed(), nil
}

package webhook

import (
	"context"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/effects"
	"github.com/pillion-dev/pillion/injector/reason"
)

type mutate struct {
	pods    Pods
	through Entry
}

// NewMutate returns the webhook that injects sidecars into the new pods that come through an
// entry.
func NewMutate(p Pods, through Entry) Webhook { return mutate{p, through} }

func (mutate) Name() string { return "mutate" }

func (m mutate) Review(ctx context.Context, r *Review) (Response, error) {
	request, err := m.pods.request(ctx, r, m.through)
	if err != nil {
		return Response{}, err
	}
	// Where the metadata say enough, the pod is never decoded.
	if request.Pod, err = r.Metadata(ctx); err != nil {
		return Response{}, err
	}
	out, decided := m.pods.Pipeline.DecideByMetadata(request)
	if decided != nil {
		if request.Pod, err = r.Pod(ctx, decided.Templates); err != nil {
			return Response{}, err
		}
		if out, err = m.pods.Pipeline.InjectDecided(ctx, request, decided); err != nil {
			return Response{}, err
		}
	}
	response := Unchanged(out.Code)
	switch {
	case !out.Allowed:
		response = Denied(out.Code, out.Message)
	case len(out.Operations) > 0:
		response = Patched(out.Code, out.Operations)
	}
	response.Warnings, response.Templates, response.Events = out.Warnings, out.Templates, events(request.Pod, out)
	return response, nil
}

// events are about templates that somebody asked for and the pod did not get, and
// about a refusal that no template stands for.
func events(pod map[string]any, out injector.Outcome) []effects.Event {
	var events []effects.Event
	for _, t := range out.Templates {
		if t.Asked && t.Code != reason.Injected && t.Code != reason.NothingToInject {
			events = append(events, effects.Event{Pod: pod, Code: t.Code, Message: t.Name + ": " + t.Why})
		}
	}
	if !out.Allowed && len(out.Templates) == 0 || out.Code == reason.BadAnnotation {
		events = append(events, effects.Event{Pod: pod, Code: out.Code, Message: out.Message})
	}
	return events
}

package webhook

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

type mutate struct {
	pods    Pods
	through entries.Entry
}

// NewMutate returns the webhook that injects sidecars into the new pods that come through an
// entry.
func NewMutate(p Pods, through entries.Entry) Webhook { return mutate{p, through} }

func (mutate) Name() string { return "mutate" }

func (m mutate) Review(ctx context.Context, r *Review) (Response, error) {
	response, err := m.inject(ctx, r)
	refusal, refused := refuseForMemory(r, err)
	if !refused && err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && m.mayBeRequired(ctx, r) {
		refusal, refused = refuseForTime(r), true
	}
	if refused {
		refusal.Call = FirstCall
		return refusal, nil
	}
	return response, err
}

// mayBeRequired reports whether a required template may select a pod of the review's namespace.
func (m mutate) mayBeRequired(ctx context.Context, r *Review) bool {
	set := m.pods.Templates().In(r.Namespace)
	if len(set.Required()) == 0 || r.Operation != "CREATE" {
		return false
	}
	ns, err := m.pods.Namespaces.Get(ctx, r.Namespace, func(templates.Namespace) bool { return true })
	return err != nil && ns.Name == "" || set.VerifiedIn(ns)
}

// refuseForTime refuses a pod at the deadline. The API server would otherwise admit the pod without its required
// template.
func refuseForTime(r *Review) Response {
	const why = "Pillion was busy for all of the time that the API server waits, and a required template may select the pod. Try again"
	response := Denied(reason.TemplateTooExpensive, why+" ("+string(reason.TemplateTooExpensive)+")")
	response.Events = []events.Event{{Pod: r.metadata, Code: reason.TemplateTooExpensive, Message: why, Refused: true}}
	return response
}

func (m mutate) inject(ctx context.Context, r *Review) (Response, error) {
	request, err := m.pods.request(ctx, r, m.through)
	if err != nil {
		return Response{}, err
	}
	// If the metadata decide, the pod is never decoded.
	if request.Pod, err = r.Metadata(ctx); err != nil {
		return Response{}, err
	}
	out, decided := m.pods.Pipeline.DecideByMetadata(request)
	if decided != nil {
		if request.Pod, err = r.Pod(ctx, decided.Templates); err != nil {
			return Response{}, err
		}
		if out, err = m.pods.Pipeline.Continue(ctx, request, decided); err != nil {
			return Response{}, err
		}
	}
	response := Unchanged(out.Code)
	switch {
	case !out.Allowed:
		response = Denied(out.Code, out.Lines()...)
	case len(out.Operations) > 0:
		response = Patched(out.Code, out.Operations)
	}
	switch {
	case out.Code == reason.NotAPodCreation:
	case out.Recorded:
		response.Call = LaterCall
	default:
		response.Call = FirstCall
	}
	response.Warnings, response.Templates, response.Events = out.Warnings, out.Templates, eventsOf(request.Pod, out)
	return response, nil
}

// maxEvents bounds the events of one review.
const maxEvents = 8

// eventsOf returns the events of a review. A refused pod has an event for each refusal. An admitted
// pod has one for each requested template that it did not get, and for each warning. Events for
// warnings have the field Warned, because a person who creates a pod sees its warnings. All warnings
// without a reason code share one event.
func eventsOf(pod map[string]any, out injector.Outcome) []events.Event {
	var all []events.Event
	add := func(e events.Event) {
		if len(all) < maxEvents {
			e.Pod, e.Message, e.Refused = pod, printable(e.Message), !out.Allowed
			all = append(all, e)
		}
	}
	for _, t := range out.Refusals {
		add(events.Event{Code: t.Code, Message: t.Sentence()})
	}
	if !out.Allowed {
		return all
	}
	var reported, notes []string
	for _, t := range out.Templates {
		if lacks(t) {
			reported = append(reported, t.Warning())
			add(events.Event{Code: t.Code, Message: t.Sentence()})
		}
	}
	for _, warning := range out.Warnings {
		code, ok := reason.OfWarning(warning)
		switch {
		case slices.Contains(reported, warning):
		case ok:
			add(events.Event{Code: code, Message: strings.TrimPrefix(warning, code.Warning("")), Warned: true})
		default:
			notes = append(notes, warning)
		}
	}
	if len(notes) > 0 {
		add(events.Event{Code: events.InjectionNote, Message: strings.Join(notes, "; "), Warned: true})
	}
	return all
}

// lacks reports whether the pod does not get a template that was requested for it.
func lacks(t injector.TemplateOutcome) bool {
	return t.Requested && t.Code != reason.Injected && t.Code != reason.NothingToInject
}

package injector

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Verify refuses a final pod, after all webhooks, that lacks a part of a required template or contradicts one.
// An update is refused only for differences that it adds (update.go). Errors are those of [Pipeline.Inject].
func (p *Pipeline) Verify(ctx context.Context, r Request) (Outcome, error) {
	c := p.begin(ctx, r)
	refusals, err := c.verify()
	out := Outcome{Allowed: true, Change: Change{Pod: r.Pod}}
	if err != nil || len(refusals) == 0 {
		return c.end(out, err)
	}
	out.Allowed, out.Code, out.Refusals = false, reason.RequiredMissing, refusals
	out.Message = fmt.Sprintf(finalPodDiffers, sentences(refusals), out.Code)
	return out, nil
}

// verify returns the differences between a pod and the required templates, as refusals.
func (c *call) verify() ([]TemplateOutcome, error) {
	switch {
	case !c.request.RequiredHere():
		return nil, nil
	case c.request.Operation != "CREATE":
		return c.verifyUpdate()
	}
	base, decision, a, err := c.applyOrdinary(c.request.Pod)
	if err != nil {
		return nil, err
	}
	r, err := c.requireHere(base, c.request.Pod, decision, a)
	if err != nil {
		return nil, err
	}
	rec, _ := record.Parse(c.request.Pod) // the record only completes the message
	return c.refusalsOf(r, slices.Concat(r.Differences, r.Missing), rec), nil
}

// applyOrdinary applies the ordinary templates to the base of a final pod. The comparison needs their sidecars and
// writes. A template that fails has none; a request that fails is no reason to refuse here.
func (c *call) applyOrdinary(pod map[string]any) (base map[string]any, decision policy.Decision, a applied, err error) {
	rec, _ := record.Parse(pod) // a record that cannot be read counts as none
	base = rec.Base(pod)
	decision = c.decide(base, podLabels(pod))
	a, err = c.apply(base, decision)
	return base, decision, a, err
}

// refusalsOf returns a refusal for each required template that the pod differs from.
func (c *call) refusalsOf(r requiredResult, differences []required.Difference, rec record.Record) []TemplateOutcome {
	refusals := slices.Clone(r.refusals)
	for _, t := range r.turns {
		if t.refuses {
			refusals = append(refusals, t.outcome)
		}
		if wrong := c.differenceSentence(t.outcome.Name, differences, rec); wrong != "" {
			out := t.outcome
			out.Code, out.Requested, out.named, out.Why = reason.RequiredMissing, true, false, wrong
			refusals = append(refusals, out)
		}
	}
	return refusals
}

// differenceSentence lists the differences of a template, "" for none. The record only tells whether another webhook may
// have caused one.
func (c *call) differenceSentence(template string, differences []required.Difference, rec record.Record) string {
	var wrong []string
	since := false
	for _, d := range differences {
		if d.Template == template {
			wrong = append(wrong, d.String())
			since = since || wrote(rec, d.Path)
		}
	}
	text := strings.Join(wrong, "; ")
	if since {
		text += changedSince
	}
	return text
}

// wrote reports whether a record has a write at a path, or around it.
func wrote(rec record.Record, path *podschema.Path) bool {
	for ; path != nil; path = path.Parent() {
		if e, ok := rec.Set[path.String()]; ok && e.Sum != "" {
			return true
		}
	}
	return false
}

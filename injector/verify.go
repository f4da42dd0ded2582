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
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Verify refuses a final pod, after all webhooks, to which the required templates would add something, or
// that contradicts them. An update may add no such difference (update.go). Errors and the end of the
// context are as with [Pipeline.Inject].
func (p *Pipeline) Verify(ctx context.Context, r Request) (Outcome, error) {
	c := p.begin(ctx, r)
	refusals, err := c.wrong()
	out := Outcome{Allowed: true, Pod: r.Pod}
	if err != nil || len(refusals) == 0 {
		return c.end(out, err)
	}
	out.Allowed, out.Code, out.Refusals = false, reason.RequiredMissing, refusals
	out.Message = fmt.Sprintf("the pod differs from a required template: %s (%s)", sentences(refusals), out.Code)
	return out, nil
}

// wrong says in which ways a pod is not what the required templates make of it.
func (c *call) wrong() ([]TemplateOutcome, error) {
	switch {
	case !c.request.RequiredHere():
		return nil, nil
	case c.request.Operation != "CREATE":
		return c.wrongInUpdate()
	}
	base, decision, a, err := c.before(c.request.Pod)
	if err != nil {
		return nil, err
	}
	r, err := c.requireHere(base, c.request.Pod, decision, a)
	if err != nil {
		return nil, err
	}
	rec, _ := record.Parse(c.request.Pod) // only for what the refusal says
	return c.refusalsOf(r, slices.Concat(r.Differences, r.Missing), rec), nil
}

// before applies the ordinary templates to the base of a final pod, to know their sidecars and what
// they wrote. A template that fails gives none, and what the annotations ask for in vain refuses nothing.
func (c *call) before(pod map[string]any) (base map[string]any, decision policy.Decision, a applied, err error) {
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
		if wrong := c.sentence(t.outcome.Name, differences, rec); wrong != "" {
			out := t.outcome
			out.Code, out.Asked, out.named, out.Why = reason.RequiredMissing, true, false, wrong
			refusals = append(refusals, out)
		}
	}
	return refusals
}

// sentence lists the differences of a template, "" for none. The record only says whether another webhook
// may have made one.
func (c *call) sentence(template string, differences []required.Difference, rec record.Record) string {
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
		text += fmt.Sprintf(" (%s says that Pillion wrote it correctly. Either another webhook changed it, which spec.verify.allow of the template can allow, "+
			"or the annotation is another pod's: then remove it)", v1alpha1.StatusKey)
	}
	return text
}

// wrote reports whether a record says that Pillion wrote a place, or the whole around it.
func wrote(rec record.Record, path *podschema.Path) bool {
	for ; path != nil; path = path.Parent() {
		if e, ok := rec.Set[path.String()]; ok && e.Sum != "" {
			return true
		}
	}
	return false
}

package injector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion-dev/pillion/injector/reason"
)

// progress is how far the pipeline is with a request, and how long the request may take.
type progress struct {
	ctx context.Context
	// allowed is the time from the beginning to the context's deadline, 0 for none.
	allowed time.Duration
	// doing continues the sentence "while it was …". Template is the one that is being
	// rendered, "" for none.
	doing, template string
	config          Config
}

func (p *Pipeline) progress(ctx context.Context) *progress {
	k := &progress{ctx: ctx, doing: "beginning", config: p.config}
	if deadline, ok := ctx.Deadline(); ok {
		k.allowed = deadline.Sub(p.config.Now())
	}
	return k
}

// next begins the next step. Its error is the context's, which has ended.
func (k *progress) next(doing string) error {
	k.doing, k.template = doing, ""
	return k.ctx.Err()
}

// nextRender is next for the rendering of a template.
func (k *progress) nextRender(template string) error {
	k.doing, k.template = "rendering the template "+template, template
	return k.ctx.Err()
}

// end returns the outcome of a request. One that did not come to its end in time is
// refused: the API server would otherwise let the pod through without a word, or refuse
// it with an error that says nothing. An error is Pillion's own fault, or
// [context.Canceled] for a client that does not wait for the answer any more.
func (c *call) end(out Outcome, err error) (Outcome, error) {
	k, r := c.progress, c.request
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, context.Canceled):
		return Outcome{}, fmt.Errorf("the request was given up while Pillion was %s: %w", k.doing, context.Canceled)
	case !errors.Is(err, context.DeadlineExceeded):
		return Outcome{}, err
	}
	refusal := TemplateOutcome{Name: k.template, Code: reason.TemplateTooExpensive, Why: k.tooLate(), Asked: true, named: true}
	out = Outcome{Pod: r.Pod, Code: refusal.Code, Message: refused([]TemplateOutcome{refusal}, refusal.Code, k.config.explainCommand(r)), Refusals: []TemplateOutcome{refusal}}
	if k.template != "" {
		out.Templates = out.Refusals
	}
	return out, nil
}

// tooLate says that the time is up, and what to do.
func (k *progress) tooLate() string {
	time := "the time that the API server waits was up"
	if k.allowed > 0 {
		time = fmt.Sprintf("the %s that were allowed were up", shown(k.allowed))
	}
	return fmt.Sprintf("%s while Pillion was %s: make the pod smaller, or inject fewer templates into it; "+
		"if the pod is small, Pillion has too much to do: try again, or ask the cluster's admin for a longer timeout of the webhook", time, k.doing)
}

// shown writes a duration as people do.
func shown(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

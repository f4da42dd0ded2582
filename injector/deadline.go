package injector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion-dev/pillion/injector/reason"
)

// progress is the current step of a request, with the time that the request may take.
type progress struct {
	ctx context.Context
	// allowed is the time from the beginning to the context's deadline, 0 for none.
	allowed time.Duration
	// doing completes the sentence "while it was …". template is the template being rendered, "" for none.
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

// next begins the next step. It returns the error of a context that has ended.
func (k *progress) next(doing string) error {
	k.doing, k.template = doing, ""
	return k.ctx.Err()
}

// nextRender is next for the rendering of a template.
func (k *progress) nextRender(template string) error {
	k.doing, k.template = "rendering the template "+template, template
	return k.ctx.Err()
}

// end turns the end of a context into an outcome. It refuses a request whose deadline has passed: the API
// server would otherwise admit the pod silently, or refuse it with an error that names no cause. It returns
// [context.Canceled] if the client no longer waits, and any other error as it is.
func (c *call) end(out Outcome, err error) (Outcome, error) {
	k, r := c.progress, c.request
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, context.Canceled):
		return Outcome{}, fmt.Errorf(cancelled, k.doing, context.Canceled)
	case !errors.Is(err, context.DeadlineExceeded):
		return Outcome{}, err
	}
	refusal := TemplateOutcome{Name: k.template, Code: reason.TemplateTooExpensive, Why: k.deadlineMessage(), Requested: true, named: true}
	out = Outcome{Change: Change{Pod: r.Pod}, Code: refusal.Code, Message: refused([]TemplateOutcome{refusal}, refusal.Code), Command: k.config.explainCommand(r), Refusals: []TemplateOutcome{refusal}}
	if k.template != "" {
		out.Templates = out.Refusals
	}
	return out, nil
}

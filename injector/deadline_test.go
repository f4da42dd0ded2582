package injector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// ending is a context that ends when it has been asked so often. It has no clock.
type ending struct {
	context.Context
	after, asked int
	err          error
	// each is called whenever the context is asked.
	each func()
}

func (e *ending) Done() <-chan struct{} { return nil }

func (e *ending) Err() error {
	if e.asked++; e.each != nil {
		e.each()
	}
	if e.after >= 0 && e.asked > e.after {
		return e.err
	}
	return nil
}

// counting never ends.
func counting(tb testing.TB, each func()) *ending {
	return &ending{Context: tb.Context(), after: -1, each: each}
}

// large are reviews that take long, of which all steps of the pipeline have a share.
var large = []growth{
	{what: "three library templates", library: []string{"environment", "fluent-bit", "ca-bundle"}, shape: containers, size: 4000, refused: reason.TemplateTooExpensive},
	{what: "injected", library: []string{"environment"}, shape: containers, size: 500},
	{what: "required", templates: requiredOfApps, shape: containers, size: 250},
	{what: "verified", templates: requiredOfApps, shape: containers, size: 250, call: toVerify},
	{what: "updated", templates: requiredOfApps, shape: containers, size: 250, call: toUpdate},
}

func TestAReviewEndsSoonAfterItsContext(t *testing.T) {
	for _, g := range large {
		t.Run(g.what, func(t *testing.T) {
			r := g.at(t, g.size)
			all := counting(t, nil)
			if _, err := r.ask(all, r.text); err != nil {
				t.Fatal(err)
			}
			if all.asked < g.size {
				t.Fatalf("it asks its context %d times for %d", all.asked, g.size)
			}
			for fifth := range 5 {
				ctx := &ending{Context: t.Context(), after: all.asked * fifth / 5, err: context.DeadlineExceeded}
				out, err := r.ask(ctx, r.text)
				if err != nil || out.Allowed || out.Code != reason.TemplateTooExpensive || len(out.Operations) > 0 {
					t.Fatalf("ended after %d of %d: %v %s %v", ctx.after, all.asked, out.Allowed, out.Code, err)
				}
				if !strings.Contains(out.Message, "while Pillion was ") {
					t.Errorf("ended after %d of %d: %s", ctx.after, all.asked, out.Message)
				}
				// It was told once, and may have been asked again on the way out.
				if more := ctx.asked - ctx.after; more > 8 {
					t.Errorf("ended after %d of %d: it goes on for %d more", ctx.after, all.asked, more)
				}
			}
		})
	}
}

func TestARefusalForWantOfTimeSaysWhatToDo(t *testing.T) {
	g := large[0]
	r := g.at(t, g.size)
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	deadline, cancel := context.WithDeadline(t.Context(), began.Add(1800*time.Millisecond))
	defer cancel() // the deadline is in the past
	p := NewPipeline(Config{Now: func() time.Time { return began }})
	request := Request{Operation: "CREATE", Pod: podOf(t, string(r.text)), Templates: r.set, Namespace: templates.Namespace{Name: "bench"}}
	for step, c := range map[string]struct {
		ctx  context.Context
		want string
		name string
	}{
		"before anything": {deadline, "the 1.8 s that the API server allows passed while Pillion was choosing the templates: make the pod smaller, or inject fewer templates into it; " +
			"if the pod is small, Pillion is overloaded: try again, or ask the cluster's admin for a longer timeout of the webhook " +
			"(TemplateTooExpensive)", ""},
		"while a template is rendered": {&ending{Context: deadline, after: 500, err: context.DeadlineExceeded},
			"the 1.8 s that the API server allows passed while Pillion was rendering the template ", "fluent-bit"},
		"without a deadline": {&ending{Context: t.Context(), err: context.DeadlineExceeded}, "the API server's timeout passed while Pillion was ", ""},
	} {
		out, err := p.Inject(c.ctx, request)
		if err != nil || out.Allowed || len(out.Refusals) != 1 || !strings.HasPrefix(out.Message, c.want) {
			t.Errorf("%s: %v %v %s", step, err, out.Allowed, out.Message)
			continue
		}
		if c.name != "" && (len(out.Templates) != 1 || out.Templates[0].Name != out.Refusals[0].Name || out.Templates[0].Name != c.name) {
			t.Errorf("%s: the outcome is about %+v", step, out.Templates)
		}
	}
}

// A template that says onError: Skip is left out where it fails. That the time is up is no
// failure of the template's.
func TestWantOfTimeRefusesAPodWhateverTheTemplateSaysOfErrors(t *testing.T) {
	skipping := func(int) []string {
		return []string{manifestNamed("t", "onError: Skip, inject: {metadata: {labels: {a: b}}, spec: {initContainers: [{name: i, $position: First, image: \"i:1\", volumeMounts: [{name: v, mountPath: /v}]}], containers: ["+extending+"], volumes: [{name: v, emptyDir: {}}]}}")}
	}
	g := growth{templates: skipping, shape: containers}
	r := g.at(t, 20)
	all := counting(t, nil)
	if _, err := r.ask(all, r.text); err != nil {
		t.Fatal(err)
	}
	for after := range all.asked {
		out, err := r.ask(&ending{Context: t.Context(), after: after, err: context.DeadlineExceeded}, r.text)
		if err != nil || out.Allowed || out.Code != reason.TemplateTooExpensive {
			t.Fatalf("ended after %d of %d: %v %s %v", after, all.asked, out.Allowed, out.Code, err)
		}
	}
}

func TestARequestThatNobodyWaitsForIsAnErrorAndNoOutcome(t *testing.T) {
	for _, g := range large {
		r := g.at(t, g.size)
		for _, after := range []int{0, 100, 300} {
			out, err := r.ask(&ending{Context: t.Context(), after: after, err: context.Canceled}, r.text)
			if !errors.Is(err, context.Canceled) || out.Allowed || out.Message != "" {
				t.Errorf("%s, given up after %d: %v %+v", g.what, after, err, out)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := large[1].at(t, 10)
	if _, err := r.ask(ctx, r.text); !errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "choosing the templates") {
		t.Error(err)
	}
}

package injector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
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

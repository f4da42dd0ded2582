package expression_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

var here = expression.Place{At: (*manifest.Path)(nil).Field("x"), Line: 7}

// environment returns an environment with one parameter, and the mistakes that it gathers.
func environment(t *testing.T) (*expression.Environment, *[]expression.Error) {
	t.Helper()
	var problems []expression.Error
	env, err := expression.NewEnvironment(expression.Template{
		Patterns:   &param.Patterns{},
		Parameters: []v1alpha1.Parameter{{Name: "size", Type: v1alpha1.Integer}},
		Problem: func(at expression.Place, message string) {
			problems = append(problems, expression.Error{Place: at, Message: message})
		},
		Warn: func(_ expression.Place, message string) { t.Errorf("warned: %s", message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return env, &problems
}

// run begins a run for a pod with one container.
func run(env *expression.Environment, params map[string]any) *expression.Run {
	pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app"}}}}
	return env.Names().Run(context.Background(), &expression.Budget{}, pod, map[string]any{}, params)
}

func TestAnExpressionGivesRawJSON(t *testing.T) {
	env, problems := environment(t)
	env.Declare("twice", env.Compile("params.size * 2", here))
	for source, want := range map[string]any{
		"params.size": json.Number("3"), "variables.twice": json.Number("6"), "pod.spec.containers[0].name": "app",
		"null": nil, "pod.?metadata": nil, "1 < 2": true,
	} {
		e := env.Compile(source, here)
		if e == nil {
			t.Fatalf("%s: %v", source, *problems)
		}
		if got, err := e.Value(run(env, map[string]any{"size": int64(3)}).Scope()); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", source, got, err, want)
		}
	}
	if !env.Uses("size") || env.Uses("other") {
		t.Errorf("uses size %t, other %t", env.Uses("size"), env.Uses("other"))
	}
}

func TestAMistakeIsReportedAtItsPlace(t *testing.T) {
	env, problems := environment(t)
	spec, _ := podschema.Pod().Field("spec")
	for source, compile := range map[string]func(string) *expression.Expression{
		"params.sise":         func(s string) *expression.Expression { return env.Compile(s, here) },
		"pod.spec.containerz": func(s string) *expression.Expression { return env.Compile(s, here) },
		"'yes'":               func(s string) *expression.Expression { return env.CompileCondition(s, here) },
		"[1]":                 func(s string) *expression.Expression { return env.CompileText(s, here) },
		"'text'":              func(s string) *expression.Expression { return env.CompileValue(s, here, spec) },
	} {
		*problems = nil
		compile(source)
		if len(*problems) != 1 || (*problems)[0].Place != here || !strings.Contains((*problems)[0].Message, "the expression ") {
			t.Errorf("%s: %v", source, *problems)
		}
	}
}

func TestARunThatWentOverABoundIsOver(t *testing.T) {
	env, _ := environment(t)
	cheap := env.Compile("1", here)
	for bound, exceed := range map[string]func(*expression.Run) error{
		"bytes": func(r *expression.Run) error { return r.Spend(expression.MaxBytes+1, here.At) },
		"repetitions": func(r *expression.Run) error {
			items := "[" + strings.Repeat("1,", expression.MaxIterations) + "1]"
			return env.Compile(items, here).Repeat(r.Scope(), "i", here, func(*expression.Scope) error { return nil })
		},
		"cost": func(r *expression.Run) error {
			_, err := env.Compile("[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, 'aaaaaaaaaaaaaaaaaaaa'.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaaa')))", here).Value(r.Scope())
			return err
		},
	} {
		r := run(env, nil)
		var first, then *expression.Error
		if err := exceed(r); !errors.As(err, &first) || !first.TooExpensive {
			t.Errorf("%s: %v", bound, err)
			continue
		}
		if _, err := cheap.Value(r.Scope()); !errors.As(err, &then) || then != first {
			t.Errorf("%s: afterwards %v; want %v", bound, err, first)
		}
	}
}

func TestRepeatingBindsTheNameToEachItemAndToSortedKeys(t *testing.T) {
	env, _ := environment(t)
	for source, want := range map[string][]string{"['b', 'a']": {"b", "a"}, "{'b': 1, 'a': 2}": {"a", "b"}} {
		over := env.Compile(source, here)
		below, err := env.Bind("item", over)
		if err != nil {
			t.Fatal(err)
		}
		item := below.CompileText("item", here)
		var got []string
		err = over.Repeat(run(env, nil).Scope(), "item", here, func(s *expression.Scope) error {
			text, err := item.Text(s)
			got = append(got, text)
			return err
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", source, got, err, want)
		}
	}
	if _, err := env.Bind("pod", env.Compile("[1]", here)); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("binding pod: %v", err)
	}
	if _, err := env.Bind("item", env.Compile("1", here)); err == nil || !strings.Contains(err.Error(), "must give a list or a map") {
		t.Errorf("binding a number: %v", err)
	}
}

// over is a context that is found to have ended only after an evaluation has begun.
type over struct {
	context.Context
	done  chan struct{}
	asked int
}

func (o *over) Done() <-chan struct{} { return o.done }

func (o *over) Err() error {
	if o.asked++; o.asked == 1 {
		return nil
	}
	return context.DeadlineExceeded
}

func TestAnEvaluationOverALongListEndsWithItsContext(t *testing.T) {
	env, problems := environment(t)
	e := env.Compile("dyn(pod).items.map(i, dyn(pod).items.map(j, i + j).size()).size() > 0", here)
	if len(*problems) > 0 {
		t.Fatal(*problems)
	}
	items := make([]any, 150)
	for i := range items {
		items[i] = json.Number("1")
	}
	ctx := &over{Context: t.Context(), done: make(chan struct{})}
	close(ctx.done)
	r := env.Names().Run(ctx, &expression.Budget{}, map[string]any{"items": items}, map[string]any{}, map[string]any{})
	for range 2 { // a run that has ended stays so
		if _, err := e.Condition(r.Scope()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the evaluation gives %v", err)
		}
	}
}

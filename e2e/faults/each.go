package faults

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Values are the chart's values: those of everybody, and one template of the library.
func Values() []string {
	return []string{"--set", "library={" + librarySidecar + "}", "--set", "enforcement=Asked"}
}

// fewest is how many pods of a fault must be answered, or else it shows nothing.
const fewest = 50

// Each does the faults whose names match to a node, one after another, and writes a line of each to
// out. Wrong is all that is not as docs/concepts/faults.md states; the error is about the run itself.
func Each(ctx context.Context, g *ground.Node, checkout ground.Checkout, only *regexp.Regexp, out io.Writer) (wrong []string, err error) {
	chosen, err := choose(nodeFaults, only)
	if err != nil {
		return nil, err
	}
	// Forty pods a second in four namespaces.
	r, err := newRun(g, checkout, everything(), &load{pace: 100 * time.Millisecond}, out)
	if err != nil {
		return nil, err
	}
	r.node = g
	err = r.underLoad(ctx, func(ctx context.Context) error {
		for i, f := range chosen {
			broken, err := r.single(ctx, step{fault: f, round: i})
			wrong = append(wrong, broken...)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	})
	return wrong, err
}

// choose returns the faults whose names match.
func choose(all []fault, only *regexp.Regexp) ([]fault, error) {
	chosen := slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return !only.MatchString(f.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no fault's name matches %s", only)
	}
	return chosen, nil
}

// single does one fault, and writes its line.
func (r *run) single(ctx context.Context, s step) (broken []string, err error) {
	before, err := r.quiet(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("before it: %w", err)
	}
	c, err := r.round(ctx, []step{s})
	done := r.log.faults[len(r.log.faults)-1]
	recovered := max(0, c.last.Sub(done.ended))
	r.say("FAULT %s tried=%d refused=%d wrong=%d bare=%d p99_ms=%d recovered_ms=%d", s.name,
		c.all(), c.of[refused], c.of[wrong], c.of[bare], measure.Quantile(c.times, 0.99).Milliseconds(), recovered.Milliseconds())
	if n := c.of[wrong]; n > 0 {
		broken = append(broken, fmt.Sprintf("%s: %d pods", s.name, n))
	}
	if n := c.all(); n < fewest {
		broken = append(broken, fmt.Sprintf("%s: %d pods were answered, want %d", s.name, n, fewest))
	}
	if err != nil {
		return broken, err
	}
	after, err := r.restarts(ctx)
	if err != nil {
		return broken, err
	}
	for pod, n := range after {
		if !s.restarts && n > before[pod] {
			broken = append(broken, fmt.Sprintf("%s: %s was restarted %d times", s.name, pod, n-before[pod]))
		}
	}
	if err := r.clear(ctx, []step{s}); err != nil {
		return broken, err
	}
	return broken, r.g.Rollout(ctx, ground.Namespace)
}

// quiet prepares a fault, and returns when all is well, with the restarts of Pillion's pods so far. The
// pods until then do not count.
func (r *run) quiet(ctx context.Context, s step) (restarted map[string]int32, err error) {
	if restarted, err = r.restarts(ctx); err != nil {
		return nil, err
	}
	if s.restarts && slices.Max(append(slices.Collect(maps.Values(restarted)), 0)) > 0 {
		if err := restart(ctx, r, s); err != nil {
			return nil, err
		}
	}
	if s.before != nil {
		if err := s.before(ctx, r, s); err != nil {
			return nil, err
		}
	}
	// Replicas that are replaced end later than their successors begin.
	if err := r.g.Rollout(ctx, ground.Namespace); err != nil {
		return nil, err
	}
	if err := r.sound(ctx); err != nil {
		return nil, err
	}
	if _, err := r.load.answered(ctx); err != nil {
		return nil, err
	}
	return r.restarts(ctx)
}

// restarts are how often the containers of each of Pillion's pods were restarted.
func (r *run) restarts(ctx context.Context) (map[string]int32, error) {
	pods, err := r.client.CoreV1().Pods(ground.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	n := map[string]int32{}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			n[p.Name] += s.RestartCount
		}
	}
	return n, nil
}

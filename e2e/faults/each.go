package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Values are the chart's values: those of everybody, and one template of the library.
func Values() []string {
	return []string{"--set", "library={" + librarySidecar + "}", "--set", "enforcement=Asked"}
}

// Each does the faults whose names match to a node, one after another, and writes a line of each to
// out. Wrong is what is not as docs/concepts/faults.md states; the error is about the run itself.
func Each(ctx context.Context, g *ground.Node, checkout ground.Checkout, only *regexp.Regexp, out io.Writer) (wrong []string, err error) {
	r, err := newRun(g, checkout, everything(), &load{pace: 100 * time.Millisecond}, out)
	if err != nil {
		return nil, err
	}
	if r.windows, err = readWindows(checkout); err != nil {
		return nil, err
	}
	err = r.underLoad(ctx, func(ctx context.Context) error {
		for i, f := range nodeFaults {
			if !only.MatchString(f.name) {
				continue
			}
			said, err := r.single(ctx, Step{fault: f, Name: f.name, Round: i, Hold: f.hold})
			wrong = append(wrong, said...)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	})
	return wrong, err
}

// single does one fault, and writes its line.
func (r *run) single(ctx context.Context, s Step) (broken []string, err error) {
	before, err := r.restarts(ctx)
	if err != nil {
		return nil, err
	}
	if s.restarts && total(before) > 0 {
		err = restart(ctx, r, s)
	}
	if s.before != nil {
		err = errors.Join(err, s.before(ctx, r, s))
	}
	if err = errors.Join(err, r.sound(ctx)); err != nil {
		return nil, fmt.Errorf("before it: %w", err)
	}
	if before, err = r.restarts(ctx); err != nil {
		return nil, err
	}
	r.load.take() // the pods until now do not count
	c, err := r.round(ctx, []Step{s})
	if err != nil {
		return nil, err
	}
	done := r.log.Faults[len(r.log.Faults)-1]
	recovered := max(0, c.last.Sub(done.Ended))
	r.say("FAULT %s tried=%d refused=%d wrong=%d bare=%d p99_ms=%d recovered_ms=%d", s.Name,
		c.all(), c.tried[refused], c.tried[wrong], c.tried[bare], measure.Quantile(c.took, 0.99).Milliseconds(), recovered.Milliseconds())
	if n := c.tried[wrong]; n > 0 {
		broken = append(broken, fmt.Sprintf("%s: %d pods", s.Name, n))
	}
	after, err := r.restarts(ctx)
	if err != nil {
		return broken, err
	}
	for pod, n := range after {
		if !s.restarts && n > before[pod] {
			broken = append(broken, fmt.Sprintf("%s: %s was restarted %d times", s.Name, pod, n-before[pod]))
		}
	}
	return broken, r.g.Rollout(ctx, ground.Namespace)
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

func total(restarts map[string]int32) (n int32) {
	for _, more := range restarts {
		n += more
	}
	return n
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// timeout is how long an API server waits for an answer.
const timeout = 10 * time.Second

// An exchange is a review as it is sent, and the answer that it has to get.
type exchange struct{ body, answer []byte }

// A client sends reviews to one Pillion.
type client struct {
	*measure.Reviewer
	exchanges []exchange
}

// learn sends every review once, checks that the answer is as it has to be, and keeps it.
func (c *client) learn(ctx context.Context, cluster *measure.Cluster) error {
	all, err := reviews(ctx, cluster)
	if err != nil {
		return err
	}
	least, most, total := len(all[0].body), 0, 0
	seen := map[string]int{} // reviews of each namespace
	for _, r := range all {
		patched := r.group.injected && seen[r.group.namespace] >= r.group.again
		seen[r.group.namespace]++
		var answer []byte
		// Pillion may need a moment to learn of a namespace.
		err := measure.Within(ctx, 20*time.Second, func() (err error) {
			answer, err = c.first(ctx, r.body, patched)
			return err
		})
		if err != nil {
			return fmt.Errorf("a review in namespace %s: %w", r.group.namespace, err)
		}
		c.exchanges = append(c.exchanges, exchange{r.body, answer})
		least, most, total = min(least, len(r.body)), max(most, len(r.body)), total+len(r.body)
	}
	fmt.Printf("%d reviews of %.1f to %.1f KB, %.1f KB on average\n", len(all), float64(least)/1e3, float64(most)/1e3, float64(total)/float64(len(all))/1e3)
	return nil
}

// first is the answer to a review, which has to have a patch or none.
func (c *client) first(ctx context.Context, body []byte, patched bool) ([]byte, error) {
	answer, err := c.Review(ctx, body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, err
	}
	if review.Response == nil || !review.Response.Allowed || (len(review.Response.Patch) > 0) != patched {
		return nil, fmt.Errorf("the answer is %.400s; want a patch: %t", answer, patched)
	}
	return answer, nil
}

// repeat sends the review of a number once more, and wants the same answer.
func (c *client) repeat(ctx context.Context, number int) error {
	// A step that shares no divisor with the number of reviews mixes them.
	e := c.exchanges[number*37%len(c.exchanges)]
	answer, err := c.Review(ctx, e.body)
	if err == nil && !bytes.Equal(answer, e.answer) {
		err = fmt.Errorf("the answer is %.400s, and was %.400s", answer, e.answer)
	}
	return err
}

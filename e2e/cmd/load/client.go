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

// A client sends reviews to one Pillion.
type client struct {
	*measure.Reviewer
	reviews []review
}

// learn sends every review once, and keeps the answer, which has to have a patch or none.
func (c *client) learn(ctx context.Context) error {
	for i := range c.reviews {
		r := &c.reviews[i]
		// Pillion may need a moment to learn of a namespace.
		err := measure.Within(ctx, 20*time.Second, func() (err error) {
			if r.answer, err = c.Review(ctx, r.body); err != nil {
				return err
			}
			var answer admissionv1.AdmissionReview
			if err := json.Unmarshal(r.answer, &answer); err != nil {
				return err
			}
			if a := answer.Response; a == nil || !a.Allowed || (len(a.Patch) > 0) != r.patched {
				return fmt.Errorf("the answer is %.400s; want a patch: %t", r.answer, r.patched)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("a review in namespace %s: %w", r.namespace, err)
		}
	}
	return nil
}

// repeat sends the review of a number once more, and wants the same answer.
func (c *client) repeat(ctx context.Context, number int) error {
	// A step that shares no divisor with the number of reviews mixes them.
	r := c.reviews[number*37%len(c.reviews)]
	answer, err := c.Review(ctx, r.body)
	if err == nil && !bytes.Equal(answer, r.answer) {
		err = fmt.Errorf("the answer is %.400s, and was %.400s", answer, r.answer)
	}
	return err
}

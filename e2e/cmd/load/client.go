package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// connections is how many a kube-apiserver keeps to a webhook. Here there are never more, so a
// review may have to wait for one, which counts.
const connections = 25

// timeout is how long an API server waits for an answer.
const timeout = 10 * time.Second

// An exchange is a review as it is sent, and the answer that it has to get.
type exchange struct{ body, answer []byte }

// A client sends reviews to one Pillion.
type client struct {
	url       string
	http      *http.Client
	exchanges []exchange
}

// post sends a review, and reads the answer into into.
func (c *client) post(ctx context.Context, body []byte, into *bytes.Buffer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	into.Reset()
	_, err = into.ReadFrom(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.200s", response.Status, into)
	}
	return nil
}

// learn sends every review once, checks that the answer is as it has to be, and keeps it. It
// makes the second calls from the answers to the first ones.
func (c *client) learn(ctx context.Context, reviews []review) error {
	least, most, total := largest, 0, 0
	for _, r := range reviews {
		body := r.body
		answer, err := c.first(ctx, r)
		if err == nil && r.again {
			if body, err = r.secondCall(answer.response); err == nil {
				answer, err = c.ask(ctx, body)
			}
			if err == nil && len(answer.response.Patch) > 0 {
				err = fmt.Errorf("the second call changes the pod: %s", answer.response.Patch)
			}
		}
		if err == nil && (len(body) < smallest || len(body) > largest) {
			err = fmt.Errorf("it has %d bytes", len(body))
		}
		if err != nil {
			return fmt.Errorf("review %s in namespace %s: %w", r.uid, r.group.namespace, err)
		}
		c.exchanges = append(c.exchanges, exchange{body, answer.text})
		least, most, total = min(least, len(body)), max(most, len(body)), total+len(body)
	}
	fmt.Printf("%d reviews of %.1f to %.1f KB, %.1f KB on average\n", len(reviews), float64(least)/1e3, float64(most)/1e3, float64(total)/float64(len(reviews))/1e3)
	return nil
}

// An answer is one that allows the pod.
type answer struct {
	text     []byte
	response *admissionv1.AdmissionResponse
}

// first is the answer to a first call. Pillion may need a moment to learn of a namespace.
func (c *client) first(ctx context.Context, r review) (answer, error) {
	var a answer
	err := measure.Within(ctx, 20*time.Second, func() (err error) {
		if a, err = c.ask(ctx, r.body); err == nil && (len(a.response.Patch) > 0) != r.group.injected {
			err = fmt.Errorf("the patch is %q; injected should be %t", a.response.Patch, r.group.injected)
		}
		return err
	})
	return a, err
}

func (c *client) ask(ctx context.Context, body []byte) (answer, error) {
	var text bytes.Buffer
	if err := c.post(ctx, body, &text); err != nil {
		return answer{}, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text.Bytes(), &review); err != nil {
		return answer{}, err
	}
	if review.Response == nil || !review.Response.Allowed {
		return answer{}, fmt.Errorf("the answer is %.400s", &text)
	}
	return answer{text.Bytes(), review.Response}, nil
}

// load sends the reviews, and returns what was measured.
func (c *client) load(ctx context.Context, pid, rate int, lasting time.Duration) (*report, error) {
	// Each pass over the corpus has another order, the same in every run.
	var order []int
	random := rand.New(rand.NewPCG(3, 4))
	for len(order) < int(lasting.Seconds()*float64(rate)) {
		order = append(order, random.Perm(len(c.exchanges))...)
	}
	buffers := make([]bytes.Buffer, connections)
	before, err := usageOf(pid)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	results := fire(ctx, rate, lasting, timeout, connections, func(ctx context.Context, client, number int) error {
		e := c.exchanges[order[number]]
		if err := c.post(ctx, e.body, &buffers[client]); err != nil {
			return err
		}
		if !bytes.Equal(buffers[client].Bytes(), e.answer) {
			return fmt.Errorf("the answer is %.400s, and was %.400s", &buffers[client], e.answer)
		}
		return nil
	})
	took := time.Since(began)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	after, err := usageOf(pid)
	if err != nil {
		return nil, err
	}
	peak, err := peakMemory(pid)
	if err != nil {
		return nil, err
	}
	return &report{
		rate: rate, results: results, peak: peak,
		cpu: (after.ran - before.ran).Seconds() / took.Seconds(), waited: (after.waited - before.waited).Seconds() / took.Seconds(),
	}, nil
}

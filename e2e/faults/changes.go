package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// inForce is how long a change may take to be in force on every replica: p99.
const inForce = time.Second

// changeLimit is how long a run waits for one.
const changeLimit = 20 * time.Second

// A change is made many times under load, and looked for on every replica.
type change struct {
	kind string
	n    int
	// prepare makes what the changes need.
	prepare func(ctx context.Context, r *run) error
	// make makes the i-th change. It returns what tells whether a review's answer has it.
	make func(ctx context.Context, r *run, i int) (has func(answer string) bool, err error)
	// throughAPIServer has the change looked for in a pod that an API server admits, in the
	// i-th namespace, in place of each replica's own answer.
	throughAPIServer bool
}

// changesNamespace is where the changes show.
const changesNamespace = "faults-changes"

var templateResource = schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}

// matchingTemplate is selected by a label of namespaces.
const matchingTemplate = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: faults-matching}
spec:
  match: {namespaceSelector: {matchLabels: {example.com/faults: matching}}}
  inject:
    spec:
      initContainers:
      - {name: faults-matching, restartPolicy: Always, image: "registry.example.com/matching:1"}
`

const firstAnnotations = 30

var changes = []change{
	{kind: "template", n: 100, prepare: makeChangesNamespace, make: func(ctx context.Context, r *run, i int) (func(string) bool, error) {
		value := fmt.Sprintf("template-%d", i)
		patch := fmt.Sprintf(`{"spec":{"parameters":[{"name":"logLevel","type":"string","default":%q}]}}`, value)
		_, err := r.dynamic.Resource(templateResource).Patch(ctx, clusterSidecar, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return func(answer string) bool { return strings.Contains(answer, value) }, err
	}},
	{kind: "annotation", n: 100, prepare: makeChangesNamespace, make: func(ctx context.Context, r *run, i int) (func(string) bool, error) {
		value := fmt.Sprintf("annotation-%d", i)
		err := r.patchNamespace(ctx, changesNamespace, `{"metadata":{"annotations":{"faults-side.pillion.dev/log-level":"`+value+`"}}}`)
		return func(answer string) bool { return strings.Contains(answer, value) }, err
	}},
	{kind: "label", n: 100, prepare: func(ctx context.Context, r *run) error {
		return errors.Join(makeChangesNamespace(ctx, r), r.apply(ctx, matchingTemplate), measure.Sleep(ctx, 2*settle))
	}, make: func(ctx context.Context, r *run, i int) (func(string) bool, error) {
		on, value := i%2 == 0, "null"
		if on {
			value = `"matching"`
		}
		err := r.patchNamespace(ctx, changesNamespace, `{"metadata":{"labels":{"example.com/faults":`+value+`}}}`)
		return func(answer string) bool { return strings.Contains(answer, `"faults-matching"`) == on }, err
	}},
	{kind: "first-annotation", n: firstAnnotations, throughAPIServer: true, prepare: func(ctx context.Context, r *run) error {
		for i := range firstAnnotations {
			if err := makeNamespace(ctx, r.client, firstNamespace(i), NeverAsked); err != nil {
				return err
			}
		}
		return nil
	}, make: func(ctx context.Context, r *run, i int) (func(string) bool, error) {
		err := r.patchNamespace(ctx, firstNamespace(i), `{"metadata":{"annotations":{"`+injectAnnotation+`":"`+asks+`"}}}`)
		return func(answer string) bool { return strings.Contains(answer, `"`+clusterSidecar+`"`) }, err
	}},
}

func firstNamespace(i int) string { return fmt.Sprintf("faults-first-%d", i) }

func makeChangesNamespace(ctx context.Context, r *run) error {
	if _, err := r.client.CoreV1().Namespaces().Get(ctx, changesNamespace, metav1.GetOptions{}); err == nil {
		return r.patchNamespace(ctx, changesNamespace, `{"metadata":{"annotations":{"faults-side.pillion.dev/log-level":null}}}`)
	}
	if err := makeNamespace(ctx, r.client, changesNamespace, Requested); err != nil {
		return err
	}
	return measure.Sleep(ctx, 2*settle)
}

func (r *run) patchNamespace(ctx context.Context, name, patch string) error {
	_, err := r.client.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// change measures one kind of change, from the API server's answer to the write.
func (r *run) change(ctx context.Context, c change, wrong *[]string) error {
	if err := c.prepare(ctx, r); err != nil {
		return err
	}
	replicas, err := r.reviewers(ctx)
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range c.n {
		has, err := c.make(ctx, r, i)
		if err != nil {
			return err
		}
		began := time.Now()
		if c.throughAPIServer {
			err = until(ctx, has, func() (string, error) { return r.preview(ctx, firstNamespace(i)) })
		}
		for _, replica := range replicas {
			if err == nil && !c.throughAPIServer {
				err = until(ctx, has, func() (string, error) { return ask(ctx, replica, changesNamespace) })
			}
		}
		if err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		took = append(took, time.Since(began))
	}
	p50, p99 := measure.Quantile(took, 0.5), measure.Quantile(took, 0.99)
	fmt.Fprintf(r.out, "CHANGE %s n=%d p50_ms=%d p99_ms=%d\n", c.kind, len(took), p50.Milliseconds(), p99.Milliseconds())
	if p99 > inForce {
		*wrong = append(*wrong, fmt.Sprintf("a change of the kind %s takes %s (p99), want %s at most", c.kind, p99.Round(time.Millisecond), inForce))
	}
	return nil
}

// until asks until the answer has what is looked for.
func until(ctx context.Context, has func(string) bool, ask func() (string, error)) error {
	for began := time.Now(); ; {
		answer, err := ask()
		if err == nil && has(answer) {
			return nil
		}
		if time.Since(began) > changeLimit {
			return fmt.Errorf("not in force after %s: %.300s (%v)", changeLimit, answer, err)
		}
		if err := measure.Sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// preview is a pod of the namespace as the API server admits it.
func (r *run) preview(ctx context.Context, namespace string) (string, error) {
	pod, err := r.client.CoreV1().Pods(namespace).Create(ctx, loadPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(pod)
	return string(text), err
}

func loadPod() *corev1.Pod {
	pod := measure.ReplicaSetPod()
	pod.OwnerReferences = nil
	return pod
}

// reviewers returns one for each replica.
func (r *run) reviewers(ctx context.Context) (list []*measure.Reviewer, err error) {
	for _, replica := range r.g.Replicas(ground.Namespace) {
		reviewer, err := measure.NewReviewer(ctx, r.client, replica, 15*time.Second)
		if err != nil {
			return nil, err
		}
		list = append(list, reviewer)
	}
	return list, nil
}

// ask returns the patch that the replica answers for a pod of the namespace.
func ask(ctx context.Context, replica *measure.Reviewer, namespace string) (string, error) {
	pod := loadPod()
	pod.Namespace = namespace
	review, err := measure.ReviewOf(pod, "0f5b8a5e-64f3-4a55-8f0e-2a3b5c8d9e02", true)
	if err != nil {
		return "", err
	}
	text, err := replica.Review(ctx, review)
	if err != nil {
		return "", err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &answer); err != nil || answer.Response == nil {
		return "", fmt.Errorf("%s answers %.300s", replica.Name, text)
	}
	return string(answer.Response.Patch), nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

const (
	// soon bounds what should take about a second, on a machine that may be busy.
	soon = 30 * time.Second
	// countedPods is how many pods of each case show how often webhooks are called.
	countedPods = 20
	// warmUp is how many rounds are run before it counts.
	warmUp = 50
)

// A bench is the cases, set up on a cluster, and what was measured of them.
type bench struct {
	cluster   *measure.Cluster
	yardstick *process
	pod       []byte // JSON
	http      *http.Client

	times map[string][]time.Duration
	calls map[string]string
}

func (b *bench) close() {
	if b.yardstick != nil {
		b.yardstick.stop()
	}
}

// prepare sets every case up, and returns when each does to a pod what it is to do.
func (b *bench) prepare(ctx context.Context) (err error) {
	b.times, b.calls = map[string][]time.Duration{}, map[string]string{}
	if b.pod, err = json.Marshal(measure.ReplicaSetPod()); err != nil {
		return err
	}
	// HTTP/2, so one connection.
	if b.http, err = rest.HTTPClientFor(b.cluster.Config); err != nil {
		return err
	}
	for _, c := range cases {
		annotations := map[string]string{}
		if c.asks {
			annotations["pillion.dev/inject"] = template
		}
		if err := b.cluster.MakeNamespace(ctx, c.namespace(), annotations); err != nil {
			return err
		}
		if c.called {
			if err := b.haveCalled(ctx, c); err != nil {
				return err
			}
		}
	}
	added, err := b.addition(ctx)
	if err != nil {
		return err
	}
	if b.yardstick, err = startYardstick(ctx, b.cluster, added); err != nil {
		return fmt.Errorf("starting the fixed webhooks: %w", err)
	}
	for _, c := range cases {
		if c.path != "" {
			err = b.yardstick.register(ctx, b.cluster, c)
		} else if c.policy {
			err = b.applyPolicy(ctx, c, added)
		}
		if err != nil {
			return fmt.Errorf("setting up %s: %w", c.name, err)
		}
	}
	return b.compare(ctx)
}

// haveCalled labels the namespace of a case by hand: where nothing asks, Pillion is not called.
func (b *bench) haveCalled(ctx context.Context, c benchCase) error {
	_, err := b.cluster.Client.CoreV1().Namespaces().Patch(ctx, c.namespace(), types.MergePatchType, []byte(`{"metadata":{"labels":{"pillion.dev/injection":"enabled"}}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling the namespace of %s: %w", c.name, err)
	}
	return nil
}

// addition is what Pillion's template adds, taken from a pod.
func (b *bench) addition(ctx context.Context) (addition, error) {
	var a addition
	err := measure.Within(ctx, soon, func() error {
		pod, err := b.preview(ctx, fluentBit)
		if err != nil {
			return err
		}
		if a, err = additionOf(pod); err == nil {
			a.Record, a.Labels = pod.Annotations[statusKey], marked(pod)
		}
		return err
	})
	return a, err
}

// marked are the labels by which Pillion marks a pod.
func marked(pod *corev1.Pod) map[string]string {
	labels := maps.Clone(pod.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !strings.Contains(key, "pillion.dev/") })
	return labels
}

// additionOf is what the template added to a pod: its sidecar without the service account's
// token, the volumes that the sidecar mounts, and where the pod's own container mounts them.
func additionOf(pod *corev1.Pod) (addition, error) {
	c := measure.Container(pod, template)
	if c == nil {
		return addition{}, fmt.Errorf("a pod in a namespace that asks for %s has no such container", template)
	}
	a := addition{Sidecar: *c.DeepCopy()}
	a.Sidecar.VolumeMounts = slices.DeleteFunc(a.Sidecar.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == measure.TokenPath })
	ours := func(volume string) bool {
		return slices.ContainsFunc(a.Sidecar.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	}
	for _, v := range pod.Spec.Volumes {
		if ours(v.Name) {
			a.Volumes = append(a.Volumes, v)
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if ours(m.Name) {
			a.Mounts = append(a.Mounts, m)
		}
	}
	return a, nil
}

func (b *bench) applyPolicy(ctx context.Context, c benchCase, a addition) error {
	manifest, err := a.policy(c.namespace(), c.namespace())
	if err != nil {
		return err
	}
	_, _, err = ground.Exec(ctx, b.cluster, manifest, "kubectl", "apply", "-f", "-")
	return err
}

// compare returns when every case that is to add the sidecar adds the same.
func (b *bench) compare(ctx context.Context) error {
	want, err := b.addition(ctx)
	if err != nil {
		return err
	}
	marks := want.Labels
	want.Record, want.Labels = "", nil
	for _, c := range cases {
		err := measure.Within(ctx, soon, func() error {
			before, err := b.called(ctx)
			if err != nil {
				return err
			}
			pod, err := b.preview(ctx, c.name)
			if err != nil {
				return err
			}
			after, err := b.called(ctx)
			if err != nil {
				return err
			}
			if said := perPod(before, after, 1); (said == "none") == (c.adds || c.called) {
				return fmt.Errorf("called for a pod: %s", said)
			}
			got, err := additionOf(pod)
			switch {
			case c.adds && err != nil:
				return err
			case c.path == recordPath && (pod.Annotations[statusKey] == "" || !maps.Equal(marked(pod), marks)):
				return errors.New("it adds no record, or other labels than Pillion")
			case c.adds && !equality.Semantic.DeepEqual(got, want):
				return fmt.Errorf("it adds %+v; Pillion adds %+v", got, want)
			case !c.adds && err == nil:
				return errors.New("it adds a sidecar")
			case c.adds && tokenMount(measure.Container(pod, template)) == nil:
				return errors.New("the sidecar has no token of the service account")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// called is how often each webhook and policy was called so far.
func (b *bench) called(ctx context.Context) (map[string]float64, error) {
	metrics, err := b.cluster.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading kube-apiserver's metrics: %w", err)
	}
	return calls(metrics)
}

// preview is what a pod of the case looks like that is created by dry run.
func (b *bench) preview(ctx context.Context, name string) (*corev1.Pod, error) {
	i := slices.IndexFunc(cases, func(c benchCase) bool { return c.name == name })
	return b.cluster.Client.CoreV1().Pods(cases[i].namespace()).Create(ctx, measure.ReplicaSetPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// count finds out how often each webhook is called for a pod of each case.
func (b *bench) count(ctx context.Context) error {
	for _, c := range cases {
		before, err := b.called(ctx)
		if err != nil {
			return err
		}
		for range countedPods {
			if _, err := b.create(ctx, c); err != nil {
				return err
			}
		}
		after, err := b.called(ctx)
		if err != nil {
			return err
		}
		b.calls[c.name] = perPod(before, after, countedPods)
	}
	return nil
}

// measure creates a pod of each case in each round. The order is another one in each, so
// that no case always comes after the same.
func (b *bench) measure(ctx context.Context, rounds int) error {
	order := slices.Clone(cases)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range warmUp + rounds {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, c := range order {
			took, err := b.create(ctx, c)
			if err != nil {
				return err
			}
			if i >= warmUp {
				b.times[c.name] = append(b.times[c.name], took)
			}
		}
	}
	return nil
}

// create creates a pod by dry run, and returns how long the answer took.
func (b *bench) create(ctx context.Context, c benchCase) (time.Duration, error) {
	url := b.cluster.Config.Host + "/api/v1/namespaces/" + c.namespace() + "/pods?dryRun=All"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b.pod))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "bench") // it is in the pod's managed fields
	began := time.Now()
	response, err := b.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	answer, err := io.ReadAll(response.Body)
	took := time.Since(began)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	if response.StatusCode != http.StatusCreated || strings.Contains(string(answer), `"name":"`+template+`"`) != c.adds {
		return 0, fmt.Errorf("%s: %s %.400s", c.name, response.Status, answer)
	}
	return took, nil
}

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

// A bench creates the same pod in the namespaces of all cases.
type bench struct {
	cluster *measure.Cluster
	pod     []byte // JSON
	http    *http.Client
}

func newBench(cluster *measure.Cluster) (*bench, error) {
	pod, err := json.Marshal(measure.ReplicaSetPod())
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(cluster.Config) // HTTP/2, so one connection
	return &bench{cluster, pod, client}, err
}

// prepare sets every case up, and returns when each adds to a pod what it is to add. The caller
// stops the fixed webhooks by what it returns.
func (b *bench) prepare(ctx context.Context) (stop func(), err error) {
	for _, c := range cases {
		annotations := map[string]string{}
		if c.asks {
			annotations["pillion.dev/inject"] = template
		}
		if err := b.cluster.MakeNamespace(ctx, c.namespace(), annotations); err != nil {
			return nil, err
		}
		if c.called {
			if _, err := ground.Run(ctx, b.cluster, "kubectl", "label", "namespace", c.namespace(), "pillion.dev/injection=enabled"); err != nil {
				return nil, err
			}
		}
	}
	var added addition
	err = measure.Within(ctx, soon, func() error {
		added, err = b.addition(ctx, fluentBit)
		return err
	})
	if err != nil {
		return nil, err
	}
	yardstick, err := startYardstick(ctx, b.cluster, added)
	if err != nil {
		return nil, fmt.Errorf("starting the fixed webhooks: %w", err)
	}
	defer func() {
		if err != nil {
			yardstick.stop()
		}
	}()
	for _, c := range cases {
		if c.path != "" {
			err = yardstick.register(ctx, b.cluster, c)
		} else if c.policy {
			err = b.applyPolicy(ctx, c, added)
		}
		if err != nil {
			return nil, fmt.Errorf("setting up %s: %w", c.name, err)
		}
	}
	return yardstick.stop, b.compare(ctx, added)
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
func (b *bench) compare(ctx context.Context, want addition) error {
	for _, c := range cases {
		if !c.adds {
			continue
		}
		err := measure.Within(ctx, soon, func() error {
			got, err := b.addition(ctx, c)
			if got.Record, got.Labels = want.Record, want.Labels; err == nil && !equality.Semantic.DeepEqual(got, want) {
				err = fmt.Errorf("it adds %+v; Pillion adds %+v", got, want)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// addition is what a case adds to a pod: its sidecar without the service account's token, the volumes
// that the sidecar mounts, where the pod's own container mounts them, and the marks of Pillion.
func (b *bench) addition(ctx context.Context, c benchCase) (addition, error) {
	pod, err := b.cluster.Client.CoreV1().Pods(c.namespace()).Create(ctx, measure.ReplicaSetPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return addition{}, err
	}
	sidecar := measure.Container(pod, template)
	if sidecar == nil {
		return addition{}, fmt.Errorf("a pod in the namespace has no container %s", template)
	}
	a := addition{Sidecar: *sidecar, Record: pod.Annotations[statusKey], Labels: pod.Labels}
	maps.DeleteFunc(a.Labels, func(key, _ string) bool { return !strings.Contains(key, "pillion.dev/") })
	a.Sidecar.VolumeMounts = slices.DeleteFunc(slices.Clone(sidecar.VolumeMounts), func(m corev1.VolumeMount) bool { return m.MountPath == measure.TokenPath })
	ours := func(volume string) bool {
		return slices.ContainsFunc(a.Sidecar.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	}
	a.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return !ours(v.Name) })
	a.Mounts = slices.DeleteFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return !ours(m.Name) })
	return a, nil
}

// count finds out how often each webhook is called for a pod of each case, by its name.
func (b *bench) count(ctx context.Context) (map[string]string, error) {
	counts := map[string]string{}
	for _, c := range cases {
		before, err := b.called(ctx)
		if err != nil {
			return nil, err
		}
		for range countedPods {
			if _, err := b.create(ctx, c); err != nil {
				return nil, err
			}
		}
		after, err := b.called(ctx)
		if err != nil {
			return nil, err
		}
		counts[c.name] = perPod(before, after, countedPods)
	}
	return counts, nil
}

// called is how often each webhook and policy was called so far.
func (b *bench) called(ctx context.Context) (map[string]float64, error) {
	metrics, err := b.cluster.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading kube-apiserver's metrics: %w", err)
	}
	return calls(metrics)
}

// measure creates a pod of each case in each round, and returns how long each took, by the case's name.
// The order is another one in each round, so that no case always comes after the same.
func (b *bench) measure(ctx context.Context, rounds int) (map[string][]time.Duration, error) {
	times := map[string][]time.Duration{}
	order := slices.Clone(cases)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range warmUp + rounds {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, c := range order {
			took, err := b.create(ctx, c)
			if err != nil {
				return nil, err
			}
			if i >= warmUp {
				times[c.name] = append(times[c.name], took)
			}
		}
	}
	return times, nil
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

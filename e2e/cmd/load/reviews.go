package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// The reviews are of pods from smallest bytes of JSON to largest, spread evenly over the orders of
// magnitude.
const (
	smallest = 3 << 10
	largest  = 55 << 10
)

// plain is the namespace in which API servers complete the pods of first calls: nobody asks there.
const plain = "load-plain"

// library are the templates that any group asks for.
const library = "{environment,fluent-bit,istio-proxy,otel-collector,statsd-exporter,vault-agent}"

const inject = "pillion.dev/inject"

// A group is reviews of pods in one namespace.
type group struct {
	namespace string
	asks      map[string]string // the namespace's annotations
	pod       map[string]string // the pods' own annotations
	reviews   int
	again     int // how many of them are second calls: the pod comes with what Pillion wrote
}

// groups are about half pods that nobody asked for, and a third with fluent-bit.
var groups = []group{
	{namespace: "load-none", reviews: 90},
	{namespace: "load-opted-out", asks: map[string]string{inject: "fluent-bit"}, pod: map[string]string{inject: "false"}, reviews: 10},
	{namespace: "load-fluent-bit", asks: map[string]string{inject: "fluent-bit"}, reviews: 50, again: 15},
	{namespace: "load-debug", asks: map[string]string{inject: "fluent-bit"}, pod: map[string]string{"fluent-bit.pillion.dev/log-level": "debug"}, reviews: 10},
	{namespace: "load-otel", asks: map[string]string{inject: "otel-collector", "otel-collector.pillion.dev/endpoint": "https://otlp.example.com:4317"}, reviews: 10, again: 2},
	{namespace: "load-vault", asks: map[string]string{inject: "vault-agent", "vault-agent.pillion.dev/role": "shop", "vault-agent.pillion.dev/secrets.db": "secret/data/shop/db"}, reviews: 10, again: 2},
	{namespace: "load-istio", asks: map[string]string{inject: "istio-proxy"}, reviews: 10, again: 2},
	{namespace: "load-three", asks: map[string]string{inject: "environment,fluent-bit,statsd-exporter", "environment.pillion.dev/env.STATSD": "127.0.0.1:9125"}, reviews: 10, again: 2},
}

// A review is sent again and again, and always gets the same answer.
type review struct {
	namespace    string
	body, answer []byte
	patched      bool // by the answer
}

// makeReviews makes all reviews. An API server completes the pods, by dry run: a first call is of a pod
// as it is without Pillion, a second call of one that Pillion has injected.
func makeReviews(ctx context.Context, cluster *measure.Cluster) ([]review, error) {
	if err := cluster.MakeNamespace(ctx, plain, nil); err != nil {
		return nil, err
	}
	total := 0
	for _, g := range groups {
		if err := cluster.MakeNamespace(ctx, g.namespace, g.asks); err != nil {
			return nil, err
		}
		total += g.reviews
	}
	// API servers call Pillion where nobody asks, because of a label by hand.
	if _, err := ground.Run(ctx, cluster, "kubectl", "label", "namespace", groups[0].namespace, "pillion.dev/injection=enabled"); err != nil {
		return nil, err
	}
	var reviews []review
	for _, g := range groups {
		for i := range g.reviews {
			// A step that shares no divisor with the number of reviews mixes sizes and groups.
			share := float64(len(reviews)*83%total) / float64(total)
			at := plain
			if i < g.again {
				at = g.namespace
			}
			pod, err := cluster.Client.CoreV1().Pods(at).Create(ctx, podOf(g, int(smallest*math.Pow(largest/smallest, share))), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return nil, fmt.Errorf("completing a pod for %s: %w", g.namespace, err)
			}
			// As an API server sends it, the pod has no name and no UID yet.
			pod.Namespace, pod.Name, pod.UID, pod.CreationTimestamp = g.namespace, "", "", metav1.Time{}
			body, err := measure.ReviewOf(pod, types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", len(reviews))), false)
			if err != nil {
				return nil, err
			}
			injected := g.asks != nil && g.pod[inject] != "false"
			reviews = append(reviews, review{namespace: g.namespace, body: body, patched: injected && i >= g.again})
		}
	}
	return reviews, nil
}

// podOf is a pod of the group as its ReplicaSet makes it, with variables for about so many bytes.
// Half of a review is the pod, and half its managed fields.
func podOf(g group, size int) *corev1.Pod {
	pod := measure.ReplicaSetPod()
	pod.Annotations = maps.Clone(g.pod)
	c := &pod.Spec.Containers[0]
	for i := range max(0, size-smallest) / 200 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: strings.Repeat("value/", 1+i%16)})
	}
	return pod
}

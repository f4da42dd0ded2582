package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// A snapshot is what there is at a time: objects, by resource, namespace and name, and the most that a
// replica has of each of measures.
type snapshot struct {
	objects map[string]bool
	usage   map[string]float64
}

// measures are metrics of replicas, and how much more a replica may have at the end than at the beginning:
// caches, and connections that close soon.
var measures = map[string]float64{memory: 48 << 20, goroutines: 40, "process_open_fds": 30}

const memory, goroutines = "process_resident_memory_bytes", "go_goroutines"

// leftLimit is how long the end may take to be as the beginning: API servers close a connection that
// they do not use after 90 seconds.
const leftLimit = 2 * time.Minute

// uncounted are resources whose objects come and go by themselves, or that Kubernetes makes of others.
var uncounted = []string{"events", "pods", "replicasets", "endpoints", "endpointslices", "componentstatuses"}

func (r *run) snapshot(ctx context.Context) (snapshot, error) {
	s := snapshot{objects: map[string]bool{}, usage: map[string]float64{}}
	groups, err := r.client.Discovery().ServerPreferredResources()
	if err != nil {
		return s, err
	}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return s, err
		}
		for _, resource := range group.APIResources {
			if slices.Contains(uncounted, resource.Name) || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			list, err := r.dynamic.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return s, err
			}
			for _, o := range list.Items {
				if !strings.HasPrefix(o.GetName(), "sh.helm.release.") { // Helm's own history
					s.objects[fmt.Sprintf("%s %s/%s", resource.Name, o.GetNamespace(), o.GetName())] = true
				}
			}
		}
	}
	replicas := r.g.Replicas(ground.Namespace)
	if len(replicas) != SoakReplicas {
		return s, fmt.Errorf("%d replicas run, want %d", len(replicas), SoakReplicas)
	}
	for _, replica := range replicas {
		for name := range measures {
			n, err := measure.Metric(ctx, replica, name)
			if err != nil {
				return s, err
			}
			s.usage[name] = max(s.usage[name], n)
		}
	}
	return s, nil
}

// differs says what is not as it was before.
func (s snapshot) differs(before snapshot) []string {
	var differs []string
	for o := range s.objects {
		if !before.objects[o] {
			differs = append(differs, "there is "+o)
		}
	}
	for o := range before.objects {
		if !s.objects[o] {
			differs = append(differs, "there is no "+o)
		}
	}
	for name, more := range measures {
		if s.usage[name] > before.usage[name]+more {
			differs = append(differs, fmt.Sprintf("a replica has %s=%.0f, and one had %.0f", name, s.usage[name], before.usage[name]))
		}
	}
	slices.Sort(differs)
	return differs
}

// left waits until all is as it was before, and says what is not.
func (r *run) left(ctx context.Context, before snapshot) (after snapshot, differs []string, err error) {
	for deadline := time.Now().Add(leftLimit); ; {
		if after, err = r.snapshot(ctx); err != nil {
			differs = []string{err.Error()}
		} else {
			differs = after.differs(before)
		}
		if len(differs) == 0 || time.Now().After(deadline) {
			return after, differs, nil
		}
		if err := measure.Sleep(ctx, time.Second); err != nil {
			return after, differs, err
		}
	}
}

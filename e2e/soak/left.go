package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// usage is the most that a replica has at a time.
type usage struct{ rss, goroutines, files int }

// A snapshot is what there is at a time.
type snapshot struct {
	usage
	objects map[string]bool // by resource, namespace and name
}

// What a replica may have more at the end than at the beginning: caches, and connections that close soon.
const moreRSS, moreGoroutines, moreFiles = 48 << 20, 40, 30

// countLimit is how long the end may take to be as the beginning: API servers close a connection that
// they do not use after 90 seconds.
const countLimit = 2 * time.Minute

// uncounted are resources whose objects come and go by themselves, or that Kubernetes makes of others.
var uncounted = []string{"events", "pods", "replicasets", "endpoints", "endpointslices", "componentstatuses"}

func (r *run) snapshot(ctx context.Context) (snapshot, error) {
	s := snapshot{objects: map[string]bool{}}
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
	if len(replicas) != Replicas {
		return s, fmt.Errorf("%d replicas run, want %d", len(replicas), Replicas)
	}
	for _, replica := range replicas {
		u, err := measure.UsageOf(replica.PID)
		if err != nil {
			return s, err
		}
		goroutines, err := measure.Metric(ctx, replica, "go_goroutines")
		if err != nil {
			return s, err
		}
		files, err := measure.Metric(ctx, replica, "process_open_fds")
		if err != nil {
			return s, err
		}
		s.rss, s.goroutines, s.files = max(s.rss, int(u.Resident)), max(s.goroutines, int(goroutines)), max(s.files, int(files))
	}
	return s, nil
}

// differs says what is not as it was before.
func (s snapshot) differs(before snapshot) []string {
	var differs []string
	for _, o := range slices.Sorted(maps.Keys(s.objects)) {
		if !before.objects[o] {
			differs = append(differs, "there is "+o)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(before.objects)) {
		if !s.objects[o] {
			differs = append(differs, "there is no "+o)
		}
	}
	for _, u := range []struct {
		what                string
		before, after, more int
	}{
		{"bytes in memory", before.rss, s.rss, moreRSS}, {"goroutines", before.goroutines, s.goroutines, moreGoroutines}, {"open files and connections", before.files, s.files, moreFiles},
	} {
		if u.after > u.before+u.more {
			differs = append(differs, fmt.Sprintf("a replica has %d %s, and one had %d", u.after, u.what, u.before))
		}
	}
	return differs
}

// count counts what is left: what the end has and the beginning had not, or the other way round.
func (r *run) count(ctx context.Context, before snapshot) error {
	for _, namespace := range namespaces {
		if err := r.client.CoreV1().Pods(namespace).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}); err != nil {
			return err
		}
	}
	var differs []string
	for deadline := time.Now().Add(countLimit); ; {
		after, err := r.snapshot(ctx)
		if err == nil {
			r.result.usage = after.usage
			differs = after.differs(before)
		} else {
			differs = []string{err.Error()}
		}
		if len(differs) == 0 || time.Now().After(deadline) {
			break
		}
		if err := measure.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	r.result.Left = len(differs)
	for _, d := range differs {
		r.say("LEFT %s", d)
	}
	return nil
}

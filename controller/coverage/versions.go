package coverage

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// Stable is the value of the label version for the template itself. No canary can have this name.
	Stable = "(stable)"
	// restartWindow is how long a pod counts as not ready after a restart of a container. It is longer than the
	// kubelet's longest back-off, 5 minutes, so that a pod in a crash loop is never counted as ready.
	restartWindow = 10 * time.Minute
)

// version is a version of a template: [Stable], the name of a canary, or others.
type version struct{ template, name string }

type readiness struct{ ready, notReady int }

// versions has the pods of each version.
type versions map[version]readiness

// newVersions returns zero counts for each canary and for the template that it is compared with.
func newVersions(set *templates.Set) versions {
	v := versions{}
	for _, c := range set.Canaries() {
		if c.Version != nil {
			v[version{c.Of, Stable}], v[version{c.Of, c.Name}] = readiness{}, readiness{}
		}
	}
	return v
}

// add counts a pod. It ignores templates in the pod's record that the cluster does not have, because the pod's author
// can write the record.
func (v versions) add(set *templates.Set, pod map[string]any, compared []drift.Template, now time.Time) {
	for _, t := range compared {
		if t.Has == "" {
			continue
		}
		e, ok := set.Get(t.Name)
		if !ok {
			continue
		}
		of := version{t.Name, versionName(set, e, t.Has)}
		n := v[of]
		if isReady(pod, now) {
			n.ready++
		} else {
			n.notReady++
		}
		v[of] = n
	}
}

// versionName returns the name of the version of a template that has the hash.
func versionName(set *templates.Set, stable templates.Entry, hash string) string {
	if stable.Template != nil && stable.Template.Hash() == hash {
		return Stable
	}
	for _, c := range set.CanariesOf(stable.Name) {
		if c.Version != nil && c.Version.Hash() == hash {
			return c.Name
		}
	}
	return others
}

// isReady reports whether the pod has the condition Ready, and no container that restarted within
// [restartWindow].
func isReady(pod map[string]any, now time.Time) bool {
	ready := false
	for _, item := range list(pod, "conditions") {
		if c, _ := item.(map[string]any); c["type"] == "Ready" {
			ready = c["status"] == "True"
		}
	}
	for _, statuses := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, item := range list(pod, statuses) {
			status, _ := item.(map[string]any)
			at, _, _ := unstructured.NestedString(status, "lastState", "terminated", "finishedAt")
			if finished, err := time.Parse(time.RFC3339, at); err == nil && now.Sub(finished) < restartWindow {
				return false
			}
		}
	}
	return ready
}

// list returns a list of the pod's status.
func list(pod map[string]any, name string) []any {
	status, _ := pod["status"].(map[string]any)
	items, _ := status[name].([]any)
	return items
}

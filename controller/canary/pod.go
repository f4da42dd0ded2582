package canary

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/show"
)

// Rules say when a container fails.
type Rules struct {
	// Restarts is how often a container has restarted that fails, if the last time is less than
	// Lately ago: old pods have restarted for other reasons.
	Restarts int
	Lately   time.Duration
	// NotReady is for how long a container that fails was seen not ready.
	NotReady time.Duration
}

// DefaultRules are those of design and docs.
var DefaultRules = Rules{Restarts: 3, Lately: time.Hour, NotReady: 5 * time.Minute}

// ended reports whether a pod has no future: its containers do not run again.
func ended(pod map[string]any) bool {
	metadata, status := object(pod, "metadata"), object(pod, "status")
	phase := text(status, "phase")
	return metadata["deletionTimestamp"] != nil || phase == "Succeeded" || phase == "Failed"
}

type seenFor func(container string, since time.Time) time.Duration

// failure returns what fails of a pod with a version of a template, by what the kubelet and the
// scheduler say in its status. Added are the names of the containers that the template may add. Seen returns
// for how long a container, or "" for the pod, was seen in a state that began at a time.
func (r Rules) failure(pod map[string]any, rec record.Record, added []*regexp.Regexp, now time.Time, seen seenFor) Failure {
	status := object(pod, "status")
	if since, ok := unscheduledSince(status); ok && seen("", since) >= r.NotReady {
		return Failure{ContainersNotReady, "its pods cannot be scheduled"}
	}
	own := ownContainers(rec, added)
	begun := begunAt(status)
	for _, list := range []struct{ spec, status string }{{"initContainers", "initContainerStatuses"}, {"containers", "containerStatuses"}} {
		for _, item := range items(status, list.status) {
			if container, _ := item.(map[string]any); own[list.spec+"/"+text(container, "name")] {
				if f := r.container(container, begun, now, seen); f != (Failure{}) {
					return f
				}
			}
		}
	}
	return Failure{}
}

// container returns what fails of a container. Begun is when it could start, for one that never did.
func (r Rules) container(status map[string]any, begun, now time.Time, seen seenFor) Failure {
	name := show.Plain(text(status, "name"))
	running, waiting, last := object(status, "state", "running"), object(status, "state", "waiting"), object(status, "lastState", "terminated")
	terminated := object(status, "state", "terminated")
	restarts, _ := status["restartCount"].(json.Number)
	if n, err := restarts.Int64(); err == nil && n >= int64(r.Restarts) {
		if at, ok := moment(last, "finishedAt"); ok && now.Sub(at) < r.Lately {
			return Failure{ContainersRestart, fmt.Sprintf("the container %s restarted %d times%s", name, n, exit(last))}
		}
	}
	if ready, _ := status["ready"].(bool); ready {
		return Failure{}
	}
	since, why := begun, ""
	switch {
	case waiting != nil:
		if why = text(waiting, "reason"); why == "PodInitializing" {
			return Failure{} // other containers keep it waiting
		}
		why = " (" + show.Plain(why) + ")"
	case running != nil:
		since, _ = moment(running, "startedAt")
	case terminated != nil:
		if code, _ := terminated["exitCode"].(json.Number); code == "0" {
			return Failure{} // it has done its work
		}
		since, _ = moment(terminated, "finishedAt")
		why = exit(terminated)
	}
	if since.IsZero() || seen(text(status, "name"), since) < r.NotReady {
		return Failure{}
	}
	return Failure{ContainersNotReady, fmt.Sprintf("the container %s is not ready%s", name, why)}
}

func exit(terminated map[string]any) string {
	code, ok := terminated["exitCode"].(json.Number)
	if !ok {
		return ""
	}
	if why := text(terminated, "reason"); why != "" && why != "Error" {
		return fmt.Sprintf(" (%s, exit code %s)", show.Plain(why), show.Plain(code.String()))
	}
	return fmt.Sprintf(" (exit code %s)", show.Plain(code.String()))
}

// begunAt returns when the containers of a pod that wait could start at the latest: when the
// kubelet took the pod, when the pod's containers ceased to be ready, and when its last init container
// ended. A container that waits has no time of its own. It is zero if the status does not tell.
func begunAt(status map[string]any) time.Time {
	begun, _ := moment(status, "startTime")
	if begun.IsZero() {
		return begun
	}
	later := func(at time.Time, ok bool) {
		if ok && at.After(begun) {
			begun = at
		}
	}
	if c := condition(status, "ContainersReady"); text(c, "status") == "False" {
		later(moment(c, "lastTransitionTime"))
	}
	for _, item := range items(status, "initContainerStatuses") {
		container, _ := item.(map[string]any)
		later(moment(object(container, "state", "terminated"), "finishedAt"))
		later(moment(object(container, "state", "running"), "startedAt"))
	}
	return begun
}

// unscheduledSince returns since when the scheduler finds no node for the pod.
func unscheduledSince(status map[string]any) (time.Time, bool) {
	c := condition(status, "PodScheduled")
	if text(c, "status") != "False" || text(c, "reason") != "Unschedulable" {
		return time.Time{}, false
	}
	return moment(c, "lastTransitionTime")
}

// ownContainers returns the containers of a template, as LIST/NAME. The record tells which they are:
// those that Pillion added under one of the names, or, of a template that adds none, those that
// Pillion changed.
func ownContainers(rec record.Record, added []*regexp.Regexp) map[string]bool {
	own := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		places := rec.Root.Child("spec").Child(list)
		if places == nil {
			continue
		}
		for segment, place := range places.In {
			name, ok := strings.CutPrefix(segment, "name=")
			if !ok || place.Added != (len(added) > 0) {
				continue
			}
			if !place.Added || slices.ContainsFunc(added, func(e *regexp.Regexp) bool { return e.MatchString(name) }) {
				own[list+"/"+name] = true
			}
		}
	}
	return own
}

func object(in map[string]any, path ...string) map[string]any {
	for _, key := range path {
		in, _ = in[key].(map[string]any)
	}
	return in
}

func items(in map[string]any, key string) []any { list, _ := in[key].([]any); return list }

func text(in map[string]any, key string) string { s, _ := in[key].(string); return s }

func moment(in map[string]any, key string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text(in, key))
	return at, err == nil
}

// condition returns the condition of a type of a pod's status, nil for none.
func condition(status map[string]any, of string) map[string]any {
	for _, item := range items(status, "conditions") {
		if c, _ := item.(map[string]any); text(c, "type") == of {
			return c
		}
	}
	return nil
}

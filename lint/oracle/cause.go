package oracle

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Cause is one mistake of a pod.
type Cause struct {
	// Steps lead to the nearest place in the manifest, as [templates.Place] takes them.
	Steps []any
	// Message names the container, the mistake and the value.
	Message string
}

// Problem returns the cause with its place in a manifest.
func (c Cause) Problem(d templates.Document) templates.Problem {
	path, line := templates.Place(d, c.Steps...)
	return templates.Problem{Path: path, Line: line, Message: "the API server refuses pods that get this: " + c.Message}
}

// undecodable begins the message of an API server that cannot decode a pod.
const undecodable = "cannot be handled as a Pod: "

// causesOf returns the causes of an API server's error. It returns none if the error does not say that
// the pod itself is invalid. Webhooks and admission policies may answer 422 and 400 as well, with
// messages of their own.
func causesOf(err error, t *templates.Template, pod map[string]any) []Cause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	answer := status.Status()
	if _, why, ok := strings.Cut(answer.Message, undecodable); ok && apierrors.IsBadRequest(err) {
		var found *workload.FieldError
		if _, err := workload.Decode[corev1.Pod](pod); !errors.As(err, &found) {
			return []Cause{NewCause(t, pod, "", why)} // an API server with other types
		}
		return []Cause{NewCause(t, pod, found.Field, found.Message())}
	}
	if !apierrors.IsInvalid(err) || !strings.HasPrefix(answer.Message, "Pod ") || answer.Details == nil {
		return nil
	}
	var causes []Cause
	for _, c := range answer.Details.Causes {
		causes = append(causes, NewCause(t, pod, c.Field, c.Message))
	}
	return causes
}

// NewCause returns the cause of a mistake in a field of a pod, which is written as the API does.
func NewCause(t *templates.Template, pod map[string]any, field, message string) Cause {
	path := stepsOf(field)
	steps, whole := inManifest(t, pod, path)
	if !whole && field != "" {
		message = field + ": " + message
	}
	if name := containerOf(pod, path); name != "" {
		message = "container " + name + ": " + message
	}
	return Cause{Steps: steps, Message: message}
}

// inManifest returns the steps to what wrote a place of a pod, as far as the fragment shows it. It reports
// whether they lead to the place itself.
func inManifest(t *templates.Template, pod map[string]any, path []any) (steps []any, whole bool) {
	steps = []any{"spec", "inject"}
	fragment, err := podschema.DecodeObject(t.Spec().Inject)
	if err != nil {
		return steps, false
	}
	var from, to any = fragment, pod
	for _, step := range path {
		switch step := step.(type) {
		case string:
			fields, _ := from.(map[string]any)
			next, ok := fields[step]
			if !ok {
				return steps, false
			}
			in, _ := to.(map[string]any)
			from, to, steps = next, in[step], append(steps, step)
		case int:
			list, _ := from.([]any)
			items, _ := to.([]any)
			if step >= len(items) {
				return steps, false
			}
			i := indexOf(list, items[step])
			if i < 0 {
				return steps, false
			}
			from, to, steps = list[i], items[step], append(steps, i)
		}
	}
	return steps, true
}

// indexOf returns the index of the item in a fragment's list that renders an item of the pod: the item that
// shares the most literals with it. It returns -1 if each has a literal that the pod's item lacks.
func indexOf(list []any, item any) int {
	best, most := -1, -1
	for i, from := range list {
		if shared := literals(from, item); shared > most {
			best, most = i, shared
		}
	}
	return best
}

// literals returns how many literals of an item of a fragment are in an item of a pod, and -1 if one is
// not.
func literals(from, item any) int {
	fields, isObject := from.(map[string]any)
	in, _ := item.(map[string]any)
	if !isObject {
		fields, in = map[string]any{"": from}, map[string]any{"": item}
	}
	shared := 0
	for key, value := range fields {
		switch literal := value.(type) {
		case map[string]any, []any:
			continue
		case string:
			if strings.HasPrefix(key, "$") || strings.Contains(literal, "${") {
				continue
			}
		}
		if value != in[key] {
			return -1
		}
		shared++
	}
	return shared
}

// elements are the fields and the items in a path of the API, such as spec.containers[0].resources.limits[cpu].
var elements = regexp.MustCompile(`\[([^\]]*)\]|[^.\[]+`)

// stepsOf returns the names of fields, the keys and the indexes in a path of the API.
func stepsOf(field string) []any {
	var path []any
	for _, match := range elements.FindAllStringSubmatch(field, -1) {
		if match[1] == "" {
			path = append(path, match[0])
		} else if i, err := strconv.Atoi(match[1]); err == nil {
			path = append(path, i)
		} else {
			path = append(path, match[1])
		}
	}
	return path
}

// containerOf returns the name of the container that a place of a pod is in, "" for none.
func containerOf(pod map[string]any, path []any) string {
	if len(path) < 3 || path[0] != "spec" || path[1] != "containers" && path[1] != "initContainers" {
		return ""
	}
	spec, _ := pod["spec"].(map[string]any)
	list, _ := spec[path[1].(string)].([]any)
	if i, ok := path[2].(int); ok && i < len(list) {
		container, _ := list[i].(map[string]any)
		name, _ := container["name"].(string)
		return name
	}
	return ""
}

package apirules

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Problem is a reason why the API server refuses a pod.
type Problem struct {
	// Path is the place in the pod, with list items by their names:
	// spec.containers[web].volumeMounts[/data].name.
	Path string
	// Message is the API's own sentence, and begins with the path.
	Message string
	// Whole: the rule compares the place with others of the pod, such as a mount with the
	// volumes. Another pod with the same value in the place may be accepted.
	Whole bool
	// Container is the container that the place is in, or "".
	Container string
	// Value is what a Whole rule compares: the name of a volume or a port, a resource.
	Value string
	// Within: a Whole rule that compares parts of one container.
	Within bool
	// NoVolume: a mount's volume is missing. A pod that has it is accepted.
	NoVolume bool
}

// Decode reads a pod into the API's type. The problems are about values of another type,
// with nil, and about fields that the API does not have, unless these are allowed.
func Decode(raw map[string]any, allowUnknownFields bool) (*corev1.Pod, []string) {
	data, err := json.Marshal(raw)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var pod corev1.Pod
	strict, err := kjson.UnmarshalStrict(data, &pod)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var problems []string
	if !allowUnknownFields {
		for _, err := range strict {
			problems = append(problems, err.Error())
		}
	}
	return &pod, problems
}

// Problems returns the problems of a pod, sorted.
func Problems(pod *corev1.Pod) []Problem {
	c := checker{}
	c.pod(pod)
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	return slices.Compact(c.problems)
}

// Added returns the problems that a pod has after a change and did not have before it. The
// input is not modified.
func Added(before, after *corev1.Pod) []Problem {
	had := map[string]bool{}
	for _, p := range Problems(before) {
		had[p.identity()] = true
	}
	return slices.DeleteFunc(Problems(after), func(p Problem) bool { return had[p.identity()] })
}

// identity tells a problem from others. The message of a Whole rule has numbers of other
// parts of the pod.
func (p Problem) identity() string {
	if p.Whole {
		return p.Path + "\x00" + p.Value
	}
	return p.Message
}

// Steps returns the path's elements: names of fields, and keys of items.
func (p Problem) Steps() []string {
	var steps []string
	for rest := p.Path; rest != ""; {
		if rest[0] == '[' {
			// The key may have dots and brackets; it ends before a field, another key or the end.
			end := strings.Index(rest, "].")
			if next := strings.Index(rest, "]["); next >= 0 && (end < 0 || next < end) {
				end = next
			}
			if end < 0 {
				end = len(rest) - 1
			}
			steps, rest = append(steps, rest[1:end]), rest[end+1:]
			continue
		}
		rest = strings.TrimPrefix(rest, ".")
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		steps, rest = append(steps, rest[:end]), rest[end:]
	}
	return steps
}

// Placed is a container and the list that it stands in.
type Placed struct {
	corev1.Container
	List string
}

// Containers returns the init containers and the containers of a pod, in their order.
func Containers(pod *corev1.Pod) []Placed {
	var all []Placed
	for _, c := range pod.Spec.InitContainers {
		all = append(all, Placed{c, "initContainers"})
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, Placed{c, "containers"})
	}
	return all
}

// Names returns the names of the init containers and the containers of a pod.
func Names(pod *corev1.Pod) sets.Set[string] {
	names := sets.Set[string]{}
	for _, c := range Containers(pod) {
		names.Insert(c.Name)
	}
	return names
}

// IsNative reports whether an init container is a native sidecar.
func IsNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// checker gathers problems.
type checker struct {
	problems []Problem
	// container is the one that is being checked.
	container string
}

func (c *checker) add(errs ...*field.Error) {
	for _, err := range errs {
		// Cut off the API's regular expression.
		message, _, _ := strings.Cut(err.Error(), " (e.g. ")
		c.problems = append(c.problems, Problem{Path: err.Field, Message: message, Container: c.container})
	}
}

// within adds a problem with other parts of the container.
func (c *checker) within(value string, err *field.Error) {
	c.whole(value, err)
	c.problems[len(c.problems)-1].Within = true
}

// whole adds a problem with other parts of the pod.
func (c *checker) whole(value string, err *field.Error) {
	c.add(err)
	last := &c.problems[len(c.problems)-1]
	last.Whole, last.Value = true, value
}

func (c *checker) invalid(at *field.Path, value any, problems []string) {
	for _, p := range problems {
		c.add(field.Invalid(at, value, p))
	}
}

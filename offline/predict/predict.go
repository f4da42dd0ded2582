package predict

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/offline/apirules"
	"github.com/pillion-dev/pillion/templates"
)

// The sources of troubles.
const (
	API           = "api"
	PodSecurity   = "pod-security"
	LimitRange    = "limit-range"
	ResourceQuota = "resource-quota"
	Job           = "job" // nobody refuses the pod, and its Job never finishes
)

// Namespace is a pod's namespace, with what limits pods there.
type Namespace struct {
	templates.Namespace
	LimitRanges []corev1.LimitRange
	Quotas      []corev1.ResourceQuota
}

// Input is a pod and what is injected into it.
type Input struct {
	// Before is the pod as it is created, After the same pod after the injection.
	Before, After map[string]any
	Namespace     Namespace
	// Injected are the templates that After has something of.
	Injected []*templates.Template
}

// Trouble is a reason why a pod does not come to be, or does not do its work.
type Trouble struct {
	// Source is one of the package's sources.
	Source string `json:"source"`
	// Refused: the pod is refused. Otherwise it may be, or somebody is warned.
	Refused bool `json:"refused"`
	// Object is the name of the LimitRange or ResourceQuota that refuses the pod.
	Object string `json:"-"`
	// Says is who refuses what, and why.
	Says string `json:"says"`
	// Templates are those that the trouble comes from, and Parameters the annotations that
	// change it.
	Templates  []string `json:"templates"`
	Parameters []string `json:"parameters"`
	// AlsoWithout: the pod has the trouble without the sidecars, too.
	AlsoWithout bool `json:"alsoWithoutInjection"`
	// Advice says what to do.
	Advice string `json:"advice"`
}

// String returns the trouble as a sentence.
func (t Trouble) String() string {
	without := "without the sidecars the pod would pass"
	switch {
	case t.AlsoWithout:
		without = "so it is without the sidecars"
	case t.Source == Job:
		without = "without the sidecars it would finish"
	}
	return fmt.Sprintf("%s; %s. It comes from %s: %s", t.Says, without, templatesWords(t.Templates), t.Advice)
}

func templatesWords(names []string) string {
	if len(names) == 1 {
		return "the template " + names[0]
	}
	return "the templates " + strings.Join(names, ", ")
}

// Troubles returns what refuses the pod or keeps its Job from finishing, the certain refusals
// first.
func Troubles(in Input) []Trouble {
	before, _ := apirules.Decode(in.Before, true)
	after, _ := apirules.Decode(in.After, true)
	if before == nil || after == nil || len(in.Injected) == 0 {
		return nil
	}
	p := prediction{Input: in, before: before, after: after, said: map[string]bool{}, named: map[string][]apirules.Placed{}}
	had := apirules.Names(before)
	for _, c := range apirules.Containers(after) {
		p.named[c.Name] = append(p.named[c.Name], c)
		if !had.Has(c.Name) {
			p.sidecars = append(p.sidecars, c)
		}
	}
	p.api()
	p.podSecurity()
	p.limits()
	p.quotas()
	p.job()
	slices.SortStableFunc(p.found, func(a, b Trouble) int {
		switch {
		case a.Refused == b.Refused:
			return 0
		case a.Refused:
			return -1
		}
		return 1
	})
	return p.found
}

// prediction is one pod while it is looked at.
type prediction struct {
	Input
	before, after *corev1.Pod
	found         []Trouble
	// said are the sentences of found.
	said map[string]bool
	// sidecars are the containers that the injection added, and named those of a name after it.
	sidecars []apirules.Placed
	named    map[string][]apirules.Placed
}

// add adds a trouble that comes from what the templates write at one of the paths.
func (p *prediction) add(t Trouble, paths ...[]string) {
	var setBy []string
	for _, template := range p.Injected {
		writes := false
		for _, path := range paths {
			at := template.At(path)
			writes = writes || at.Written
			for _, parameter := range at.Parameters {
				if levels := parameter.SetBy; len(levels) > 0 && !slices.Contains(t.Parameters, parameter.Annotation) {
					t.Parameters = append(t.Parameters, parameter.Annotation)
					setBy = append(setBy, parameter.Annotation+" ("+levelWords(levels)+")")
				}
			}
		}
		if writes {
			t.Templates = append(t.Templates, template.Name())
		}
	}
	if len(t.Templates) == 0 {
		for _, template := range p.Injected {
			t.Templates = append(t.Templates, template.Name())
		}
	}
	switch {
	case len(setBy) > 0:
		t.Advice = "the parameter " + strings.Join(setBy, " or ") + " changes it"
		if len(setBy) > 1 {
			t.Advice = "the parameters " + strings.Join(setBy, " and ") + " change it"
		}
	default:
		t.Advice = "no parameter changes it; the author of the template can"
	}
	switch t.Source {
	case Job:
		t.Advice, t.Parameters = "its author can make it a native sidecar (spec.initContainers, restartPolicy: Always), or keep it from Jobs by a matchCondition", nil
	case LimitRange, ResourceQuota:
		t.Advice += ", or the person who sets the limits of the namespace " + p.Namespace.Name
	case PodSecurity:
		t.Advice += ", or the person who sets the Pod Security level of the namespace " + p.Namespace.Name
	}
	t.Parameters = append([]string{}, t.Parameters...)
	if !p.said[t.Says] {
		p.said[t.Says] = true
		p.found = append(p.found, t)
	}
}

func levelWords[T ~string](levels []T) string {
	words := make([]string, len(levels))
	for i, level := range levels {
		words[i] = "on the " + strings.ToLower(string(level))
	}
	return strings.Join(words, " or ")
}

// resourcePaths are the places in the sidecars that a sum of a resource comes from.
func (p *prediction) resourcePaths(containers []apirules.Placed, resource string) [][]string {
	var paths [][]string
	for _, c := range containers {
		for _, part := range []string{"requests", "limits"} {
			paths = append(paths, []string{"spec", c.List, c.Name, "resources", part, resource})
		}
	}
	return paths
}

// api finds what the API server refuses. What it refuses without the injection, too, is for
// kubectl to tell.
func (p *prediction) api() {
	for _, problem := range apirules.Added(p.before, p.after) {
		steps := problem.Steps()
		paths := [][]string{steps}
		if len(steps) == 4 && steps[1] == "resources" { // a sum of all containers
			paths = p.resourcePaths(p.sidecars, steps[3])
		}
		p.add(Trouble{Source: API, Refused: true, Says: "the API server refuses the pod: " + problem.Message}, paths...)
	}
}

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/offline/apirules"
	"github.com/pillion-dev/pillion/offline/samples"
	"github.com/pillion-dev/pillion/templates"
)

// APIRules checks a template by the rules of the API, as the guard of SidecarTemplates does.
//
// The problems are certain: the manifest spells out a value that the API server accepts in
// no pod, and each bundled pod that gets the template gets the value. A mount without its
// volume is one, too: pods may bring the volume along, but then a condition or a validation
// of the template has to ask for it. Everything else that lint would report by the rule api
// is a warning, because some pod may be accepted, such as one for which a parameter is set.
func APIRules(d templates.Document, t *templates.Template, o templates.Options) ([]templates.Problem, []templates.Warning) {
	j := &judged{linter: &linter{options: Options{Compile: o}}, document: Document{Document: d}, template: t}
	got, found := 0, map[string]*suspect{}
	for _, s := range samples.Bundled() {
		if t.OtherSystem(s.Pod) != "" {
			continue
		}
		rendered, err := t.RenderExample(templates.Input{Pod: s.Pod, Namespace: s.Namespace}, false)
		if err != nil {
			continue
		}
		before, after, _, why := j.inject(s, rendered)
		if why != "" || before == nil || after == nil {
			continue
		}
		got++
		for _, p := range apirules.Added(before, after) {
			path, line := j.field(p)
			steps := p.Steps()
			key := strings.Join(append([]string{path, p.Value}, steps[min(len(steps), 3):]...), "\x00")
			if found[key] == nil {
				found[key] = &suspect{first: p, path: path, line: line, hint: volumeHint(p, after), certain: t.At(decidedBy(p)).Fixed && certain(p, before)}
			}
			found[key].pods++
		}
	}
	var problems []templates.Problem
	var warnings []templates.Warning
	for _, key := range slices.Sorted(maps.Keys(found)) {
		s := found[key]
		switch {
		case s.certain && s.pods == got:
			pods := "each pod that gets this: "
			if s.first.NoVolume {
				pods = "pods that get this: "
			}
			problems = append(problems, templates.Problem{Path: s.path, Line: s.line, Message: "the API server would refuse " + pods + s.first.Message + s.hint})
		case s.pods == got:
			warnings = append(warnings, templates.Warning{Template: t.Name(), Path: s.path, Line: s.line, Message: "the API server would refuse pods that get this: " + s.first.Message + s.hint})
		default:
			warnings = append(warnings, templates.Warning{Template: t.Name(), Path: s.path, Line: s.line, Message: fmt.Sprintf("the API server would refuse some pods that get this (%d of %d tried): %s%s", s.pods, got, s.first.Message, s.hint)})
		}
	}
	return problems, warnings
}

// suspect is a problem that sample pods have with a template.
type suspect struct {
	first apirules.Problem
	path  string
	line  int
	hint  string
	// certain: no pod is accepted with it.
	certain bool
	pods    int
}

// certain reports whether a problem is there whatever else a pod has. A rule that compares
// parts of a container is certain in a sidecar, where all parts are the template's.
func certain(p apirules.Problem, before *corev1.Pod) bool {
	if !p.Whole || p.NoVolume {
		return true
	}
	return p.Container != "" && p.Within && !slices.ContainsFunc(apirules.Containers(before), func(c apirules.Placed) bool { return c.Name == p.Container })
}

// decidedBy returns the path of what the template must spell out for a problem to be certain.
func decidedBy(p apirules.Problem) []string {
	steps := p.Steps()
	if p.Whole && len(steps) > 4 {
		return steps[:4] // a rule that compares: all of resources, all ports
	}
	return steps
}

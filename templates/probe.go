package templates

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

//go:embed probe/minimal.json
var minimalPod []byte

//go:embed probe/full.json
var fullPod []byte

// probeInput is a made-up pod that a template is rendered for when it is compiled.
type probeInput struct {
	name string
	in   Input
}

// probeInputs are a pod with nothing optional in a namespace without labels, and
// one with much of what pods have.
var probeInputs = sync.OnceValue(func() [2]probeInput {
	pod := func(data []byte) map[string]any {
		v, err := manifest.DecodeJSON(data)
		if err != nil {
			panic(fmt.Sprintf("templates: reading an embedded pod: %v", err))
		}
		return v.(map[string]any)
	}
	return [2]probeInput{
		{"a minimal pod", Input{Pod: pod(minimalPod), Namespace: Namespace{Name: "default"}}},
		{"a full pod", Input{Pod: pod(fullPod), Namespace: Namespace{
			Name:        "shop",
			Labels:      map[string]string{"kubernetes.io/metadata.name": "shop", "team": "shop"},
			Annotations: map[string]string{"example.com/contact": "shop@example.com"},
		}}},
	}
})

// probe renders the template for the made-up pods: the minimal one with defaults
// only, the full one with a value for every parameter.
func (t *Template) probe(c *compiler) {
	at := (*manifest.Path)(nil).Fields("spec", "parameters")
	for i, probe := range probeInputs() {
		params, madeUp, missing := t.probeParams(i == 1)
		if missing != "" {
			if i == 0 {
				c.warn(at, fmt.Sprintf("the required parameter %s has no example, and none is easily made up: the template is not test-rendered", missing))
			}
			continue
		}
		if _, err := t.renderWith(probe.in, params); err != nil {
			c.probeProblem(err, probe.name, madeUp)
		}
	}
}

// probeParams returns parameters for a test render: those with a default and,
// if all is set, the others too. madeUp says which values come from nowhere.
func (t *Template) probeParams(all bool) (r *resolution, madeUp []string, missing string) {
	r = &resolution{values: map[string]any{}, origins: map[string]Origin{}}
	for _, p := range t.parameters {
		name := p.decl.Name
		isMap := p.decl.Type == v1alpha1.Map
		switch sample, ok := p.sample(); {
		case all && p.decl.Example != nil:
			r.values[name] = p.example
		case p.decl.Default != nil:
			r.values[name] = p.def
		case !all && !p.decl.Required:
			if isMap {
				r.values[name] = map[string]any{}
			}
		case p.decl.Example != nil:
			r.values[name] = p.example
		case ok:
			r.values[name] = sample
			madeUp = append(madeUp, fmt.Sprintf("%s: %s", name, show.Value(textOf(sample))))
		case p.decl.Required:
			return nil, nil, name
		case isMap:
			r.values[name] = map[string]any{}
		}
		if _, ok := r.values[name]; ok {
			r.origins[name] = FromDefault
		}
	}
	return r, madeUp, ""
}

func (c *compiler) probeProblem(err error, pod string, madeUp []string) {
	hint := ""
	if len(madeUp) > 0 {
		hint = fmt.Sprintf(" (with made-up values for %s; an example on the parameter gives a better one)", strings.Join(madeUp, ", "))
	}
	var render *RenderError
	var expensive *TooExpensiveError
	switch {
	case errors.As(err, &render):
		c.problems = append(c.problems, Problem{Path: render.Path, Line: render.Line, Message: fmt.Sprintf("fails for %s: %s%s", pod, render.Message, hint)})
	case errors.As(err, &expensive):
		c.problems = append(c.problems, Problem{Path: expensive.Path, Line: expensive.Line, Message: fmt.Sprintf("too expensive for %s: %s%s", pod, expensive.Message, hint)})
	default:
		c.problems = append(c.problems, Problem{Message: fmt.Sprintf("fails for %s: %v%s", pod, err, hint)})
	}
}

// RenderExample renders for a pod as [Template.Render] does, but a parameter that
// no annotation sets, and that has no default, takes its example or a made-up value.
// With all set that holds for parameters that may be absent too.
func (t *Template) RenderExample(in Input, all bool) (*Rendered, error) {
	params, _, missing := t.probeParams(all)
	if missing != "" {
		return nil, fmt.Errorf("the required parameter %s has %w", missing, ErrNoExample)
	}
	levels := [2]*level{t.namespaceLevel(in.Namespace), t.podLevel(in.Pod)}
	set := &resolution{values: map[string]any{}, origins: map[string]Origin{}}
	for _, p := range t.parameters {
		optional := *p
		optional.decl.Required = false
		if err := t.resolveParam(&optional, levels, set); err != nil {
			return nil, err
		}
		if origin := set.origins[p.decl.Name]; origin == FromNamespace || origin == FromPod {
			params.values[p.decl.Name], params.origins[p.decl.Name] = set.values[p.decl.Name], origin
		}
	}
	for _, l := range levels {
		params.warnings = append(params.warnings, t.unknownAnnotations(l)...)
	}
	return t.renderWith(in, params)
}

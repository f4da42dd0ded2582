package templates

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

//go:embed probe/minimal.json
var minimalPod []byte

//go:embed probe/full.json
var fullPod []byte

// Sample is a made-up pod for which Compile renders the template.
type Sample struct {
	// Name describes the pod, with an article.
	Name string
	Input
	// All is set if every parameter gets a value, and not only the required ones.
	All bool
}

// probeInputs are a minimal pod in a namespace without labels, and a pod with many of the optional fields.
var probeInputs = sync.OnceValue(func() [2]Sample {
	pod := func(data []byte) map[string]any {
		v, err := rawjson.Decode(data)
		if err != nil {
			panic(fmt.Sprintf("templates: reading an embedded pod: %v", err))
		}
		return v.(map[string]any)
	}
	return [2]Sample{
		{Name: "a minimal pod", Input: Input{Pod: pod(minimalPod), Namespace: Namespace{Name: "default"}}},
		{Name: "a full pod", All: true, Input: Input{Pod: pod(fullPod), Namespace: Namespace{
			Name:        "shop",
			Labels:      map[string]string{"kubernetes.io/metadata.name": "shop", "team": "shop"},
			Annotations: map[string]string{"example.com/contact": "shop@example.com"},
		}}},
	}
})

// Samples returns the made-up pods of the template's operating systems: for each a minimal and a full one.
func (t *Template) Samples() []Sample {
	var all []Sample
	linux := probeInputs()
	for _, system := range t.spec.OS {
		if system == v1alpha1.Linux {
			all = append(all, linux[:]...)
			continue
		}
		for i, fields := range []map[string]any{
			{"nodeSelector": map[string]any{systemLabel: string(system)}},
			{"os": map[string]any{"name": string(system)}},
		} {
			p := linux[i]
			pod, spec := maps.Clone(p.Pod), maps.Clone(p.Pod["spec"].(map[string]any))
			maps.Copy(spec, fields)
			pod["spec"] = spec
			p.Name, p.Pod = p.Name+" for "+string(system), pod
			all = append(all, p)
		}
	}
	return all
}

// probe renders the template for the made-up pods: the minimal one with defaults only, the full one with a
// value for every parameter.
func (t *Template) probe(c *compiler) {
	at := (*manifest.Path)(nil).Fields("spec", "parameters")
	for i, probe := range t.Samples() {
		params, madeUp, missing := t.parameters.Samples(probe.All)
		if missing != "" {
			if i == 0 {
				c.warn(at, fmt.Sprintf("the required parameter %s has no example, and Pillion cannot make one up, so the template is not test-rendered; add an example", missing))
			}
			continue
		}
		if _, err := t.renderWith(context.Background(), probe.Input, params); err != nil {
			c.probeProblem(err, probe.Name, madeUp)
		}
	}
}

func (c *compiler) probeProblem(err error, pod string, madeUp []string) {
	hint := ""
	if len(madeUp) > 0 {
		hint = fmt.Sprintf(" (with made-up values for %s; an example on the parameter gives a better one)", strings.Join(madeUp, ", "))
	}
	p := Problem{Message: fmt.Sprintf("fails for %s: %v%s", pod, err, hint)}
	var failed *RenderError
	if errors.As(err, &failed) {
		what := "fails"
		if failed.TooExpensive {
			what = "too expensive"
		}
		p = Problem{Path: failed.Path, Line: failed.Line, Message: fmt.Sprintf("%s for %s: %s%s", what, pod, failed.Message, hint)}
	}
	// An expression that fails for one pod fails for most.
	if !slices.ContainsFunc(c.problems, func(other Problem) bool { return other.Path == p.Path && other.Line == p.Line }) {
		c.problems = append(c.problems, p)
	}
}

// RenderExample is [Template.Render] with examples, or made-up values, for parameters that neither an
// annotation nor a default sets: for required ones, and with all set for the others, too.
func (t *Template) RenderExample(in Input, all bool) (*Rendered, error) {
	params, err := t.parameters.ResolveExample(in.annotations(), all)
	if err != nil {
		return nil, err
	}
	return t.renderWith(context.Background(), in, params)
}

package admissionpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/directive"
)

// sidecar is a container with an image that a template renders, in its list.
type sidecar struct {
	list, name string
	// always: every pod that gets the template has it.
	always bool
	// images are those that are known without a pod, patterns those of spec.verify.
	images, patterns []string
	// open: the template may render other images, too.
	open bool
	// exec: spec.verify of each version that renders it allows exec and attach.
	exec bool
}

// ErrNothing says that there is no container that every pod of the template has.
var ErrNothing = errors.New("no container is in every pod that the template selects, so a policy has nothing to check")

// sidecarsOf returns the sidecars of a required template. At least one of them is in every
// pod that gets any version of the template.
func sidecarsOf(t *templates.Template, canaries ...*templates.Template) ([]sidecar, error) {
	spec := t.Spec()
	switch {
	case !spec.Required:
		return nil, errors.New("it is not required, so pods may do without it: a policy is for a template with spec.required: true")
	case spec.Suspend:
		return nil, errors.New("it is suspended, so no pod gets its sidecars, and a policy would refuse every pod: set spec.suspend: false first")
	}
	all, unknown := sidecarsOfVersion(t)
	for _, canary := range canaries {
		more, err := sidecarsOfVersion(canary)
		all = merged(all, more)
		unknown = cmp.Or(unknown, err)
	}
	if slices.ContainsFunc(all, func(s sidecar) bool { return s.always }) {
		return all, unknown
	}
	why := "each of its containers stands under $if, whose value depends on the pod"
	switch {
	case len(all) == 0:
		why = "it adds no container of its own"
	case len(spec.MatchConditions) > 0:
		why = "its matchConditions say which pods get it, by what API servers do not know: the pod as it was before Pillion, and its parameters. Select pods by match.podSelector instead"
	case len(canaries) > 0:
		why = "no container of its own is in every pod of each of its canaries, too"
	}
	return nil, fmt.Errorf("%w: %s", ErrNothing, why)
}

// merged returns the sidecars of two versions of a template. A sidecar that one version may lack is
// not always there.
func merged(a, b []sidecar) []sidecar {
	isSame := func(s sidecar) func(sidecar) bool {
		return func(other sidecar) bool { return s.list == other.list && s.name == other.name }
	}
	all := slices.Clone(a)
	for i := range all {
		all[i].always = all[i].always && slices.ContainsFunc(b, isSame(all[i]))
	}
	for _, s := range b {
		i := slices.IndexFunc(all, isSame(s))
		if i < 0 {
			s.always = false
			all = append(all, s)
			continue
		}
		one := &all[i]
		one.always, one.open, one.exec = one.always && s.always, one.open || s.open, one.exec && s.exec
		one.images = union(one.images, s.images)
		one.patterns = union(one.patterns, s.patterns)
	}
	return all
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, text := range b {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// sidecarsOfVersion returns the sidecars of one version. The error is about an image that a policy
// cannot know.
func sidecarsOfVersion(t *templates.Template) (all []sidecar, unknown error) {
	spec := t.Spec()
	var fragment map[string]any
	if err := json.Unmarshal(spec.Inject, &fragment); err != nil {
		return nil, fmt.Errorf("reading spec.inject: %w", err)
	}
	pod, _ := fragment["spec"].(map[string]any)
	unconditional := len(spec.MatchConditions) == 0 && fragment[directive.If] == nil && pod[directive.If] == nil
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := pod[list].([]any)
		for _, item := range items {
			container, _ := item.(map[string]any)
			name, _ := container["name"].(string)
			image, ok := container["image"].(string)
			if !ok {
				continue // it extends a container of the pod
			}
			place := slices.IndexFunc(all, func(s sidecar) bool { return s.list == list && s.name == name })
			if place < 0 {
				s := sidecar{list: list, name: name, exec: t.Verify().AllowsExec()}
				if spec.Verify != nil {
					s.patterns = spec.Verify.Images
				}
				place, all = len(all), append(all, s)
			}
			s := &all[place]
			s.always = s.always || unconditional && container[directive.If] == nil && container[directive.Patch] == nil
			if err := s.addImage(image, t.Parameters()); err != nil && unknown == nil {
				unknown = err
			}
		}
	}
	return all, unknown
}

// parameterAlone is an image that is a parameter and nothing else.
var parameterAlone = regexp.MustCompile(`^\$\{ *params\.([a-zA-Z0-9]+) *\}$`)

// addImage adds an image of the manifest.
func (s *sidecar) addImage(image string, parameters []templates.Parameter) error {
	known, open, hint := image, strings.Contains(image, "$"), "which depends on an expression"
	if open {
		known = ""
	}
	if m := parameterAlone.FindStringSubmatch(image); m != nil {
		for _, p := range parameters {
			if p.Name == m[1] && json.Unmarshal(p.Default, &known) == nil && known != "" {
				open, hint = len(p.SetBy) > 0, "which annotations may set (setBy: [] would let nobody)"
			}
		}
	}
	if open && len(s.patterns) == 0 {
		example := known
		if example == "" {
			example = "registry.example.com/team/*"
		}
		return fmt.Errorf("its container %s has the image %s, %s, so a policy cannot know the image: say in spec.verify.images which are allowed, for example [%q]", s.name, image, hint, example)
	}
	if known != "" && !slices.Contains(s.images, known) {
		s.images = append(s.images, known)
	}
	s.open = s.open || open
	return nil
}

// refusesAll returns an error if a plain pod gets an image that the policy would refuse. It ignores containers
// that the template does not render for a plain pod.
func refusesAll(ctx context.Context, t *templates.Template, sidecars []sidecar) error {
	if !slices.ContainsFunc(sidecars, func(s sidecar) bool { return s.open }) {
		return nil
	}
	plain := map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}}}
	rendered, err := t.Render(ctx, templates.Input{Pod: plain, Namespace: templates.Namespace{Name: "default"}})
	if err != nil {
		return ctx.Err()
	}
	pod, _ := rendered.Fragment.Field("spec").JSON().(map[string]any)
	for _, s := range sidecars {
		items, _ := pod[s.list].([]any)
		for _, item := range items {
			container, _ := item.(map[string]any)
			image, _ := container["image"].(string)
			if container["name"] == s.name && image != "" && !slices.Contains(s.images, image) && !t.Verify().AllowsImage(image) {
				return fmt.Errorf("it gives its container %s the image %s, which its spec.verify.images does not allow, so a policy would refuse every pod: add the image there", s.name, image)
			}
		}
	}
	return nil
}

// kind returns the kind of the container, for people.
func (s sidecar) kind() string {
	if s.list == "initContainers" {
		return "init container"
	}
	return "container"
}

// allowed lists the images that are allowed, for people.
func (s sidecar) allowed() string {
	return strings.Join(slices.Concat(s.images, s.patterns), ", ")
}

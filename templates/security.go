package templates

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/manifest"
)

// restrict fills in, on each container that the fragment adds, what the Pod Security level
// restricted asks for and what neither the template nor the pod says. A rendered part is
// shared with other pods: what changes is copied.
func (r *renderer) restrict(fragment map[string]any) error {
	spec, _ := fragment["spec"].(map[string]any)
	surrounding := r.surrounding(spec)
	spec = maps.Clone(spec)
	for _, list := range containerLists {
		items, ok := spec[list].([]any)
		if !ok {
			continue
		}
		items = slices.Clone(items)
		spec[list], fragment["spec"] = items, spec
		for i, item := range items {
			container, _ := item.(map[string]any)
			if container["image"] == nil || directive.Of(item).Delete {
				continue
			}
			security, bytes := surrounding.restrict(container["securityContext"])
			if bytes == 0 {
				continue
			}
			if err := r.run.Spend(bytes, (*manifest.Path)(nil).Fields("spec", "inject", "spec", list)); err != nil {
				return err
			}
			container = maps.Clone(container)
			container["securityContext"] = security
			items[i] = container
		}
	}
	return nil
}

// surrounding is what the pod says for all of its containers.
type surrounding struct {
	security map[string]any
	windows  bool
}

// surrounding returns it for the pod with the fragment: what the pod sets goes before what
// the template sets.
func (r *renderer) surrounding(fragment map[string]any) surrounding {
	own, _ := r.pod["spec"].(map[string]any)
	s := surrounding{security: map[string]any{}}
	for _, spec := range []map[string]any{fragment, own} {
		security, _ := spec["securityContext"].(map[string]any)
		for name, v := range security {
			if v != nil {
				s.security[name] = v
			}
		}
		if system, _ := spec["os"].(map[string]any); system["name"] != nil {
			s.windows = system["name"] == "windows"
		}
	}
	return s
}

// restrict returns the security context of a container, and about how many bytes of JSON it
// has more than v.
func (s surrounding) restrict(v any) (map[string]any, int) {
	own, _ := v.(map[string]any)
	if directive.Of(v).Delete {
		return own, 0
	}
	security, bytes := maps.Clone(own), 0
	if security == nil {
		security = map[string]any{}
	}
	fill := func(name string, value any, size int) {
		if slices.Contains(directive.Of(own).Unset, name) {
			return
		}
		security[name] = value
		bytes += len(name) + 4 + size
	}
	user, set := own["runAsUser"], own["runAsUser"] != nil
	if !set {
		user = s.security["runAsUser"]
	}
	// A container that is told to run as root would not start.
	if own["runAsNonRoot"] == nil && s.security["runAsNonRoot"] != true && fmt.Sprint(user) != "0" {
		fill("runAsNonRoot", true, 4)
	}
	if s.windows {
		return security, bytes // the API refuses the others
	}
	capabilities, _ := own["capabilities"].(map[string]any)
	added, _ := capabilities["add"].([]any)
	// With these the API refuses it to be false.
	escalates := own["privileged"] == true || slices.Contains(added, any("SYS_ADMIN")) || slices.Contains(added, any("CAP_SYS_ADMIN"))
	if own["allowPrivilegeEscalation"] == nil && !escalates {
		fill("allowPrivilegeEscalation", false, 5)
	}
	if capabilities["drop"] == nil && !directive.Of(own["capabilities"]).Delete {
		capabilities = maps.Clone(capabilities)
		if capabilities == nil {
			capabilities = map[string]any{}
		}
		capabilities["drop"] = []any{"ALL"}
		fill("capabilities", capabilities, len(`{"drop":["ALL"]}`))
	}
	profile, _ := s.security["seccompProfile"].(map[string]any)
	if own["seccompProfile"] == nil && profile["type"] != "RuntimeDefault" && profile["type"] != "Localhost" {
		fill("seccompProfile", map[string]any{"type": "RuntimeDefault"}, len(`{"type":"RuntimeDefault"}`))
	}
	return security, bytes
}

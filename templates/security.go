package templates

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/manifest"
)

// restrict completes each container of the fragment for the Pod Security level restricted. It leaves fields
// alone that the template or the pod sets.
func (r *renderer) restrict(f *fragment.Node) error {
	surrounding := r.surrounding(f.Field("spec"))
	for _, list := range containerLists {
		for _, it := range f.Field("spec", list).List() {
			if !it.IsSidecar() || it.Delete || it.Field("securityContext") != nil && it.Field("securityContext").Delete {
				continue
			}
			bytes := surrounding.restrict(it.Enter("securityContext"))
			if err := r.run.Spend(bytes, (*manifest.Path)(nil).Fields("spec", "inject", "spec", list)); err != nil {
				return err
			}
		}
	}
	return nil
}

// surrounding is the pod's securityContext, as far as it holds for all containers.
type surrounding struct {
	security map[string]any
	windows  bool
}

// surrounding returns the securityContext of the pod with the fragment. The pod's fields win over the
// template's.
func (r *renderer) surrounding(f *fragment.Node) surrounding {
	spec, _ := r.pod["spec"].(map[string]any)
	s := surrounding{security: map[string]any{}}
	for _, v := range []any{f.Field("securityContext").JSON(), spec["securityContext"]} {
		security, _ := v.(map[string]any)
		for name, v := range security {
			if v != nil {
				s.security[name] = v
			}
		}
	}
	for _, v := range []any{f.Field("os").JSON(), spec["os"]} {
		if system, _ := v.(map[string]any); system["name"] != nil {
			s.windows = system["name"] == "windows"
		}
	}
	return s
}

// restrict completes the security context of a container. It returns the approximate size of the additions as
// JSON.
func (s surrounding) restrict(own *fragment.Node) (bytes int) {
	value := func(path ...string) any {
		if n := own.Field(path...); n != nil {
			return n.JSON()
		}
		return nil
	}
	fill := func(in *fragment.Node, name string, value any) {
		if !slices.Contains(in.Unset, name) && in.Field(name) == nil {
			in.Set(name, fragment.Of(in.Type.Child(name), value))
			bytes += len(name) + 4 + len(fmt.Sprint(value))
		}
	}
	user := value("runAsUser")
	if user == nil {
		user = s.security["runAsUser"]
	}
	// A container that must run as root would not start.
	if s.security["runAsNonRoot"] != true && fmt.Sprint(user) != "0" {
		fill(own, "runAsNonRoot", true)
	}
	if s.windows {
		return bytes // the API refuses other values
	}
	added, _ := value("capabilities", "add").([]any)
	// With these the API refuses the value false.
	escalates := value("privileged") == true || slices.Contains(added, any("SYS_ADMIN")) || slices.Contains(added, any("CAP_SYS_ADMIN"))
	if !escalates {
		fill(own, "allowPrivilegeEscalation", false)
	}
	if c := own.Field("capabilities"); (c == nil || !c.Delete) && !slices.Contains(own.Unset, "capabilities") {
		fill(own.Enter("capabilities"), "drop", []any{"ALL"})
	}
	profile, _ := s.security["seccompProfile"].(map[string]any)
	if profile["type"] != "RuntimeDefault" && profile["type"] != "Localhost" {
		fill(own, "seccompProfile", map[string]any{"type": "RuntimeDefault"})
	}
	return bytes
}

package required

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// sidecar is one container of a required template while it is compared.
type sidecar struct {
	*comparison
	template string
	allowed  Allowed
	at       *podschema.Path
	want, is map[string]any
}

// container compares the pod's container with a required template's sidecar, field by field.
func (r *comparison) container(it ownItem, want, is map[string]any) {
	s := sidecar{comparison: r, template: it.template, allowed: r.allowed[it.template], at: it.path(), want: want, is: is}
	if it.node.Field("volumeMounts").Item("mountPath="+merge.TokenPath) == nil {
		// The template does not render the token's mount. Whether the pod has it is the API server's business.
		s.want = maps.Clone(want)
		s.want["volumeMounts"] = merge.WithoutToken(want["volumeMounts"])
	}
	names := slices.Sorted(maps.Keys(s.want))
	for name := range s.is {
		if _, ok := s.want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s.field(name)
	}
}

func (s sidecar) field(name string) {
	t := podschema.At("spec.containers[]").Child(name)
	want, is := s.want[name], s.is[name]
	same := podschema.Equal(podschema.At("spec.containers[]"), s.alone(name, want), s.alone(name, is))
	switch name {
	case "image":
		if image, _ := is.(string); !same && !s.allowed.AllowsImage(image) {
			s.wrong(name, "is %s; must be %s, or an image that the template's spec.verify.images allows", podschema.Show(is), podschema.Show(want))
		}
	case "imagePullPolicy":
		// The plugin AlwaysPullImages sets Always.
		if !same && is != "Always" {
			s.differsFrom(name, want, is)
		}
	case "env":
		s.items(name, t, func(item map[string]any) bool {
			variable, _ := item["name"].(string)
			return s.allowed.AllowsEnv(variable)
		})
	case "volumeMounts":
		s.items(name, t, func(item map[string]any) bool {
			mountPath, _ := item["mountPath"].(string)
			return s.allowed.AllowsMount(mountPath) || s.isToken(item)
		})
	case "resources":
		if !same && !s.allowed.AllowsResources() {
			s.wrong(name, "is %s; must be %s (if a LimitRange or another webhook sets it, set it in the template, or allow it with spec.verify.allow.resources)",
				podschema.Show(is), podschema.Show(want))
		}
	case "livenessProbe", "readinessProbe", "startupProbe":
		if !same && (!s.allowed.AllowsProbes() || podschema.ObjectOf(is)["exec"] != nil) {
			s.differsFrom(name, want, is)
		}
	case "ports":
		if !same && !podschema.Equal(t, s.withHostPorts(want), is) {
			s.differsFrom(name, want, is)
		}
	default:
		if !same {
			s.differsFrom(name, want, is)
		}
	}
}

// alone is a container with one field, and the image on which a default depends.
func (s sidecar) alone(name string, v any) map[string]any {
	c := map[string]any{name: v}
	if name != "image" {
		c["image"] = s.is["image"]
	}
	return c
}

func (s sidecar) differsFrom(name string, want, is any) {
	switch {
	case want == nil:
		s.wrong(name, "is %s, but the template does not set it", podschema.Show(is))
	case is == nil:
		s.wrong(name, "is missing")
	default:
		s.wrong(name, "is %s; must be %s", podschema.Show(is), podschema.Show(want))
	}
}

func (s sidecar) wrong(name, format string, args ...any) {
	s.differs(s.template, s.at.Field(name), format, args...)
}

// items compares a list of the sidecar. Allowed items may be added and changed.
func (s sidecar) items(name string, t *podschema.Type, allowed func(item map[string]any) bool) {
	id, _ := t.Identity()
	wanted, _ := s.want[name].([]any)
	items, _ := s.is[name].([]any)
	want := map[string]any{}
	for _, item := range wanted {
		if key, ok := id.Key(item); ok {
			want[key] = item
		}
	}
	found := map[string]bool{}
	at := s.at.Field(name)
	if name == "env" {
		s.order(id, at, wanted, items)
	}
	for _, item := range items {
		key, ok := id.Key(item)
		w, rendered := want[key]
		found[key] = true
		switch {
		case !ok:
			s.differs(s.template, at, "has an item without a name, %s", podschema.Show(item))
		case rendered && podschema.Equal(id.Elem, item, w), allowed(podschema.ObjectOf(item)):
		case rendered:
			s.differs(s.template, at.Key(key), "is %s; must be %s", podschema.Show(item), podschema.Show(w))
		default:
			s.differs(s.template, at.Key(key), "is present, but the template does not render it")
		}
	}
	for _, item := range wanted {
		if key, ok := id.Key(item); ok && !found[key] {
			s.differs(s.template, at.Key(key), "is missing")
		}
	}
}

// order compares the order of variables, because $(NAME) refers only to earlier ones.
func (s sidecar) order(id podschema.Identity, at *podschema.Path, wanted, items []any) {
	place := map[string]int{}
	for i, item := range wanted {
		if key, ok := id.Key(item); ok {
			place[key] = i
		}
	}
	last, seen := -1, map[string]bool{}
	for _, item := range items {
		key, _ := id.Key(item)
		i, rendered := place[key]
		if !rendered || seen[key] {
			continue
		}
		if i < last {
			s.differs(s.template, at.Key(key), "must come before %s", nameOf(wanted[last]))
			return
		}
		last, seen[key] = i, true
	}
}

// isToken reports whether the API server's ServiceAccount plugin added the mount: its projected volume has the
// token, the cluster's CA and the namespace, and nothing else.
func (r *comparison) isToken(mount map[string]any) bool {
	if mount["mountPath"] != merge.TokenPath || mount["readOnly"] != true || len(mount) != 3 {
		return false
	}
	name, _ := mount["name"].(string)
	return r.tokenVolumes()[name]
}

// tokenVolumes returns the names of the pod's volumes that the plugin adds. Of several
// volumes of one name the first counts.
func (r *comparison) tokenVolumes() map[string]bool {
	if r.tokens != nil {
		return r.tokens
	}
	r.tokens = map[string]bool{}
	for _, v := range podschema.ListOf(podschema.ObjectOf(r.pod["spec"])["volumes"]) {
		name, _ := podschema.ObjectOf(v)["name"].(string)
		if _, earlier := r.tokens[name]; !earlier {
			r.tokens[name] = merge.IsTokenVolume(v)
		}
	}
	return r.tokens
}

// withHostPorts is a list of ports as the API server writes it in a pod with
// hostNetwork.
func (s sidecar) withHostPorts(v any) any {
	ports, ok := v.([]any)
	if !ok || podschema.ObjectOf(s.pod["spec"])["hostNetwork"] != true {
		return v
	}
	with := make([]any, len(ports))
	for i, p := range ports {
		port := maps.Clone(podschema.ObjectOf(p))
		if port != nil && port["hostPort"] == nil {
			port["hostPort"] = port["containerPort"]
		}
		with[i] = port
	}
	return with
}

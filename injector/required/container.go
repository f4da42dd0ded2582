package required

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// sidecar is one container of a required template while it is compared.
type sidecar struct {
	*comparison
	template string
	allowed  Allowed
	at       []string
	want, is map[string]any
	record   *record.Place
}

// container compares a sidecar of a required template, field by field. Rendered
// is the sidecar as the template renders it, w as the plan wants it.
func (c *comparison) container(template string, rendered, w, p any, r *record.Place, at []string) {
	s := sidecar{comparison: c, template: template, allowed: c.allowed(template), at: at, want: withRenderedToken(objectOf(rendered), objectOf(w)), is: objectOf(p), record: r}
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

// withRenderedToken returns the wanted container without a mount at the token's
// path that the template does not render. The pod may have declared the sidecar
// itself, and then the plan leaves such a mount alone, whatever it mounts.
func withRenderedToken(rendered, wanted map[string]any) map[string]any {
	mounts, _ := rendered["volumeMounts"].([]any)
	if len(merge.WithoutToken(mounts)) < len(mounts) {
		return wanted
	}
	without := map[string]any{}
	maps.Copy(without, wanted)
	without["volumeMounts"] = merge.WithoutToken(wanted["volumeMounts"])
	return without
}

func (s sidecar) field(name string) {
	t := podschema.At("spec.containers[]").Child(name)
	want, is := s.want[name], s.is[name]
	same := podschema.Equal(podschema.At("spec.containers[]"), s.alone(name, want), s.alone(name, is))
	switch name {
	case "image":
		if image, _ := is.(string); !same && !s.allowed.AllowsImage(image) {
			s.wrong(name, t, want, "is %s; must be %s, or an image that the template's spec.verify.images allows", podschema.Show(is), podschema.Show(want))
		}
	case "imagePullPolicy":
		// The plugin AlwaysPullImages sets Always.
		if !same && is != "Always" {
			s.differsFrom(name, t, want, is)
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
			s.wrong(name, t, want, "is %s; must be %s (if a LimitRange or another webhook sets it, set it in the template, or allow it with spec.verify.allow.resources)",
				podschema.Show(is), podschema.Show(want))
		}
	case "livenessProbe", "readinessProbe", "startupProbe":
		if !same && (!s.allowed.AllowsProbes() || objectOf(is)["exec"] != nil) {
			s.differsFrom(name, t, want, is)
		}
	case "ports":
		if !same && !podschema.Equal(t, s.withHostPorts(want), is) {
			s.differsFrom(name, t, want, is)
		}
	default:
		if !same {
			s.differsFrom(name, t, want, is)
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

func (s sidecar) differsFrom(name string, t *podschema.Type, want, is any) {
	switch {
	case want == nil:
		s.wrong(name, t, want, "is %s, but the template does not set it", podschema.Show(is))
	case is == nil:
		s.wrong(name, t, want, "is missing")
	default:
		s.wrong(name, t, want, "is %s; must be %s", podschema.Show(is), podschema.Show(want))
	}
}

func (s sidecar) wrong(name string, t *podschema.Type, want any, format string, args ...any) {
	r := s.record.Child(name)
	since := r != nil && want != nil && r.Same(record.Whole(nil, t, want)) || r == nil && want == nil && s.record.Owns()
	s.differs(s.template, append(s.at[:len(s.at):len(s.at)], name), since, format, args...)
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
	at := append(s.at[:len(s.at):len(s.at)], name)
	for _, item := range items {
		key, ok := id.Key(item)
		w, rendered := want[key]
		here := append(at[:len(at):len(at)], key)
		found[key] = true
		r := s.record.Child(name).Child(key)
		switch {
		case !ok:
			s.differs(s.template, at, false, "has an item without a name, %s", podschema.Show(item))
		case rendered && podschema.Equal(id.Elem, item, w), allowed(objectOf(item)):
		case rendered:
			s.differs(s.template, here, r != nil && r.Same(record.OfItem(nil, id, w)), "is %s; must be %s", podschema.Show(item), podschema.Show(w))
		default:
			// The template does not render the token's mount, but Pillion may have written it.
			later := r == nil || objectOf(item)["mountPath"] == tokenPath
			s.differs(s.template, here, later && s.record.Owns(), "is present, but the template does not render it")
		}
	}
	for _, item := range wanted {
		if key, ok := id.Key(item); ok && !found[key] {
			s.differs(s.template, append(at[:len(at):len(at)], key), s.record.Child(name).Child(key) != nil, "is missing")
		}
	}
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// isToken reports whether a mount is the one that the API server's ServiceAccount
// plugin adds: of a projected volume with the token, the cluster's CA and the
// namespace, and nothing else.
func (c *comparison) isToken(mount map[string]any) bool {
	if mount["mountPath"] != tokenPath || mount["readOnly"] != true || len(mount) != 3 {
		return false
	}
	name, _ := mount["name"].(string)
	return c.tokenVolumes()[name]
}

// tokenVolumes returns the names of the pod's volumes that the plugin adds. Of several
// volumes of one name the first counts.
func (c *comparison) tokenVolumes() map[string]bool {
	if c.tokens != nil {
		return c.tokens
	}
	c.tokens = map[string]bool{}
	volumes, _ := objectOf(c.pod["spec"])["volumes"].([]any)
	for _, v := range volumes {
		name, _ := objectOf(v)["name"].(string)
		if _, earlier := c.tokens[name]; !earlier {
			c.tokens[name] = merge.IsTokenVolume(v)
		}
	}
	return c.tokens
}

// withHostPorts is a list of ports as the API server writes it in a pod with
// hostNetwork.
func (s sidecar) withHostPorts(v any) any {
	ports, ok := v.([]any)
	if !ok || objectOf(s.pod["spec"])["hostNetwork"] != true {
		return v
	}
	with := make([]any, len(ports))
	for i, p := range ports {
		port := maps.Clone(objectOf(p))
		if port != nil && port["hostPort"] == nil {
			port["hostPort"] = port["containerPort"]
		}
		with[i] = port
	}
	return with
}

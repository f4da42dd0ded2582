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
	accepted, message := podschema.Equal(podschema.At("spec.containers[]"), s.alone(name, want), s.alone(name, is)), isOther
	switch name {
	case "env":
		s.items(name, t, func(item map[string]any) bool {
			variable, _ := item["name"].(string)
			return s.allowed.AllowsEnv(variable)
		})
		return
	case "volumeMounts":
		s.items(name, t, func(item map[string]any) bool {
			mountPath, _ := item["mountPath"].(string)
			return s.allowed.AllowsMount(mountPath) || s.isToken(item)
		})
		return
	case "image":
		image, _ := is.(string)
		accepted, message = accepted || s.allowed.AllowsImage(image), otherImage
	case "imagePullPolicy":
		accepted = accepted || is == "Always" // the plugin AlwaysPullImages sets Always
	case "resources":
		accepted, message = accepted || s.allowed.AllowsResources(), otherResources
	case "livenessProbe", "readinessProbe", "startupProbe":
		accepted = accepted || s.allowed.AllowsProbes() && podschema.ObjectOf(is)["exec"] == nil
	case "ports":
		accepted = accepted || podschema.Equal(t, s.withHostPorts(want), is)
	}
	at := s.at.Field(name)
	switch {
	case accepted:
	case want == nil && message == isOther:
		s.differs(s.template, at, isNotSet, podschema.Show(is))
	case is == nil && message == isOther:
		s.differs(s.template, at, isMissing)
	default:
		s.differs(s.template, at, message, podschema.Show(is), podschema.Show(want))
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
			s.differs(s.template, at, hasNoName, podschema.Show(item))
		case rendered && podschema.Equal(id.Elem, item, w), allowed(podschema.ObjectOf(item)):
		case rendered:
			s.differs(s.template, at.Key(key), isOther, podschema.Show(item), podschema.Show(w))
		default:
			s.differs(s.template, at.Key(key), isNotRendered)
		}
	}
	for _, item := range wanted {
		if key, ok := id.Key(item); ok && !found[key] {
			s.differs(s.template, at.Key(key), isMissing)
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
			s.differs(s.template, at.Key(key), mustComeBefore, nameOf(wanted[last]))
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

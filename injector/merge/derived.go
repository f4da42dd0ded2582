package merge

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// derive does what the template's values make necessary in others, because the API server derives
// these from them. Where the API server writes the value by itself, the write is [Derived]: it is no
// change, and the base pod of the next call does not have the value.
func (m *merger) derive() {
	for _, w := range slices.Clone(m.result.Writes) {
		if w.Effect == Same || w.Effect == Made {
			continue
		}
		switch path := w.Path; {
		case path.Is("spec", "serviceAccountName"):
			m.deriveAlias(w.Value)
		case path.Is("spec", "priorityClassName"):
			m.dropComputed()
		case path.Is("spec", "hostNetwork") && w.Value == true:
			m.deriveHostPorts(nil)
		case path.Is("spec", "tolerations"):
			m.keepDefaultTolerations(podschema.ListOf(w.Was))
		case w.Type.IsContainer() && w.Value != nil && podschema.ObjectOf(m.result.Pod["spec"])["hostNetwork"] == true:
			m.deriveHostPorts(path)
		case path.Parent() != nil && path.Parent().Name() == "limits":
			m.deriveRequest(w)
		}
		if m.limited[w.Path.String()] {
			m.deriveLimitRange()
		}
	}
	m.derivePodResources()
}

// at returns what the merged pod has at a place.
func (m *merger) at(path *podschema.Path) any {
	return podschema.LookUp(m.result.Pod, path.Segments())
}

// touched reports whether the template wrote the place, or wants what stands there.
func (m *merger) touched(path *podschema.Path) bool {
	text := path.String()
	return slices.ContainsFunc(m.result.Writes, func(w Write) bool {
		return w.Effect != Derived && w.Path.Name() == path.Name() && w.Path.String() == text
	})
}

func (m *merger) derived(path *podschema.Path, was any) {
	m.write(Write{Path: path, Effect: Derived, Was: was, Had: was != nil})
}

// change puts v at a place of the merged pod, nil for nothing, and notes it.
func (m *merger) change(path *podschema.Path, t *podschema.Type, v any) {
	was := m.at(path)
	effect := Replaced
	switch {
	case was == nil:
		effect = Added
	case v == nil:
		effect = Removed
	}
	m.write(Write{Path: path, Type: t, Effect: effect, Value: v, Was: was, Had: was != nil})
	m.result.Pod, _ = putAt(podschema.Pod(), m.result.Pod, path.Segments(), v).(map[string]any)
}

// putAt returns a value with v at a keyed path, nil for nothing. What is around the place has to be
// there, and is copied.
func putAt(t *podschema.Type, in any, path []string, v any) any {
	if len(path) == 0 {
		return v
	}
	switch in := in.(type) {
	case map[string]any:
		in = maps.Clone(in)
		value := putAt(t.Child(path[0]), in[path[0]], path[1:], v)
		if in[path[0]] = value; value == nil {
			delete(in, path[0])
		}
		return in
	case []any:
		id, _ := t.Identity()
		if i, ok := podschema.IndexIn(id, in, map[string]bool{path[0]: true})[path[0]]; ok {
			in = slices.Clone(in)
			in[i] = putAt(id.Elem, in[i], path[1:], v)
		}
		return in
	}
	return in
}

// deriveAlias keeps the deprecated name of the service account in step: the API writes both.
func (m *merger) deriveAlias(account any) {
	at := specPath.Field("serviceAccount")
	if m.touched(at) {
		return
	}
	switch now := m.at(at); {
	case now == nil:
		m.derived(at, nil)
	case now != account:
		m.change(at, podschema.At("spec.serviceAccount"), account)
	}
}

// dropComputed drops what was computed for another priority class, with which the API server would
// refuse the pod. It computes both anew.
func (m *merger) dropComputed() {
	for _, name := range []string{"preemptionPolicy", "priority"} {
		at := specPath.Field(name)
		if m.touched(at) {
			continue
		}
		if m.at(at) == nil {
			m.derived(at, nil)
		} else {
			m.change(at, podschema.At("spec."+name), nil)
		}
	}
}

// deriveHostPorts notes the host ports that the API server derives in a pod on the host's network: in
// one container, or with nil in all.
func (m *merger) deriveHostPorts(only *podschema.Path) {
	id, _ := podschema.At("spec.containers[].ports").Identity()
	for _, list := range []string{"containers", "initContainers"} {
		for _, item := range podschema.ListOf(podschema.ObjectOf(m.result.Pod["spec"])[list]) {
			container := podschema.ObjectOf(item)
			name, ok := container["name"].(string)
			at := specPath.Field(list).Key("name=" + name)
			if !ok || only != nil && only.String() != at.String() {
				continue
			}
			for _, port := range podschema.ListOf(container["ports"]) {
				if key, named := id.Key(port); named && podschema.ObjectOf(port)["hostPort"] == nil {
					m.derived(at.Field("ports").Key(key).Field("hostPort"), nil)
				}
			}
		}
	}
}

// keepDefaultTolerations keeps the tolerations of the plugin DefaultTolerationSeconds where a template
// replaces the whole list, or takes it away. The plugin runs again after webhooks: it would add them
// once more, and the API server would call Pillion a second time.
func (m *merger) keepDefaultTolerations(was []any) {
	at := specPath.Field("tolerations")
	before := podschema.ListOf(m.at(at))
	wanted := slices.Clone(before)
	for _, key := range defaultTolerations {
		i := slices.IndexFunc(was, func(v any) bool { return isDefaultToleration(v) && podschema.ObjectOf(v)["key"] == key })
		if i >= 0 && !slices.ContainsFunc(wanted, func(v any) bool { return covers(v, key) }) {
			wanted = append(wanted, was[i])
		}
	}
	if len(wanted) == len(before) {
		return
	}
	for i, w := range m.result.Writes {
		if w.Path.Is("spec", "tolerations") {
			m.result.Writes[i].Value = wanted
			if w.Effect == Removed {
				m.result.Writes[i].Effect = Replaced
			}
		}
	}
	m.result.Pod, _ = putAt(podschema.Pod(), m.result.Pod, at.Segments(), wanted).(map[string]any)
}

// deriveRequest does what a container's new limit makes necessary in its request: the API server
// derives an absent one, and refuses one above the limit. A request that said what the limit said
// follows it.
func (m *merger) deriveRequest(w Write) {
	resources := w.Path.Parent().Parent()
	if resources.Parent() == nil || resources.Is("spec", "resources") || w.Value == nil || resources.Name() != "resources" {
		return
	}
	requests := resources.Field("requests")
	at := requests.Key(w.Path.Name())
	now := m.at(at)
	switch {
	case now == nil:
		if m.at(requests) == nil && !slices.ContainsFunc(m.result.Writes, func(one Write) bool { return one.Path.String() == requests.String() }) {
			m.write(Write{Path: requests, Effect: Derived})
		}
		m.derived(at, nil)
	case w.Had && !m.touched(at) && podschema.Equal(w.Type, w.Was, now):
		m.change(at, w.Type, w.Value)
	}
}

// deriveLimitRange notes that LimitRanger may write its annotation anew, where a template put a value
// in the place of one that LimitRanger set. LimitRanger runs again after a webhook, sets the
// resources of the new containers, and says nothing of the others.
func (m *merger) deriveLimitRange() {
	annotations := (*podschema.Path)(nil).Field("metadata").Field("annotations")
	at := annotations.Key(limitRangerKey)
	if text := m.at(at); text != nil && !m.touched(at) {
		m.derived(at, text)
	}
}

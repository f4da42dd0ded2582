package merge

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// derive updates the fields that the API server derives from the template's values. If the API server writes
// the field itself, the write is [Derived]: it changes nothing, and the next call's base pod lacks the field.
func (m *merger) derive() {
	for _, w := range slices.Clone(m.result.Writes) {
		if w.Effect == Same || w.Effect == Created {
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
			m.restoreDefaultTolerations(podschema.ListOf(w.Was))
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

// at returns the merged pod's value at a path.
func (m *merger) at(path *podschema.Path) any {
	return podschema.LookUp(m.result.Pod, path.Segments())
}

// touched reports whether the template wrote the place, or agrees with its value.
func (m *merger) touched(path *podschema.Path) bool {
	text := path.String()
	return slices.ContainsFunc(m.result.Writes, func(w Write) bool {
		return w.Effect != Derived && w.Path.Name() == path.Name() && w.Path.String() == text
	})
}

func (m *merger) derived(path *podschema.Path, was any) {
	m.write(Write{Path: path, Effect: Derived, Was: was, Had: was != nil})
}

// change sets v at a path of the merged pod, nil for none, and records the write.
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
	m.result.Pod, _ = replaceAt(podschema.Pod(), m.result.Pod, path.Segments(), v).(map[string]any)
}

// replaceAt returns a copy of in with v at a keyed path; nil deletes. The objects around the path must exist.
func replaceAt(t *podschema.Type, in any, path []string, v any) any {
	if len(path) == 0 {
		return v
	}
	switch in := in.(type) {
	case map[string]any:
		in = maps.Clone(in)
		value := replaceAt(t.Child(path[0]), in[path[0]], path[1:], v)
		if in[path[0]] = value; value == nil {
			delete(in, path[0])
		}
		return in
	case []any:
		id, _ := t.Identity()
		if i, ok := podschema.IndexIn(id, in, map[string]bool{path[0]: true})[path[0]]; ok {
			in = slices.Clone(in)
			in[i] = replaceAt(id.Elem, in[i], path[1:], v)
		}
		return in
	}
	return in
}

// deriveAlias updates the deprecated field serviceAccount, because the API writes both.
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

// dropComputed removes the fields that were computed for another priority class. The API server would refuse
// the pod with them, and computes them again.
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

// deriveHostPorts records the host ports that the API server derives in a pod on the host's network: in one
// container, or in all if only is nil.
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

// restoreDefaultTolerations restores the tolerations of the plugin DefaultTolerationSeconds if a template
// replaces or removes the whole list. The plugin runs again after webhooks: it would add them once more, and
// the API server would call Pillion a second time.
func (m *merger) restoreDefaultTolerations(was []any) {
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
	m.result.Pod, _ = replaceAt(podschema.Pod(), m.result.Pod, at.Segments(), wanted).(map[string]any)
}

// deriveRequest updates the request of a container whose limit is new. The API server sets an absent request to
// the limit, and refuses a request above the limit. A request that equaled the old limit follows the new one.
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
		m.write(Write{Path: at, Type: w.Type, Effect: Derived, Value: w.Value})
	case w.Had && !m.touched(at) && podschema.Equal(w.Type, w.Was, now):
		m.change(at, w.Type, w.Value)
	}
}

// deriveLimitRange records that LimitRanger may rewrite its annotation if a template replaces a value that
// LimitRanger set. LimitRanger runs again after a webhook, and then lists only the new containers.
func (m *merger) deriveLimitRange() {
	annotations := (*podschema.Path)(nil).Field("metadata").Field("annotations")
	at := annotations.Key(limitRangerKey)
	if text := m.at(at); text != nil && !m.touched(at) {
		m.derived(at, text)
	}
}

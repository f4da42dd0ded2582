package merge

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Some values in a pod were set by neither its author nor its owner but by the
// API server's admission plugins, which run before webhooks: ServiceAccount,
// Priority, DefaultTolerationSeconds and LimitRanger. They count as unset.

const tolerationsPath = "/spec/tolerations"

// countsAsUnset reports whether the value v in one of the fields gives way
// without a conflict.
func (m *merger) countsAsUnset(t *podschema.Type, name string, v any, fields map[string]any, at place) bool {
	switch at.keyed {
	case "/spec/serviceAccountName", "/spec/serviceAccount":
		if v == "default" {
			return true
		}
	case "/spec/priority", "/spec/preemptionPolicy":
		// Nobody may set these: the plugin computes them, and refuses others.
		return true
	}
	if at.author && t == m.container && name == "image" && v == "auto" {
		return true
	}
	return m.limited[at.keyed] || wouldBeDefault(t, fields, name, v)
}

// tokenPath is where the ServiceAccount plugin mounts a token into every container that
// mounts nothing else there.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// withoutToken is the container v as its author wrote it, without the plugin's mount;
// anything that is no container is itself. A pod whose status was dropped on the way, as
// `kubectl debug --copy-to` drops all annotations, has sidecars that only differ in that.
func (s *shapes) withoutToken(t *podschema.Type, v any) any {
	container, ok := v.(map[string]any)
	if !ok || t != s.container {
		return v
	}
	mounts, _ := container["volumeMounts"].([]any)
	rest := slices.DeleteFunc(slices.Clone(mounts), func(mount any) bool {
		fields, _ := mount.(map[string]any)
		return fields["mountPath"] == tokenPath
	})
	if len(rest) == len(mounts) {
		return v
	}
	container = maps.Clone(container)
	container["volumeMounts"] = rest
	return container
}

// followServiceAccount keeps the deprecated alias in step: the API writes both.
func (m *merger) followServiceAccount(spec *object) {
	const name = "serviceAccount"
	at := place{}.field("spec").field(name)
	if _, set := m.claims[at.keyed]; set {
		return
	}
	wanted := spec.fields["serviceAccountName"]
	m.sign(nil, at.keyed, wanted)
	switch spec.fields[name] {
	case wanted:
	case nil:
		m.list(at.keyed)
	default:
		m.noteOriginal(at.keyed, spec.fields[name])
		m.set(spec, name, at, wanted)
	}
}

// followPriorityClass drops what was computed for another class, with which the
// API server would refuse the pod; it computes both anew.
func (m *merger) followPriorityClass(spec *object) {
	for _, name := range []string{"preemptionPolicy", "priority"} {
		at := place{}.field("spec").field(name)
		if _, set := m.claims[at.keyed]; set {
			continue
		}
		if spec.fields[name] == nil {
			m.list(at.keyed)
			continue
		}
		m.noteOriginal(at.keyed, spec.fields[name])
		m.unset(spec, name, at)
	}
}

// expectHostPorts lists, with a host network that the template asked for, the
// host ports that the API server derives from it.
func (m *merger) expectHostPorts(spec *object) {
	if spec.fields["hostNetwork"] != true {
		return
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec.fields[list].([]any)
		for _, item := range containers {
			container, _ := item.(map[string]any)
			if name, ok := container["name"].(string); ok {
				m.expectHostPortsOf(container, place{}.field("spec").field(list).item("name="+name, 0))
			}
		}
	}
}

func (m *merger) expectHostPortsOf(container map[string]any, at place) {
	id, _ := m.identityOf(typeAt("spec.containers[].ports"))
	ports, _ := container["ports"].([]any)
	for _, port := range ports {
		fields, _ := port.(map[string]any)
		if key, ok := id.key(port); ok && fields["hostPort"] == nil {
			here := at.field("ports").item(key, 0).field("hostPort").keyed
			m.list(here)
			m.sign(nil, here, fields["containerPort"])
		}
	}
}

// dropDefaultTolerations takes out the tolerations of DefaultTolerationSeconds
// that the plugin would not have added beside the template's.
func (m *merger) dropDefaultTolerations(l *list, items []listItem, at place) {
	added := slices.DeleteFunc(slices.Clone(items), func(it listItem) bool {
		_, have := l.index[it.key]
		return have
	})
	var out []int
	for i, item := range l.items {
		if isDefaultToleration(item) && slices.ContainsFunc(added, func(it listItem) bool { return covers(it.raw, item) }) {
			if key, _ := l.id.key(item); m.owners[join(at.keyed, key)] == "" {
				out = append(out, i)
			}
		}
	}
	m.takeOut(l, at, out, nil)
}

// isDefaultToleration recognizes the plugin's two tolerations by their seconds,
// too: with others, somebody wrote them.
func isDefaultToleration(v any) bool {
	t, _ := v.(map[string]any)
	seconds, _ := t["tolerationSeconds"].(json.Number)
	known := t["key"] == "node.kubernetes.io/not-ready" || t["key"] == "node.kubernetes.io/unreachable"
	return known && t["operator"] == "Exists" && t["effect"] == "NoExecute" && seconds == "300" && len(t) == 4
}

// covers is the plugin's own question: does the toleration make the default one
// unnecessary?
func covers(toleration map[string]any, v any) bool {
	t, _ := v.(map[string]any)
	key, _ := toleration["key"].(string)
	effect, _ := toleration["effect"].(string)
	return (key == "" || key == t["key"]) && (effect == "" || effect == "NoExecute")
}

const limitRangerKey = "kubernetes.io/limit-ranger"

// limitRanged reads which resources LimitRanger says that it set. Its
// annotation is the only trace: "LimitRanger plugin set: cpu, memory request
// for container web; cpu limit for init container setup".
func limitRanged(pod map[string]any) map[string]bool {
	paths := map[string]bool{}
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[limitRangerKey].(string)
	text, ok := strings.CutPrefix(text, "LimitRanger plugin set: ")
	if !ok {
		return paths
	}
	for _, part := range strings.Split(text, "; ") {
		what, container, _ := strings.Cut(part, " for ")
		list := "containers"
		name, ok := strings.CutPrefix(container, "container ")
		if !ok {
			list = "initContainers"
			name = strings.TrimPrefix(container, "init container ")
		}
		i := strings.LastIndexByte(what, ' ')
		if i < 0 {
			continue
		}
		at := place{}.field("spec").field(list).item("name="+name, 0).field("resources").field(what[i+1:] + "s")
		for _, resource := range strings.Split(what[:i], ", ") {
			paths[at.field(resource).keyed] = true
		}
	}
	return paths
}

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

// derivation knows what the API server's own admission sets and derives in a pod.
type derivation struct {
	base    map[string]any
	root    *object // the pod as it is wanted so far
	changes *Change
	// limited are the resources that LimitRanger set, and the requests that say no
	// more than their limits.
	limited map[*Change]bool
	// template is the one that is being merged.
	template string
	reached  []reached
}

func newDerivation(base map[string]any, root *object, changes *Change) *derivation {
	d := &derivation{base: base, root: root, changes: changes, limited: map[*Change]bool{}}
	d.noteLimitRange()
	return d
}

// follow does what setting one field makes necessary in others.
func (d *derivation) follow(o *object, at *place) {
	switch {
	case at.is("spec", "serviceAccountName"):
		d.followServiceAccount(o, at)
	case at.is("spec", "priorityClassName"):
		d.followPriorityClass(o, at)
	case at.is("spec", "hostNetwork"):
		d.expectHostPorts(o, at)
	}
}

// countsAsUnset reports whether the value v in one of the fields gives way
// without a conflict.
func (d *derivation) countsAsUnset(t *podschema.Type, name string, v any, fields map[string]any, at *place) bool {
	switch name {
	case "serviceAccountName", "serviceAccount":
		if v == "default" && at.is("spec", name) {
			return true
		}
	case "priority", "preemptionPolicy":
		// Nobody may set these: the plugin computes them, and refuses others.
		if at.is("spec", name) {
			return true
		}
	case "image":
		if at.author && t.IsContainer() && v == "auto" {
			return true
		}
	}
	if n := at.find(); n != nil && d.limited[n] {
		return true
	}
	return podschema.WouldBeDefault(t, fields, name, v)
}

// tokenPath is where the ServiceAccount plugin mounts a token into every container that
// mounts nothing else there.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// withoutToken is the container v as its author wrote it, without the plugin's mount;
// anything that is no container is itself. A pod whose record was dropped on the way, as
// `kubectl debug --copy-to` drops all annotations, has sidecars that only differ in that.
func withoutToken(t *podschema.Type, v any) any {
	container, ok := v.(map[string]any)
	if !ok || !t.IsContainer() {
		return v
	}
	mounts, _ := container["volumeMounts"].([]any)
	rest := WithoutToken(mounts)
	if len(rest) == len(mounts) {
		return v
	}
	container = maps.Clone(container)
	container["volumeMounts"] = rest
	return container
}

// WithoutToken returns the mounts of a container without the one of the service
// account's token.
func WithoutToken(mounts any) []any {
	list, _ := mounts.([]any)
	return slices.DeleteFunc(slices.Clone(list), func(mount any) bool { return objectOf(mount)["mountPath"] == tokenPath })
}

// followServiceAccount keeps the deprecated alias in step: the API writes both.
func (d *derivation) followServiceAccount(spec *object, account *place) {
	const name = "serviceAccount"
	at := account.parent.field(name)
	if n := at.find(); n.asked() {
		return
	}
	wanted := spec.fields["serviceAccountName"]
	switch current := spec.fields[name]; current {
	case wanted:
	case nil:
		n := at.note()
		n.put(Expect, nil)
		n.expected = wanted
		n.by(d.template)
	default:
		n := at.note()
		n.put(Write, current)
		n.claim(d.template, nil, wanted, false)
		spec.put(name, wanted)
	}
}

// followPriorityClass drops what was computed for another class, with which the
// API server would refuse the pod; it computes both anew.
func (d *derivation) followPriorityClass(spec *object, class *place) {
	for _, name := range []string{"preemptionPolicy", "priority"} {
		at := class.parent.field(name)
		if n := at.find(); n.asked() {
			continue
		}
		n := at.note()
		n.by(d.template)
		n.put(Renew, spec.fields[name])
		spec.remove(name)
	}
}

// expectHostPorts notes, with a host network that the template asked for, the
// host ports that the API server derives from it.
func (d *derivation) expectHostPorts(spec *object, network *place) {
	if spec.fields["hostNetwork"] != true {
		return
	}
	id, _ := podschema.At("spec.containers[].ports").Identity()
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec.fields[list].([]any)
		for _, item := range containers {
			container := objectOf(item)
			name, ok := container["name"].(string)
			ports, _ := container["ports"].([]any)
			for _, port := range ports {
				fields := objectOf(port)
				if key, named := id.Key(port); ok && named && fields["hostPort"] == nil {
					n := network.parent.field(list).field("name=" + name).field("ports").field(key).field("hostPort").note()
					n.put(Expect, nil)
					n.expected = fields["containerPort"]
					n.by(d.template)
				}
			}
		}
	}
}

// defaultTolerations are the keys of the plugin's two tolerations.
var defaultTolerations = []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

// isDefaultToleration recognizes the plugin's two tolerations by their seconds,
// too: with others, somebody wrote them.
func isDefaultToleration(v any) bool {
	t, _ := v.(map[string]any)
	seconds, _ := t["tolerationSeconds"].(json.Number)
	key, _ := t["key"].(string)
	return slices.Contains(defaultTolerations, key) && t["operator"] == "Exists" && t["effect"] == "NoExecute" && seconds == "300" && len(t) == 4
}

// covers is the plugin's own question: does the toleration make the default one of
// that key unnecessary?
func covers(toleration map[string]any, of string) bool {
	key, _ := toleration["key"].(string)
	effect, _ := toleration["effect"].(string)
	return (key == "" || key == of) && (effect == "" || effect == "NoExecute")
}

const limitRangerKey = "kubernetes.io/limit-ranger"

// noteLimitRange notes which resources LimitRanger says that it set. Its
// annotation is the only trace: "LimitRanger plugin set: cpu, memory request
// for container web; cpu limit for init container setup".
func (d *derivation) noteLimitRange() {
	annotations := objectOf(objectOf(d.base["metadata"])["annotations"])
	text, _ := annotations[limitRangerKey].(string)
	for _, path := range limitRanged(text) {
		d.limited[d.at(path).note()] = true
	}
}

// expectLimitRange notes that LimitRanger may write its annotation anew, where a
// template put a value in the place of one that LimitRanger set. LimitRanger
// runs again after a webhook, sets the resources of the new containers, and says
// nothing of the others. The base pod of the next call has the annotation as it
// was: there the same values count as unset.
func (d *derivation) expectLimitRange() {
	text, _ := objectOf(objectOf(d.base["metadata"])["annotations"])[limitRangerKey].(string)
	for _, path := range limitRanged(text) {
		limited := d.at(path).find()
		if !limited.Writes() {
			continue
		}
		n := d.at([]string{"metadata", "annotations", limitRangerKey}).note()
		if n.asked() {
			return // a template writes the annotation itself
		}
		n.put(Expect, text)
		for _, template := range limited.Templates {
			n.by(template)
		}
	}
}

// at returns the place at a keyed path.
func (d *derivation) at(path []string) *place {
	at := &place{node: d.changes}
	for _, segment := range path {
		at = at.field(segment)
	}
	return at
}

// limitRanged reads the keyed paths from LimitRanger's annotation.
func limitRanged(text string) [][]string {
	text, ok := strings.CutPrefix(text, "LimitRanger plugin set: ")
	if !ok {
		return nil
	}
	var paths [][]string
	for _, part := range strings.Split(text, "; ") {
		resources, container, _ := strings.Cut(part, " for ")
		list := "containers"
		name, ok := strings.CutPrefix(container, "container ")
		if !ok {
			list = "initContainers"
			name = strings.TrimPrefix(container, "init container ")
		}
		i := strings.LastIndexByte(resources, ' ')
		if i < 0 {
			continue
		}
		for _, resource := range strings.Split(resources[:i], ", ") {
			paths = append(paths, []string{"spec", list, "name=" + name, "resources", resources[i+1:] + "s", resource})
		}
	}
	return paths
}

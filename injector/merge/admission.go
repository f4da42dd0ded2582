package merge

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// The API server's admission plugins run before webhooks: ServiceAccount, Priority, DefaultTolerationSeconds
// and LimitRanger. The values that they set are neither the author's nor a template's, and count as unset.

var resourcesType, quantityType = typeAt("spec.containers[].resources"), typeAt("spec.containers[].resources.limits")

// countsAsUnset reports whether a template may replace the value v of a field without a conflict.
func (m *merger) countsAsUnset(t *podschema.Type, name string, v any, fields map[string]any, at place) bool {
	switch name {
	case "serviceAccountName", "serviceAccount":
		if v == "default" && at.path.Is("spec", name) {
			return true
		}
	case "priority", "preemptionPolicy":
		// Users may not set these fields: the plugin computes them, and refuses any other value.
		if at.path.Is("spec", name) {
			return true
		}
	case "image":
		if at.author && t.IsContainer() && v == "auto" {
			return true
		}
	}
	if at.path.Parent() != nil && at.path.Parent().Name() == "requests" && at.implied[name] {
		return true
	}
	if m.limited != nil && m.limited[at.path.String()] {
		return true
	}
	return podschema.WouldBeDefault(t, fields, name, v)
}

// impliedRequests returns the requests that equal their limits: like defaults, a template may replace them.
func impliedRequests(resources map[string]any) map[string]bool {
	limits, requests := podschema.ObjectOf(resources["limits"]), podschema.ObjectOf(resources["requests"])
	implied := make(map[string]bool, len(requests))
	for key, request := range requests {
		if limits[key] != nil && podschema.Equal(quantityType().Elem(), limits[key], request) {
			implied[key] = true
		}
	}
	return implied
}

// TokenPath is where the ServiceAccount plugin mounts a token into every container that mounts
// nothing else there. It runs before webhooks and again after them: if it then finds a container
// without the mount, it adds it, and the API server calls Pillion a second time. So Pillion writes
// the mount into its containers itself.
const TokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenVolumePrefix begins the name of the plugin's volume.
const tokenVolumePrefix = "kube-api-access-"

// WithoutToken returns the mounts of a container without the mount of the service account's token.
func WithoutToken(mounts any) []any {
	return slices.DeleteFunc(slices.Clone(podschema.ListOf(mounts)), isAtToken)
}

// isAtToken reports whether a mount prevents the plugin from mounting the token. The plugin compares the path
// literally.
func isAtToken(mount any) bool { return podschema.ObjectOf(mount)["mountPath"] == TokenPath }

// withToken returns a container with the mount that the plugin would add. A container with a mount at that path
// stays as it is.
func (m *merger) withToken(container map[string]any) map[string]any {
	mounts := podschema.ListOf(container["volumeMounts"])
	if m.token == "" || slices.ContainsFunc(mounts, isAtToken) {
		return container
	}
	container = maps.Clone(container)
	container["volumeMounts"] = append(mounts[:len(mounts):len(mounts)], map[string]any{"name": m.token, "readOnly": true, "mountPath": TokenPath})
	return container
}

// tokenVolume returns the name of the volume that the plugin mounts, "" if that is uncertain. A missing mount
// does no harm: the plugin adds it. A wrong mount could give a container a token that it should not have.
func (m *merger) tokenVolume(f *fragment.Node) string {
	spec, base := podschema.ObjectOf(m.pod["spec"]), podschema.ObjectOf(m.base["spec"])
	wanted := func(name string) any {
		if n := f.Field("spec", name); n != nil && n.Value != nil {
			return n.Value
		}
		return spec[name]
	}
	switch automount := wanted("automountServiceAccountToken"); {
	case automount == false:
		return ""
	case automount == nil && wanted("serviceAccountName") != base["serviceAccountName"]:
		return "" // the service account that a template names decides
	}
	for _, v := range podschema.ListOf(spec["volumes"]) {
		name, _ := podschema.ObjectOf(v)["name"].(string)
		if strings.HasPrefix(name, tokenVolumePrefix) && IsTokenVolume(v) && mountedByPlugin(base, name) {
			return name
		}
	}
	return ""
}

// mountedByPlugin reports whether the plugin has mounted the volume into the pod: all its init and app
// containers have a mount at the token's path.
func mountedByPlugin(spec map[string]any, volume string) bool {
	found := false
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range podschema.ListOf(spec[list]) {
			mounts := podschema.ListOf(podschema.ObjectOf(c)["volumeMounts"])
			i := slices.IndexFunc(mounts, isAtToken)
			if i < 0 {
				return false
			}
			mount := podschema.ObjectOf(mounts[i])
			found = found || mount["name"] == volume && mount["readOnly"] == true && len(mount) == 3
		}
	}
	return found
}

// IsTokenVolume reports whether the ServiceAccount plugin added the volume: it projects the token, the
// cluster's CA and the namespace, and nothing else.
func IsTokenVolume(volume any) bool {
	v := podschema.ObjectOf(volume)
	name, _ := v["name"].(string)
	sources := podschema.ListOf(podschema.ObjectOf(v["projected"])["sources"])
	return strings.HasPrefix(name, tokenVolumePrefix) && len(sources) >= 3 && !slices.ContainsFunc(sources, func(v any) bool { return !isTokenSource(podschema.ObjectOf(v)) })
}

// isTokenSource reports whether the plugin adds that source to the volume.
func isTokenSource(source map[string]any) bool {
	token, ca, downward := podschema.ObjectOf(source["serviceAccountToken"]), podschema.ObjectOf(source["configMap"]), podschema.ObjectOf(source["downwardAPI"])
	switch {
	case len(source) != 1:
		return false
	case token != nil:
		return token["path"] == "token" && token["audience"] == nil
	case ca != nil:
		// OpenShift adds the CA of its services.
		name, _ := ca["name"].(string)
		file, known := map[string]string{"kube-root-ca.crt": "ca.crt", "openshift-service-ca.crt": "service-ca.crt"}[name]
		return known && onlyItem(ca["items"])["path"] == file && onlyItem(ca["items"])["key"] == file
	default:
		item := onlyItem(downward["items"])
		return item["path"] == "namespace" && podschema.ObjectOf(item["fieldRef"])["fieldPath"] == "metadata.namespace"
	}
}

func onlyItem(v any) map[string]any {
	items := podschema.ListOf(v)
	if len(items) != 1 {
		return nil
	}
	return podschema.ObjectOf(items[0])
}

// defaultTolerations are the keys of the two tolerations of the plugin DefaultTolerationSeconds.
var defaultTolerations = []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

// isDefaultToleration recognizes the plugin's two tolerations. Other seconds mean that somebody wrote the
// toleration.
func isDefaultToleration(v any) bool {
	t := podschema.ObjectOf(v)
	seconds, _ := t["tolerationSeconds"].(json.Number)
	key, _ := t["key"].(string)
	return slices.Contains(defaultTolerations, key) && t["operator"] == "Exists" && t["effect"] == "NoExecute" && seconds == "300" && len(t) == 4
}

// covers reports whether a toleration keeps the plugin from adding the default one of that key.
func covers(toleration any, of string) bool {
	t := podschema.ObjectOf(toleration)
	key, _ := t["key"].(string)
	effect, _ := t["effect"].(string)
	return (key == "" || key == of) && (effect == "" || effect == "NoExecute")
}

// removeDefaultTolerations removes the tolerations that the plugin would not have added beside the template's.
func (l *list) removeDefaultTolerations(items []fragment.Item) {
	index, covered := podschema.IndexIn(l.id, l.now, l.keys), map[any]bool{}
	for _, it := range items {
		if _, there := index[it.Key]; there || it.Delete {
			continue
		}
		for _, key := range defaultTolerations {
			covered[key] = covered[key] || covers(it.JSON(), key)
		}
	}
	going := map[string]bool{}
	for _, item := range l.now {
		if isDefaultToleration(item) && covered[podschema.ObjectOf(item)["key"]] {
			if key, _ := l.id.Key(item); l.at.item(key).wrote() == "" {
				going[key] = true
			}
		}
	}
	l.remove(going)
}

const limitRangerKey = "kubernetes.io/limit-ranger"

// limitRanged returns the paths of the values that LimitRanger set, nil for none. It parses LimitRanger's
// annotation: "LimitRanger plugin set: cpu, memory request for container web; cpu limit for init container
// setup".
func limitRanged(pod map[string]any) map[string]bool {
	text, _ := podschema.ObjectOf(podschema.ObjectOf(pod["metadata"])["annotations"])[limitRangerKey].(string)
	text, ok := strings.CutPrefix(text, "LimitRanger plugin set: ")
	if !ok {
		return nil
	}
	places := map[string]bool{}
	for part := range strings.SplitSeq(text, "; ") {
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
		at := specPath.Field(list).Key("name=" + name).Field("resources").Field(resources[i+1:] + "s")
		for resource := range strings.SplitSeq(resources[:i], ", ") {
			places[at.Key(resource).String()] = true
		}
	}
	return places
}

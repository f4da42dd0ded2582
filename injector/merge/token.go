package merge

import (
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// The API server's ServiceAccount plugin mounts the service account's token into every
// init and app container that mounts nothing else there. It runs before webhooks and
// again after them. If it then finds a container of a template without the mount, it adds
// it, and the API server calls Pillion a second time. So the plan has the mount already.

// tokenVolumePrefix begins the name of the plugin's volume.
const tokenVolumePrefix = "kube-api-access-"

// mountToken mounts the token into the containers that templates put into the pod, as the
// plugin would: the same mount, at the end. Templates that mount something there
// themselves keep it. It comes when all templates are merged.
func (m *merger) mountToken() {
	added := m.added()
	if len(added) == 0 {
		return
	}
	volume, ok := m.tokenVolume()
	if !ok {
		return
	}
	for _, container := range added {
		mounts, _ := container.fields["volumeMounts"].([]any)
		if !mountsAtToken(mounts) {
			container.put("volumeMounts", append(slices.Clip(mounts), tokenMount(volume)))
		}
	}
}

// added returns the init and app containers that templates put into the wanted pod, also
// in the place of the author's.
func (m *merger) added() []*object {
	spec, ok := m.root.object("spec")
	if !ok {
		return nil
	}
	var added []*object
	for _, name := range []string{"initContainers", "containers"} {
		change := m.changes.Child("spec").Child(name)
		id, _ := podschema.At("spec." + name).Identity()
		l, ok := spec.listOf(name, id)
		if change == nil || !ok {
			continue
		}
		for _, key := range addedKeys(id, l.items, change) {
			added = append(added, l.object(key))
		}
	}
	return added
}

// addedKeys returns the keys of the items that templates put into a list.
func addedKeys(id podschema.Identity, items []any, change *Change) (keys []string) {
	if change.Writes() {
		for _, item := range items {
			if key, ok := id.Key(item); ok {
				keys = append(keys, key)
			}
		}
		return keys
	}
	for _, key := range podschema.KeysIn(id, items, change.In) {
		if change.In[key].Writes() {
			keys = append(keys, key)
		}
	}
	return keys
}

// tokenVolume returns the name of the volume that the plugin mounts, and false where it
// cannot be told that the plugin mounts one. Without the mount the pod is as right: the
// plugin adds it where it belongs, and the API server calls again. With it, a container
// could get a token that it should not have.
func (m *merger) tokenVolume() (string, bool) {
	spec, base := objectOf(m.root.fields["spec"]), objectOf(m.base["spec"])
	account, _ := spec["serviceAccountName"].(string)
	before, _ := base["serviceAccountName"].(string)
	switch automount := spec["automountServiceAccountToken"]; {
	case automount == false:
		return "", false
	case automount == nil && account != before:
		return "", false // the service account that a template names decides
	}
	volumes, _ := spec["volumes"].([]any)
	i := slices.IndexFunc(volumes, func(v any) bool {
		name, _ := objectOf(v)["name"].(string)
		return strings.HasPrefix(name, tokenVolumePrefix)
	})
	if i < 0 || !IsTokenVolume(volumes[i]) {
		return "", false
	}
	name, _ := objectOf(volumes[i])["name"].(string)
	return name, mountedByPlugin(base, name)
}

// mountedByPlugin reports whether the plugin has mounted the volume into the pod with that
// spec: then all its init and app containers mount something where the token goes.
func mountedByPlugin(spec map[string]any, volume string) bool {
	found := false
	for _, name := range []string{"initContainers", "containers"} {
		containers, _ := spec[name].([]any)
		for _, c := range containers {
			mounts, _ := objectOf(c)["volumeMounts"].([]any)
			i := slices.IndexFunc(mounts, isAtToken)
			if i < 0 {
				return false
			}
			mount := objectOf(mounts[i])
			found = found || mount["name"] == volume && mount["readOnly"] == true && len(mount) == 3
		}
	}
	return found
}

// tokenMount is the plugin's mount of a volume.
func tokenMount(volume string) map[string]any {
	return map[string]any{"name": volume, "readOnly": true, "mountPath": tokenPath}
}

// isAtToken reports whether a mount keeps the plugin from mounting the token. The plugin
// compares the path as it is written.
func isAtToken(mount any) bool { return objectOf(mount)["mountPath"] == tokenPath }

func mountsAtToken(mounts []any) bool { return slices.ContainsFunc(mounts, isAtToken) }

// IsTokenVolume reports whether a volume is the one that the plugin adds to pods: it
// projects the token, the cluster's CA and the namespace, and nothing else.
func IsTokenVolume(volume any) bool {
	v := objectOf(volume)
	name, _ := v["name"].(string)
	sources, _ := objectOf(v["projected"])["sources"].([]any)
	return strings.HasPrefix(name, tokenVolumePrefix) && len(sources) >= 3 && !slices.ContainsFunc(sources, func(v any) bool { return !isTokenSource(objectOf(v)) })
}

// isTokenSource reports whether the plugin gives that source to the volume.
func isTokenSource(source map[string]any) bool {
	token, ca, downward := objectOf(source["serviceAccountToken"]), objectOf(source["configMap"]), objectOf(source["downwardAPI"])
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
		return item["path"] == "namespace" && objectOf(item["fieldRef"])["fieldPath"] == "metadata.namespace"
	}
}

func onlyItem(v any) map[string]any {
	items, _ := v.([]any)
	if len(items) != 1 {
		return nil
	}
	return objectOf(items[0])
}

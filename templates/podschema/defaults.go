package podschema

import (
	"encoding/json"
	"strings"
)

// fixed has the API's defaults for fields of a pod, and the zero values of fields that the API omits when it
// writes a pod. Both look the same as an absent field. They come from k8s.io/kubernetes
// (pkg/apis/core/v1/defaults.go and zz_generated.defaults.go), which cannot be imported. Types are shared: an
// entry for containers holds for init containers, too, and an entry for one probe for all. Tests compare the
// table with testdata/defaults, which the code of each supported Kubernetes version wrote.
var fixed = map[string]any{
	"spec.dnsPolicy":                     "ClusterFirst",
	"spec.restartPolicy":                 "Always",
	"spec.schedulerName":                 "default-scheduler",
	"spec.securityContext":               map[string]any{},
	"spec.terminationGracePeriodSeconds": json.Number("30"),
	"spec.enableServiceLinks":            true,
	"spec.hostNetwork":                   false,
	"spec.hostPID":                       false,
	"spec.hostIPC":                       false,

	"spec.containers[].terminationMessagePath":                   "/dev/termination-log",
	"spec.containers[].terminationMessagePolicy":                 "File",
	"spec.containers[].resources":                                map[string]any{},
	"spec.containers[].stdin":                                    false,
	"spec.containers[].stdinOnce":                                false,
	"spec.containers[].tty":                                      false,
	"spec.containers[].ports[].protocol":                         "TCP",
	"spec.containers[].ports[].hostPort":                         json.Number("0"),
	"spec.containers[].volumeMounts[].readOnly":                  false,
	"spec.containers[].env[].valueFrom.fieldRef.apiVersion":      "v1",
	"spec.containers[].env[].valueFrom.fileKeyRef.optional":      false,
	"spec.containers[].env[].valueFrom.resourceFieldRef.divisor": "0",

	"spec.containers[].livenessProbe.initialDelaySeconds": json.Number("0"),
	"spec.containers[].livenessProbe.timeoutSeconds":      json.Number("1"),
	"spec.containers[].livenessProbe.periodSeconds":       json.Number("10"),
	"spec.containers[].livenessProbe.successThreshold":    json.Number("1"),
	"spec.containers[].livenessProbe.failureThreshold":    json.Number("3"),
	"spec.containers[].livenessProbe.httpGet.path":        "/",
	"spec.containers[].livenessProbe.httpGet.scheme":      "HTTP",
	"spec.containers[].livenessProbe.grpc.service":        "",

	"spec.volumes[].hostPath.type":                                             "",
	"spec.volumes[].secret.defaultMode":                                        json.Number("420"),
	"spec.volumes[].configMap.defaultMode":                                     json.Number("420"),
	"spec.volumes[].downwardAPI.defaultMode":                                   json.Number("420"),
	"spec.volumes[].projected.defaultMode":                                     json.Number("420"),
	"spec.volumes[].projected.sources[].serviceAccountToken.expirationSeconds": json.Number("3600"),
	"spec.volumes[].persistentVolumeClaim.readOnly":                            false,
	"spec.volumes[].nfs.readOnly":                                              false,
	"spec.volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode":             "Filesystem",
	"spec.volumes[].iscsi.iscsiInterface":                                      "default",
	"spec.volumes[].iscsi.readOnly":                                            false,
	"spec.volumes[].rbd.pool":                                                  "rbd",
	"spec.volumes[].rbd.user":                                                  "admin",
	"spec.volumes[].rbd.keyring":                                               "/etc/ceph/keyring",
	"spec.volumes[].azureDisk.cachingMode":                                     "ReadWrite",
	"spec.volumes[].azureDisk.fsType":                                          "ext4",
	"spec.volumes[].azureDisk.readOnly":                                        false,
	"spec.volumes[].azureDisk.kind":                                            "Shared",
	"spec.volumes[].awsElasticBlockStore.partition":                            json.Number("0"),
	"spec.volumes[].awsElasticBlockStore.readOnly":                             false,
	"spec.volumes[].azureFile.readOnly":                                        false,
	"spec.volumes[].cephfs.readOnly":                                           false,
	"spec.volumes[].cinder.readOnly":                                           false,
	"spec.volumes[].fc.readOnly":                                               false,
	"spec.volumes[].flexVolume.readOnly":                                       false,
	"spec.volumes[].gcePersistentDisk.partition":                               json.Number("0"),
	"spec.volumes[].gcePersistentDisk.readOnly":                                false,
	"spec.volumes[].glusterfs.readOnly":                                        false,
	"spec.volumes[].iscsi.chapAuthDiscovery":                                   false,
	"spec.volumes[].iscsi.chapAuthSession":                                     false,
	"spec.volumes[].portworxVolume.readOnly":                                   false,
	"spec.volumes[].quobyte.readOnly":                                          false,
	"spec.volumes[].rbd.readOnly":                                              false,
	"spec.volumes[].scaleIO.readOnly":                                          false,
	"spec.volumes[].scaleIO.sslEnabled":                                        false,
	"spec.volumes[].storageos.readOnly":                                        false,
	"spec.volumes[].scaleIO.storageMode":                                       "ThinProvisioned",
	"spec.volumes[].scaleIO.fsType":                                            "xfs",
}

// derived are the defaults that depend on the object around the field.
var derived = map[string]func(object map[string]any) any{
	"spec.containers[].imagePullPolicy": func(c map[string]any) any { return pullPolicy(c["image"]) },
	"spec.volumes[].image.pullPolicy":   func(s map[string]any) any { return pullPolicy(s["reference"]) },
	"spec.volumes[].emptyDir":           onlySource,
}

// setDefault sets the default of a field.
func setDefault(pod *Type, path string, value func(object map[string]any) any) {
	object, name := fieldAt(pod, path)
	if object.means.defaults == nil {
		object.means.defaults = map[string]func(map[string]any) any{}
	}
	object.means.defaults[name] = value
}

// fieldAt returns the object and the name of the field at a path of the schema.
func fieldAt(pod *Type, path string) (object *Type, name string) {
	typeAt(pod, path) // panics for an unknown path
	i := strings.LastIndexByte(path, '.')
	return typeAt(pod, path[:i]), path[i+1:]
}

// WithDefaults returns a copy of a pod with the API's defaults in absent fields, as webhooks get it.
func WithDefaults(pod map[string]any) map[string]any {
	filled, _ := withDefaults(Pod(), pod).(map[string]any)
	return filled
}

func withDefaults(t *Type, v any) any {
	if t == nil {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		filled := make(map[string]any, len(v))
		for name, value := range v {
			filled[name] = withDefaults(t.Child(name), value)
		}
		for name, byDefault := range t.means.defaults {
			if filled[name] != nil {
				continue
			}
			if value := byDefault(v); value != nil {
				filled[name] = value
			}
		}
		if resources, ok := filled["resources"].(map[string]any); ok && t.IsContainer() {
			filled["resources"] = withImpliedRequests(t.Child("resources"), resources)
		}
		return filled
	case []any:
		filled := make([]any, len(v))
		for i, item := range v {
			filled[i] = withDefaults(t.Elem(), item)
		}
		return filled
	}
	return v
}

// IsDefault reports whether the object's field has the API's default, or a value that equals its absence.
func IsDefault(t *Type, name string, object map[string]any) bool {
	return WouldBeDefault(t, object, name, object[name])
}

// WouldBeDefault reports whether that value in the object's field would equal the field's absence.
func WouldBeDefault(t *Type, object map[string]any, name string, value any) bool {
	ft := t.Child(name)
	if t == nil || ft == nil || t.Kind() == Map {
		return false
	}
	// A default never depends on its own field.
	if d, ok := t.means.defaults[name]; ok {
		if want := d(object); want != nil && Equal(ft, want, value) {
			return true
		}
	}
	return IsEmpty(ft, name, value)
}

// IsEmpty reports whether the API omits the value when it writes a pod.
func IsEmpty(t *Type, name string, value any) bool {
	switch v := value.(type) {
	case string:
		// An empty class is a value: it means no default class.
		return v == "" && name != "storageClassName"
	case []any:
		return len(v) == 0 && t.Kind() == List
	case map[string]any:
		return len(v) == 0 && t.Kind() == Map
	default:
		return false
	}
}

// pullPolicy returns Always for the tag latest, explicit or implied.
func pullPolicy(image any) any {
	name, _ := image.(string)
	name, _, digest := strings.Cut(name, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	} else if name != "" && !digest {
		tag = "latest"
	}
	if tag == "latest" {
		return "Always"
	}
	return "IfNotPresent"
}

// onlySource returns the source of a volume that has none.
func onlySource(volume map[string]any) any {
	for name, source := range volume {
		if name != "name" && name != "emptyDir" && source != nil {
			return nil
		}
	}
	return map[string]any{}
}

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	names "k8s.io/apimachinery/pkg/util/validation"
)

// values are the allowed words of fields in which people mistype. They are a small part of the API server's
// checks, and only lint's rule api reads them.
var values = map[string]string{
	"spec.dnsPolicy":                                   "ClusterFirst ClusterFirstWithHostNet Default None",
	"spec.restartPolicy":                               "Always Never OnFailure",
	"spec.securityContext.seccompProfile.type":         "Localhost RuntimeDefault Unconfined",
	"spec.tolerations.effect":                          "NoExecute NoSchedule PreferNoSchedule",
	"spec.topologySpreadConstraints.whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
	"spec.volumes.hostPath.type":                       "BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket",
	"spec.any.imagePullPolicy":                         "Always IfNotPresent Never",
	"spec.any.restartPolicy":                           "Always Never OnFailure",
	"spec.any.terminationMessagePolicy":                "FallbackToLogsOnError File",
	"spec.any.ports.protocol":                          "SCTP TCP UDP",
	"spec.any.securityContext.seccompProfile.type":     "Localhost RuntimeDefault Unconfined",
	"spec.any.volumeMounts.mountPropagation":           "Bidirectional HostToContainer None",
	"spec.any.probe.httpGet.scheme":                    "HTTP HTTPS",
}

// unique are fields that no two items of a list may share.
var unique = []string{"spec.volumes.name", "spec.any.ports.name", "spec.any.volumeMounts.mountPath"}

// keyed are the maps whose keys are qualified names. All but annotations have values of a label's form.
var keyed = [][]string{{"metadata", "annotations"}, {"metadata", "labels"}, {"spec", "nodeSelector"}}

// general are the names of fields that stand for others in values and unique.
var general = map[string]string{
	"containers": "any", "initContainers": "any", "livenessProbe": "probe", "readinessProbe": "probe", "startupProbe": "probe",
}

// mistake is a value that the API does not allow, with its field.
type mistake struct{ rule, field, message string }

// mistakesOf returns the keys and values of a pod that the tables do not allow, and the mounts without a volume.
func mistakesOf(pod map[string]any) []mistake {
	spec, _ := pod["spec"].(map[string]any)
	f := finder{volumes: map[string]bool{}}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		fields, _ := v.(map[string]any)
		name, _ := fields["name"].(string)
		f.volumes[name] = true
	}
	f.search("spec", "spec", spec)
	for _, path := range keyed {
		f.mistakes = append(f.mistakes, keyMistakes(pod, path)...)
	}
	return f.mistakes
}

// keyMistakes returns the keys of a map of the pod, and the values of labels, that the API does not allow.
func keyMistakes(pod map[string]any, path []string) []mistake {
	rule := strings.Join(path, ".")
	entries, _, err := unstructured.NestedStringMap(pod, path...)
	if err != nil {
		return nil // the pod's types say so
	}
	var found []mistake
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		field, name := fmt.Sprintf("%s[%s]", rule, key), key
		if rule == "metadata.annotations" {
			name = strings.ToLower(key) // as the API does
		}
		if len(names.IsQualifiedName(name)) > 0 {
			found = append(found, mistake{rule, field, fmt.Sprintf("the key %q is not allowed; a key is NAME or DOMAIN/NAME, and NAME at most 63 letters, digits, '-', '_' and '.', the first and the last a letter or a digit", key)})
		}
		if rule != "metadata.annotations" && len(names.IsValidLabelValue(entries[key])) > 0 {
			found = append(found, mistake{rule, field, fmt.Sprintf("the value %q is not allowed; it has at most 63 letters, digits, '-', '_' and '.', the first and the last a letter or a digit", entries[key])})
		}
	}
	return found
}

type finder struct {
	volumes  map[string]bool
	mistakes []mistake
}

// search looks at a part of a pod. Rule is its field as the tables have it.
func (f *finder) search(rule, field string, part any) {
	add := func(rule, field, format string, args ...any) {
		f.mistakes = append(f.mistakes, mistake{rule, field, fmt.Sprintf(format, args...)})
	}
	switch part := part.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(part)) {
			f.search(rule+"."+cmp.Or(general[key], key), field+"."+key, part[key])
		}
	case []any:
		seen := map[string]bool{}
		for i, item := range part {
			at := fmt.Sprintf("%s[%d]", field, i)
			f.search(rule, at, item)
			fields, _ := item.(map[string]any)
			for _, u := range unique {
				key, ok := strings.CutPrefix(u, rule+".")
				value, is := fields[key].(string)
				if ok && is && seen[u+value] {
					add(u, at+"."+key, "%q stands twice", value)
				}
				seen[u+value] = seen[u+value] || ok && is
			}
		}
	default:
		word, _ := part.(string)
		if allowed := values[rule]; allowed != "" && word != "" && !slices.Contains(strings.Fields(allowed), word) {
			add(rule, field, "%s is not allowed; allowed are %s", word, strings.ReplaceAll(allowed, " ", ", "))
		}
		if name, ok := part.(string); ok && rule == "spec.any.volumeMounts.name" && !f.volumes[name] {
			add(rule, field, "there is no volume %q: declare it in spec.inject.spec.volumes. If pods bring it along, keep other pods away by a matchCondition or a validation, and give lint one that has it with --pod", name)
		}
	}
}

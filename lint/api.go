package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// values are the allowed values of fields in which people mistype, as words or as A..B. They are a small
// part of the API server's checks, and only lint's rule api reads them.
var values = map[string]string{
	"spec.dnsPolicy":                                   "ClusterFirst ClusterFirstWithHostNet Default None",
	"spec.restartPolicy":                               "Always Never OnFailure",
	"spec.securityContext.seccompProfile.type":         "Localhost RuntimeDefault Unconfined",
	"spec.tolerations.effect":                          "NoExecute NoSchedule PreferNoSchedule",
	"spec.topologySpreadConstraints.maxSkew":           "1..2147483647",
	"spec.topologySpreadConstraints.whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
	"spec.affinity.nodeAffinity.preferred.weight":      "1..100",
	"spec.affinity.podAffinity.preferred.weight":       "1..100",
	"spec.affinity.podAntiAffinity.preferred.weight":   "1..100",
	"spec.volumes.hostPath.type":                       "BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket",
	"spec.any.imagePullPolicy":                         "Always IfNotPresent Never",
	"spec.any.restartPolicy":                           "Always Never OnFailure",
	"spec.any.terminationMessagePolicy":                "FallbackToLogsOnError File",
	"spec.any.ports.containerPort":                     "1..65535",
	"spec.any.ports.hostPort":                          "0..65535",
	"spec.any.ports.protocol":                          "SCTP TCP UDP",
	"spec.any.securityContext.seccompProfile.type":     "Localhost RuntimeDefault Unconfined",
	"spec.any.volumeMounts.mountPropagation":           "Bidirectional HostToContainer None",
	"spec.any.lifecycle.preStop.sleep.seconds":         "0..9223372036854775807",
	"spec.any.probe.httpGet.scheme":                    "HTTP HTTPS",
	"spec.any.probe.initialDelaySeconds":               "0..2147483647",
	"spec.any.probe.timeoutSeconds":                    "0..2147483647",
	"spec.any.probe.periodSeconds":                     "0..2147483647",
	"spec.any.probe.successThreshold":                  "0..2147483647",
	"spec.any.probe.failureThreshold":                  "0..2147483647",
}

// unique are fields that no two items of a list may share.
var unique = []string{"spec.volumes.name", "spec.any.ports.name", "spec.any.volumeMounts.mountPath"}

// general are the names of fields that stand for others in values and unique.
var general = map[string]string{
	"containers": "any", "initContainers": "any", "livenessProbe": "probe", "readinessProbe": "probe", "startupProbe": "probe",
	"preferredDuringSchedulingIgnoredDuringExecution": "preferred",
}

// mistake is a value that the API does not allow, with its field.
type mistake struct{ rule, field, message string }

// mistakesOf returns the values of a pod that the tables do not allow, and the mounts without a volume.
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
	return f.mistakes
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
		if allowed := values[rule]; allowed != "" && !allows(allowed, part) {
			add(rule, field, "%v is not allowed; allowed are %s", part, strings.ReplaceAll(allowed, " ", ", "))
		}
		if name, ok := part.(string); ok && rule == "spec.any.volumeMounts.name" && !f.volumes[name] {
			add(rule, field, "there is no volume %q: declare it in spec.inject.spec.volumes. If pods bring it along, keep other pods away by a matchCondition or a validation, and give lint one that has it with --pod", name)
		}
	}
}

// allows reports whether a value is one of some words, or in a range. The decoder finds values of another
// type.
func allows(allowed string, value any) bool {
	number, isNumber := value.(json.Number)
	least, most, isRange := strings.Cut(allowed, "..")
	if !isRange {
		text, isText := value.(string)
		return !isText || text == "" || slices.Contains(strings.Fields(allowed), text)
	}
	n, err := number.Int64()
	var from, to int64
	_, _ = fmt.Sscan(least, &from)
	_, _ = fmt.Sscan(most, &to)
	return !isNumber || err != nil || from <= n && n <= to
}

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates/directive"
)

const rolledOut = "a template does not update running pods: 'pillion rollout TEMPLATE --in-place' does, in waves"

// sidecarSetFields are those of SidecarSetSpec, in apis/apps/v1alpha1 and v1beta1 of kruise.
var sidecarSetFields = map[string]rule{
	"selector": selects("podSelector"),
	"namespace": {take: func(d *draft, _ string, value any) {
		d.inNamespaces("In", []any{value})
	}},
	"namespaceSelector": {take: func(d *draft, _ string, value any) {
		if names := listAt(value, "namespaces"); len(names) > 0 {
			d.inNamespaces("In", names)
		}
		d.restrict("namespaceSelector", value)
	}},
	"containers":       {take: (*draft).sidecarContainers},
	"initContainers":   {take: (*draft).sidecarContainers},
	"volumes":          to("inject", "spec", "volumes"),
	"imagePullSecrets": to("inject", "spec", "imagePullSecrets"),
	"injectionStrategy": {take: func(d *draft, at string, value any) {
		d.fields(objectAt(value), at+".", map[string]rule{
			"paused":   to("suspend"),
			"revision": {left: "the newest version of a template is in force: keep older ones in git"},
		})
	}},
	"patchPodMetadata":     {take: (*draft).patchPodMetadata},
	"updateStrategy":       {left: rolledOut},
	"revisionHistoryLimit": {left: "templates have no history: keep it in git"},
	"customVersion":        {left: "templates have no versions: keep them in git"},
}

// sidecarSet reads a SidecarSet of OpenKruise.
func (i *importer) sidecarSet(o map[string]any) {
	d := i.draft(workload.NameOf(o), textAt(o, "metadata", "name"))
	d.put(map[string]any{}, "match")
	d.fields(objectAt(o, "spec"), "spec.", sidecarSetFields)
	d.finish()
}

// sidecarContainers carries containers over, with what SidecarContainer has besides those of pods.
func (d *draft) sidecarContainers(at string, value any) {
	list := strings.TrimPrefix(at, "spec.")
	for i, item := range listAt(value) {
		at := fmt.Sprintf("%s[%d]", at, i)
		container, more := maps.Clone(objectAt(item)), map[string]any{}
		if policy := textAt(container, "podInjectPolicy"); policy != "AfterAppContainer" && list == "containers" {
			more[directive.Position] = "First"
		}
		if textAt(container, "upgradeStrategy", "upgradeType") == "HotUpgrade" {
			d.leave(at+".upgradeStrategy", "two containers that take turns have no counterpart: "+rolledOut)
		}
		if textAt(container, "shareVolumePolicy", "type") == "enabled" {
			mounts, _ := d.data(container["volumeMounts"], at)
			own, _ := mounts.([]any)
			more["volumeMounts"] = append([]any{map[string]any{
				directive.For: "m in pod.spec.containers.map(c, c.?volumeMounts.orValue([])).flatten().filter(m, !m.mountPath.startsWith('/var/run/secrets/'))",
				"name":        "${m.name}", "mountPath": "${m.mountPath}",
			}}, own...)
		}
		if transferred := listAt(container, "transferEnv"); len(transferred) > 0 {
			d.transferEnv(transferred, container, more, at)
		}
		for _, field := range []string{"podInjectPolicy", "upgradeStrategy", "shareVolumePolicy", "shareVolumeDevicePolicy", "transferEnv"} {
			delete(container, field)
		}
		d.container(list, container, at, more)
	}
}

// transferEnv carries variables over that a sidecar takes from a container of the pod.
func (d *draft) transferEnv(transferred []any, container, more map[string]any, at string) {
	env, _ := d.data(container["env"], at)
	items, _ := env.([]any)
	for i, t := range transferred {
		from, names := textAt(t, "sourceContainerName"), listAt(t, "envNames")
		if name := textAt(t, "envName"); name != "" {
			names = append(slices.Clone(names), name)
		}
		if from == "" || len(names) == 0 {
			d.hold(fmt.Sprintf("%s.transferEnv[%d]", at, i), "the container is named by a field of the pod: write the item with $for over pod.spec.containers")
			continue
		}
		for _, name := range names {
			items = append(items, map[string]any{
				directive.For: fmt.Sprintf("e in pod.spec.containers.filter(c, c.name == %q).map(c, c.?env.orValue([])).flatten().filter(e, e.name == %q)", from, name),
				"name":        name, "value": "${e.?value}", "valueFrom": "${e.?valueFrom}",
			})
		}
	}
	if len(items) > 0 {
		more["env"] = items
	}
}

func (d *draft) patchPodMetadata(at string, value any) {
	for i, item := range listAt(value) {
		at := fmt.Sprintf("%s[%d]", at, i)
		policy := textAt(item, "patchPolicy")
		if policy == "MergePatchJson" {
			d.hold(at, "annotations that are merged as JSON have no counterpart: write the whole value, with ${toJson(…)} over pod.metadata.annotations")
			continue
		}
		d.overwrite = policy == "Overwrite"
		d.marks("annotations", d.object(objectAt(item)["annotations"], at+".annotations"), at+".annotations")
	}
	d.overwrite = false
}

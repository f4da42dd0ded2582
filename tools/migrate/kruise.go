package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/directive"
)

const rolledOut = "a template does not update running pods: 'pillion rollout TEMPLATE --in-place' does"

// sidecarSetFields are those of SidecarSetSpec, in apis/apps/v1alpha1 and v1beta1 of kruise.
var sidecarSetFields = map[string]rule{
	"selector": selects("podSelector"),
	"namespace": {apply: func(d *draft, _ string, value any) {
		d.inNamespaces("In", []any{value})
	}},
	"namespaceSelector": {apply: func(d *draft, _ string, value any) {
		if names := listAt(value, "namespaces"); len(names) > 0 {
			d.inNamespaces("In", names)
		}
		d.restrict("namespaceSelector", value)
	}},
	"containers":       {apply: (*draft).sidecarContainers},
	"initContainers":   {apply: (*draft).sidecarContainers},
	"volumes":          to("inject", "spec", "volumes"),
	"imagePullSecrets": to("inject", "spec", "imagePullSecrets"),
	"injectionStrategy": {apply: func(d *draft, at string, value any) {
		d.fields(objectAt(value), at+".", map[string]rule{
			"paused":   to("suspend"),
			"revision": {omission: "the newest version of a template is in force: keep older ones in git"},
		})
	}},
	"patchPodMetadata":     {apply: (*draft).patchPodMetadata},
	"updateStrategy":       {omission: rolledOut},
	"revisionHistoryLimit": {omission: "templates have no history: keep it in git"},
	"customVersion":        {omission: "templates have no versions: keep them in git"},
}

// sidecarSet reads a SidecarSet of OpenKruise.
func (i *importer) sidecarSet(o map[string]any) {
	d := i.draft(workload.NameOf(o), textAt(o, "metadata", "name"))
	d.set(map[string]any{}, "match")
	if len(objectAt(o, "spec", "selector")) == 0 {
		d.suspend("spec.selector", "selects no pods there: write match")
	}
	d.fields(objectAt(o, "spec"), "spec.", sidecarSetFields)
	d.finish()
}

// sidecarContainers carries containers over, with what SidecarContainer has besides those of pods.
func (d *draft) sidecarContainers(at string, value any) {
	list := strings.TrimPrefix(at, "spec.")
	for i, item := range d.list(value, at) {
		at := fmt.Sprintf("%s[%d]", at, i)
		container, more := maps.Clone(objectAt(item)), map[string]any{}
		if policy := textAt(container, "podInjectPolicy"); policy != "AfterAppContainer" && list == "containers" {
			more[directive.Position] = "First"
		}
		if textAt(container, "upgradeStrategy", "upgradeType") == "HotUpgrade" {
			d.addNote(at+".upgradeStrategy", "two containers that take turns have no counterpart: "+rolledOut)
		}
		if textAt(container, "shareVolumePolicy", "type") == "enabled" {
			d.addNote(at+".shareVolumePolicy", "a mount with subPathExpr reads variables of the sidecar: list in its env those that it names")
			more["volumeMounts"] = d.shared(container, at, "volumeMounts", "mountPath", "readOnly", "recursiveReadOnly", "subPath", "subPathExpr", "mountPropagation")
		}
		if textAt(container, "shareVolumeDevicePolicy", "type") == "enabled" {
			more["volumeDevices"] = d.shared(container, at, "volumeDevices", "devicePath")
		}
		if transferred := d.list(container["transferEnv"], at+".transferEnv"); len(transferred) > 0 {
			d.transferEnv(transferred, container, more, at)
		}
		for _, field := range []string{"podInjectPolicy", "upgradeStrategy", "shareVolumePolicy", "shareVolumeDevicePolicy", "transferEnv"} {
			delete(container, field)
		}
		d.container(list, container, at, more)
	}
}

// shared returns a container's own mounts or devices, and those of the pod's containers at other
// paths. Each path is taken once, from the first container that has it.
func (d *draft) shared(container map[string]any, at, list, path string, fields ...string) []any {
	data, _ := d.data(container[list], at+"."+list)
	own, _ := data.([]any)
	all := fmt.Sprintf("pod.spec.containers.map(c, c.?%s.orValue([])).flatten()", list)
	others := "!p.startsWith('/var/run/secrets/')"
	for _, item := range own {
		others += fmt.Sprintf(" && p != %q", textAt(item, path))
	}
	item := map[string]any{
		directive.For: fmt.Sprintf("m in %s.map(m, m.%s).distinct().filter(p, %s).map(p, %[1]s.filter(m, m.%[2]s == p)[0])", all, path, others),
		"name":        "${m.name}", path: fmt.Sprintf("${m.%s}", path),
	}
	for _, field := range fields {
		item[field] = fmt.Sprintf("${m.?%s}", field)
	}
	return append([]any{item}, own...)
}

// transferEnv carries variables over that a sidecar takes from a container of the pod.
func (d *draft) transferEnv(transferred []any, container, more map[string]any, at string) {
	env, _ := d.data(container["env"], at)
	items, _ := env.([]any)
	taken := map[string]bool{}
	for _, item := range items {
		taken[textAt(item, "name")] = true
	}
	for i, t := range transferred {
		from, names := textAt(t, "sourceContainerName"), listAt(t, "envNames")
		if name := textAt(t, "envName"); name != "" {
			names = append(slices.Clone(names), name)
		}
		if from == "" || len(names) == 0 {
			d.suspend(fmt.Sprintf("%s.transferEnv[%d]", at, i), "the container is named by a field of the pod: write the item with $for over pod.spec.containers")
			continue
		}
		for _, name := range names {
			if taken[fmt.Sprint(name)] {
				continue
			}
			taken[fmt.Sprint(name)] = true
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
	for i, item := range d.list(value, at) {
		at := fmt.Sprintf("%s[%d]", at, i)
		policy := textAt(item, "patchPolicy")
		if policy == "MergePatchJson" {
			d.suspend(at, "annotations that are merged as JSON have no counterpart: write the whole value, with ${toJson(…)} over pod.metadata.annotations")
			continue
		}
		d.overwrite = policy == "Overwrite"
		d.marks("annotations", d.object(objectAt(item)["annotations"], at+".annotations"), at+".annotations")
	}
	d.overwrite = false
}

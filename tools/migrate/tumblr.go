package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/directive"
)

// tumblrFields are those of InjectionConfig, in internal/pkg/config of k8s-sidecar-injector.
var tumblrFields = map[string]rule{
	"name":           {},
	"inherits":       {suspension: "one file builds on another: copy what that one has into this one, and import it again"},
	"containers":     to("inject", "spec", "containers"),
	"initContainers": to("inject", "spec", "initContainers"),
	"volumes":        to("inject", "spec", "volumes"),
	"hostAliases":    {apply: (*draft).hostAliases},
	"env":            {},
	"volumeMounts":   {},
	"serviceAccountName": {apply: func(d *draft, _ string, value any) {
		d.set(map[string]any{directive.OnConflict: directive.KeepPod, "value": value}, "inject", "spec", "serviceAccountName")
	}},
}

// tumblr reads a configuration of k8s-sidecar-injector.
func (i *importer) tumblr(o map[string]any) {
	name := strings.TrimSuffix(strings.TrimSuffix(textAt(o, "name"), ":latest"), ":")
	d := i.draft("k8s-sidecar-injector/"+textAt(o, "name"), strings.Replace(name, ":", "-", 1))
	d.fields(o, "", tumblrFields)
	app := map[string]any{directive.Each: "App"}
	for _, field := range []string{"env", "volumeMounts"} {
		data, _ := d.data(d.list(o[field], field), field)
		items, _ := data.([]any)
		if len(items) == 0 {
			continue
		}
		app[field] = items
		for _, list := range containerLists {
			for _, c := range listAt(d.spec, "inject", "spec", list) {
				container := objectAt(c)
				container[field] = withAbsent(listAt(container, field), items)
			}
		}
	}
	if len(app) > 1 {
		d.set([]any{app}, "inject", "spec", "containers")
	}
	d.finish()
	d.addNote("", "pods ask for it by the annotation injector.tumblr.com/request: "+textAt(o, "name")+"; for Pillion write pillion.dev/inject with the template's name, on the pod or on its namespace")
}

// withAbsent returns a list with those of more whose names no item has.
func withAbsent(list, more []any) []any {
	list = slices.Clone(list)
	for _, item := range more {
		if !slices.ContainsFunc(list, func(have any) bool { return textAt(have, "name") == textAt(item, "name") }) {
			list = append(list, item)
		}
	}
	return list
}

// hostAliases joins the names of one IP: a template has it once.
func (d *draft) hostAliases(at string, value any) {
	names := map[string][]any{}
	for _, item := range d.list(value, at) {
		ip := textAt(item, "ip")
		names[ip] = append(names[ip], listAt(item, "hostnames")...)
	}
	for _, ip := range slices.Sorted(maps.Keys(names)) {
		d.set([]any{map[string]any{"ip": ip, "hostnames": names[ip]}}, "inject", "spec", "hostAliases")
	}
}

// configMap reads the entries of a ConfigMap: Istio's configuration, or that of
// k8s-sidecar-injector.
func (i *importer) configMap(o map[string]any) {
	data, found := objectAt(o, "data"), false
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text, _ := data[key].(string)
		documents, err := workload.Parse([]byte(text))
		if err != nil {
			i.noteAbout(workload.NameOf(o), "data."+key, fmt.Sprintf("is no YAML that can be read: %v", err))
			continue
		}
		for _, d := range documents {
			if d.Object["name"] != nil || d.Object["templates"] != nil || d.Object["sidecarInjectorWebhook"] != nil {
				found = true
				i.object(d.Object)
			}
		}
	}
	if !found {
		i.noteAbout(workload.NameOf(o), "", "has no configuration of an injector in its data")
	}
}

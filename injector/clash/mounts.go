package clash

import (
	"fmt"
	"path"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// mounts finds two mounts of one directory, written in two ways, in the containers of these
// names: the later one would hide the other. Of two that are written the same way the merge
// leaves one.
func (f *finder) mounts(names map[string]bool) *Error {
	if len(names) == 0 {
		return nil
	}
	id, _ := podschema.At("spec.containers[].volumeMounts").Identity()
	return f.containers(func(list, name string, container map[string]any, _ bool) *Error {
		if !names[name] || !mayClash(container) {
			return nil
		}
		there := map[string]holder{}
		see := func(of, written, key string) *Error {
			h := holder{list: list, container: name, key: key, templates: f.owners(list, name, of, key, "")}
			directory := path.Clean(written)
			first, have := there[directory]
			if !have || !first.ours() && !h.ours() {
				there[directory] = h
				return nil
			}
			if f.means(first, h, of, id) {
				return nil
			}
			return f.fault(first, h, "mountPath", written, fmt.Sprintf("%%s has something at %s, too, which would hide it or be hidden", podschema.Show(directory)), another)
		}
		for _, item := range items(container["volumeDevices"]) {
			if written, ok := object(item)["devicePath"].(string); ok {
				if e := see("volumeDevices", written, "devicePath="+written); e != nil {
					return e
				}
			}
		}
		for _, item := range items(container["volumeMounts"]) {
			key, ok := id.Key(item)
			written, text := object(item)["mountPath"].(string)
			if !ok || !text {
				continue
			}
			if e := see("volumeMounts", written, key); e != nil {
				return e
			}
		}
		return nil
	})
}

// mayClash reports whether two places of the container could be one: all paths of mounts
// differ, so one of them has to be written in an unusual way.
func mayClash(container map[string]any) bool {
	if len(items(container["volumeDevices"])) > 0 {
		return true
	}
	for _, item := range items(container["volumeMounts"]) {
		if written, ok := object(item)["mountPath"].(string); ok && path.Clean(written) != written {
			return true
		}
	}
	return false
}

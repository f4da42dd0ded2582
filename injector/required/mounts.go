package required

import (
	"path"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Mount is a container's mount of a volume, as a directory or as a block device.
type Mount struct {
	Volume, Path string
	list, key    string
	item         map[string]any
}

// MountsOf returns the volumeMounts and volumeDevices of a container.
func MountsOf(container map[string]any) []Mount {
	var mounts []Mount
	for _, of := range []struct{ list, path string }{{"volumeMounts", "mountPath"}, {"volumeDevices", "devicePath"}} {
		items, _ := container[of.list].([]any)
		for _, v := range items {
			item := podschema.ObjectOf(v)
			m := Mount{list: of.list, item: item}
			m.Volume, _ = item["name"].(string)
			m.Path, _ = item[of.path].(string)
			m.key = of.path + "=" + m.Path
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// segments returns the cleaned parts of the mount's path. The root has none. Runtimes mount paths with fewer
// parts first. So a mount can hide another one of the same path, or a part of one above it. Only a mount of the
// root may be later than others.
func (m Mount) segments() []string {
	clean := strings.Trim(path.Clean("/"+m.Path), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// The kubelet mounts a file of its own at this path, which the container may write.
const messagesField, messagesDefault = "terminationMessagePath", "/dev/termination-log"

// others compares the containers that no required template renders: they mount no volume that one renders,
// hide nothing that one mounts there, and refer to the variables that one sets there.
func (r *comparison) others() {
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, v := range podschema.ListOf(podschema.ObjectOf(r.result.Pod["spec"])[list]) {
			container := podschema.ObjectOf(v)
			name, _ := container["name"].(string)
			if r.ctx.Err() != nil {
				return
			}
			if !r.expected.own[list+"/name="+name] { // the others are compared field by field
				at := specPath.Field(list).Key("name=" + name)
				r.mountsOf(container, r.expected.mounts[name], at)
				r.variables(container, r.expected.variables[name], at)
			}
		}
	}
}

// requiredMount is a mount that a required template wants.
type requiredMount struct {
	Mount
	template string
}

// directory has what required templates mount at a path and below it.
type directory struct {
	mounts []requiredMount
	below  map[string]*directory
}

func (r *comparison) mountsOf(container map[string]any, wanted map[string]string, at *podschema.Path) {
	var root directory
	var first requiredMount // the first that a template mounts below the root
	var others []Mount
	for _, m := range MountsOf(container) {
		template := wanted[m.list+"/"+m.key]
		if template == "" {
			others = append(others, m)
			continue
		}
		g := requiredMount{m, template}
		d := &root
		for _, segment := range m.segments() {
			if d.below == nil {
				d.below = map[string]*directory{}
			}
			if d.below[segment] == nil {
				d.below[segment] = &directory{}
			}
			d = d.below[segment]
		}
		for _, same := range d.mounts {
			r.hidden(same, m, at)
		}
		d.mounts = append(d.mounts, g)
		if d != &root && first.template == "" {
			first = g
		}
	}
	for _, m := range others {
		here := at.Field(m.list).Key(m.key)
		if r.isToken(m.item) {
			continue
		}
		if template := r.expected.volumes[m.Volume]; template != "" && !r.allowed[template].AllowsMount(m.Path) {
			r.differs(template, here, mountsVolume, m.Volume)
			continue
		}
		r.hides(m, &root, first, at, here)
	}
	if messages, _ := container[messagesField].(string); messages != "" && messages != messagesDefault && wanted[messagesField] == "" {
		r.hides(Mount{Path: messages}, &root, first, at, at.Field(messagesField))
	}
}

// hides finds what required templates mount where a mount of others stands, above it and, for the root,
// below it. The container is at the place at, and the mount here.
func (r *comparison) hides(m Mount, d *directory, first requiredMount, at, here *podschema.Path) {
	segments := m.segments()
	if len(segments) == 0 && first.template != "" {
		r.differs(first.template, here, hidesMount, podschema.Clip(first.Path))
		return
	}
	for i := 0; d != nil; i++ {
		for _, g := range d.mounts {
			switch {
			case i == len(segments):
				r.hidden(g, m, at)
			case !r.allowed[g.template].AllowsMount(m.Path):
				r.differs(g.template, here, hidesPart, podschema.Clip(g.Path))
			}
		}
		if i == len(segments) {
			return
		}
		d = d.below[segments[i]]
	}
}

// hidden adds a difference for a mount of the same path in another spelling, which hides a template's mount.
func (r *comparison) hidden(g requiredMount, by Mount, at *podschema.Path) {
	r.differs(g.template, at.Field(g.list).Key(g.key), hiddenByMount, by.Path)
}

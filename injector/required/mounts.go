package required

import (
	"path"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Mount is what a container has of a volume, as a directory or as a block device.
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
			item := objectOf(v)
			m := Mount{list: of.list, item: item}
			m.Volume, _ = item["name"].(string)
			m.Path, _ = item[of.path].(string)
			m.key = of.path + "=" + m.Path
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// segments returns the parts of the path that a mount means, none for the root. Runtimes
// mount what has fewer parts first, so that a mount is hidden by one of the same path, and
// a part of it by one below. Only the root may come after others.
func (m Mount) segments() []string {
	clean := strings.Trim(path.Clean("/"+m.Path), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// mounts finds mounts, in containers that no required template renders, of volumes that one
// renders, and those that hide what one mounts there.
func (c *comparison) mounts(spec *merge.Change) {
	volumes := map[string]string{} // by name: the required template that renders it
	for key, name := range c.wanted(spec.Child("volumes")) {
		volumes[strings.TrimPrefix(key, "name=")] = name
	}
	podSpec := objectOf(c.pod["spec"])
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, _ := podSpec[list].([]any)
		for _, v := range containers {
			if c.interrupted() {
				return
			}
			container := objectOf(v)
			name, _ := container["name"].(string)
			change := spec.Child(list).Child("name=" + name)
			if change != nil && change.Desired() != nil && c.template(change) != "" {
				continue // a sidecar of a required template, which is compared field by field
			}
			c.mountsOf(container, change, volumes, []string{"spec", list, "name=" + name})
		}
	}
}

// wanted returns the keys of the items that required templates want in a list, each with
// its template.
func (c *comparison) wanted(list *merge.Change) map[string]string {
	items := map[string]string{}
	if list == nil {
		return items
	}
	for key, change := range list.In {
		if desired := change.Desired(); desired != nil && !desired.Gone {
			if template := c.template(change); template != "" {
				items[key] = template
			}
		}
	}
	return items
}

// given is a mount that a required template wants.
type given struct {
	Mount
	template string
}

// directory has what required templates mount at a path and below it.
type directory struct {
	mounts []given
	below  map[string]*directory
}

func (c *comparison) mountsOf(container map[string]any, change *merge.Change, volumes map[string]string, at []string) {
	wanted := map[string]map[string]string{"volumeMounts": c.wanted(change.Child("volumeMounts")), "volumeDevices": c.wanted(change.Child("volumeDevices"))}
	var root directory
	var first given // the first that a template mounts below the root
	var others []Mount
	for _, m := range MountsOf(container) {
		template := wanted[m.list][m.key]
		if template == "" {
			others = append(others, m)
			continue
		}
		g := given{m, template}
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
			c.hidden(same, m, at)
		}
		d.mounts = append(d.mounts, g)
		if d != &root && first.template == "" {
			first = g
		}
	}
	for _, m := range others {
		here := append(at[:len(at):len(at)], m.list, m.key)
		if c.isToken(m.item) {
			continue
		}
		if template := volumes[m.Volume]; template != "" && !c.allowed(template).AllowsMount(m.Path) {
			c.differs(template, here, false,
				"mounts the volume %s, which is the template's: mount another volume (spec.verify.allow.volumeMounts of the template can allow the path)", m.Volume)
			continue
		}
		c.hides(m, &root, first, at, here)
	}
	// The kubelet mounts a file of its own there, which the container may write.
	const field, byDefault = "terminationMessagePath", "/dev/termination-log"
	if messages, _ := container[field].(string); messages != "" && messages != byDefault && c.template(change.Child(field)) == "" {
		c.hides(Mount{Path: messages}, &root, first, at, append(at[:len(at):len(at)], field))
	}
}

// hides finds what required templates mount where a mount of others stands, above it and,
// for the root, below it. The container is at the place at, and the mount here.
func (c *comparison) hides(m Mount, d *directory, first given, at, here []string) {
	segments := m.segments()
	if len(segments) == 0 && first.template != "" {
		c.differs(first.template, here, false, "is above %s, and would hide the template's mount: mount it elsewhere", podschema.Clip(first.Path))
		return
	}
	for i := 0; d != nil; i++ {
		for _, g := range d.mounts {
			switch {
			case i == len(segments):
				c.hidden(g, m, at)
			case !c.allowed(g.template).AllowsMount(m.Path):
				c.differs(g.template, here, false,
					"is below %s, and would hide a part of the template's mount: mount it elsewhere (spec.verify.allow.volumeMounts of the template can allow the path)", podschema.Clip(g.Path))
			}
		}
		if i == len(segments) {
			return
		}
		d = d.below[segments[i]]
	}
}

// hidden notes a mount of the same path, written another way, over one that a template wants.
func (c *comparison) hidden(g given, by Mount, at []string) {
	c.differs(g.template, append(at[:len(at):len(at)], g.list, g.key), false, "is mounted over by a mount at %q", by.Path)
}

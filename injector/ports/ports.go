// Package ports finds a port that a template's container and another container of the pod both open.
//
// In: the pod that a template was merged into, and its fragment. Out: a [Clash]. The containers of a pod
// share their ports, except for init containers that end before the app begins.
//
// May import: merge, templates/fragment, templates/podschema, templates/directive.
package ports

import (
	"cmp"
	"fmt"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Clash is a port of a template that another container opens, too.
type Clash struct {
	Template string
	// Path is the template's port, and Port its number as text.
	Path *podschema.Path
	Port string
	// Container is the container with the other port. It belongs to the template Other, or to the pod if Other
	// is "".
	Container, Other string
	// Advice tells a team how to resolve the clash. Default: change one of the two ports.
	Advice string
}

func (c *Clash) Error() string {
	whose := "of the pod"
	if c.Other != "" {
		whose = "of template " + c.Other
	}
	advice := "change one of the two, or write $onConflict: Overwrite at the template's port if it is meant to take the port over"
	return fmt.Sprintf("template %s conflicts at %s: container %s %s has the port %s, too, and the containers of a pod share their ports; %s",
		c.Template, c.Path.Readable(), c.Container, whose, c.Port, cmp.Or(c.Advice, advice))
}

// port is a port of the pod.
type port struct {
	container, number string
	path              *podschema.Path
	// own is set for a port of the template, explicit if its $onConflict allows the clash.
	own, explicit bool
}

// Find returns the first clash of a port in the template's fragment, nil for none. Writers are the writes of
// the earlier templates.
func Find(template string, f *fragment.Node, pod map[string]any, w *merge.Writers) *Clash {
	own := ownPorts(f)
	if len(own) == 0 {
		return nil
	}
	id, _ := podschema.At("spec.containers[].ports").Identity()
	spec, _ := pod["spec"].(map[string]any)
	open := map[string]port{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, container := range podschema.ObjectsIn(spec, list) {
			if list == "initContainers" && container["restartPolicy"] != "Always" {
				continue
			}
			name, _ := container["name"].(string)
			for _, fields := range podschema.ObjectsIn(container, "ports") {
				key, ok := id.Key(fields)
				if !ok {
					continue
				}
				p := port{container: name, path: (*podschema.Path)(nil).Field("spec").Field(list).Key("name=" + name).Field("ports").Key(key)}
				p.explicit, p.own = own[name+"/"+key]
				protocol, _ := fields["protocol"].(string)
				p.number = fmt.Sprintf("%v/%s", fields["containerPort"], cmp.Or(protocol, "TCP"))
				if c := clash(template, open, p, w); c != nil {
					return c
				}
			}
		}
	}
	return nil
}

// ownPorts returns the ports of a fragment by container and key, and whether each has an $onConflict that
// allows a clash.
func ownPorts(f *fragment.Node) map[string]bool {
	own := map[string]bool{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, it := range f.Field("spec", list).List() {
			name, _ := it.Field("name").JSON().(string)
			for _, p := range it.Field("ports").List() {
				own[name+"/"+p.Key] = p.Conflict == directive.Overwrite || p.Conflict == directive.KeepPod
			}
		}
	}
	return own
}

// clash compares a port with the earlier port of the same number. $onConflict resolves no clash with another
// template.
func clash(template string, open map[string]port, p port, w *merge.Writers) *Clash {
	first, taken := open[p.number]
	if !taken || p.own && !first.own {
		open[p.number] = p // the next port is compared with the template's, too
	}
	if !taken || first.container == p.container || !first.own && !p.own {
		return nil
	}
	at, other := p, first
	if !at.own {
		at, other = first, p
	}
	by := w.By(other.path.Segments())
	if other.own {
		by = template
	}
	if (at.explicit || other.explicit) && (by == "" || by == template) {
		return nil
	}
	return &Clash{Template: template, Path: at.path, Port: at.number, Container: other.container, Other: by}
}

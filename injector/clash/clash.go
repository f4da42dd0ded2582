package clash

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Error is a port that a container has from a template and another container has, too.
type Error struct {
	Template string
	// List and Container are where the template's port stands, and Item is its key there.
	List, Container, Item string
	// Port is its number, and Protocol its protocol.
	Port, Protocol string
	// Other is the other container. Authors is set where the pod's author wrote its port.
	Other   string
	Authors bool
	// Advice says what a team can do. Default: to change one of the two.
	Advice string
}

// Error names the place, the other container, and the way out.
func (e *Error) Error() string {
	advice, of := "change one of the two", "another template"
	if e.Authors {
		advice += ", or write $onConflict: Overwrite at the template's port if it is meant to take the port over"
		of = "the pod"
	}
	at := podschema.Readable([]string{"spec", e.List, "name=" + e.Container, "ports", e.Item})
	return fmt.Sprintf("template %s conflicts at %s: container %s of %s has the port %s/%s, too, and the containers of a pod share their ports; %s",
		e.Template, at, e.Other, of, e.Port, e.Protocol, cmp.Or(e.Advice, advice))
}

// address is a port with its protocol.
type address struct{ port, protocol string }

// opening is a port of a container.
type opening struct {
	address
	list, container string
	item            any
}

// openings returns the ports of the containers that run beside the app, in order: an init container
// is over when the app starts. What is true of the container stands in the pod: a fragment may
// extend a container of either list.
func openings(spec any) []opening {
	var all []opening
	for _, list := range []string{"containers", "initContainers"} {
		for _, container := range items(spec, list) {
			name, _ := field(container, "name").(string)
			if list == "initContainers" && field(container, "restartPolicy") != "Always" && field(container, "image") != nil {
				continue
			}
			for _, port := range items(container, "ports") {
				protocol, _ := field(port, "protocol").(string)
				if number := field(port, "containerPort"); number != nil {
					all = append(all, opening{address{fmt.Sprint(number), cmp.Or(protocol, "TCP")}, list, name, port})
				}
			}
		}
	}
	return all
}

// Find returns the first port of a fragment that another container of the pod has, too, or nil. The
// pod is the one that the fragment was merged into, and author the pod without templates. A port
// that says $onConflict: Overwrite, or KeepPod, stands beside the author's, and beside no other.
func Find(author, pod map[string]any, f merge.Fragment) *Error {
	wanted := openings(f.Object["spec"])
	if len(wanted) == 0 {
		return nil
	}
	type place struct {
		address
		container string
	}
	authors, lists := map[place]bool{}, map[place]string{}
	for _, o := range openings(author["spec"]) {
		authors[place{o.address, o.container}] = true
	}
	// Of each port the first two containers: one of them is another than a given one.
	first := map[bool]map[address][]string{true: {}, false: {}} // the author's, and those of templates
	for _, o := range openings(pod["spec"]) {
		at := place{o.address, o.container}
		lists[at] = o.list
		if names := first[authors[at]][o.address]; len(names) < 2 && !slices.Contains(names, o.container) {
			first[authors[at]][o.address] = append(names, o.container)
		}
	}
	id, _ := podschema.At("spec.containers[].ports").Identity()
	for _, o := range wanted {
		at := place{o.address, o.container}
		if lists[at] == "" || authors[at] {
			continue // in a container that is over when the app starts; the author's own
		}
		for _, isAuthors := range []bool{true, false} {
			if policy := directive.Of(o.item).Conflict; isAuthors && (policy == merge.Overwrite || policy == merge.KeepPod) {
				continue
			}
			for _, other := range first[isAuthors][o.address] {
				if other != o.container {
					key, _ := id.Key(o.item)
					return &Error{Template: f.Template, List: lists[at], Container: o.container, Item: key, Port: o.port, Protocol: o.protocol, Other: other, Authors: isAuthors}
				}
			}
		}
	}
	return nil
}

// field returns a field of a value that may be an object.
func field(v any, name string) any {
	object, _ := v.(map[string]any)
	return object[name]
}

// items returns the items of a list in a value that may be an object.
func items(v any, list string) []any {
	all, _ := field(v, list).([]any)
	return all
}

package clash

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Error reports that a template's port or mount clashes with another one.
type Error struct {
	// Template is at fault; Other is the template of the other one, "" for the pod's own.
	Template, Other string
	// List and Container are where the template's port or mount stands, Item is which one
	// by its key, and Field is its field that clashes: containerPort, hostPort, name or
	// mountPath. Value is what stands there, as text.
	List, Container, Item, Field, Value string
	// Why says what clashes with what.
	Why string
	// Advice says what to do.
	Advice string
}

// In is the list of the container in which the item stands.
func (e *Error) In() string {
	switch e.Field {
	case "mountPath":
		return "volumeMounts"
	case "devicePath":
		return "volumeDevices"
	}
	return "ports"
}

func (e *Error) Error() string {
	at := podschema.Readable([]string{"spec", e.List, "name=" + e.Container, e.In(), e.Item})
	return fmt.Sprintf("template %s conflicts at %s: %s; %s", e.Template, at, e.Why, e.Advice)
}

// holder is a port or a mount, and who put it there.
type holder struct {
	list, container, key string
	item                 map[string]any
	// templates put the field there, none for the pod's own.
	templates []string
}

func (h holder) ours() bool { return len(h.templates) > 0 }

// finder goes through the plan's pod.
type finder struct {
	plan     merge.Plan
	spec     map[string]any
	changes  *merge.Change
	warnings []string
}

// Find returns the first clash of the plan that refuses the pod, or nil, and warnings about
// those that do not.
func Find(plan merge.Plan) (*Error, []string) {
	ports, mounts := false, map[string]bool{}
	for _, f := range plan.Fragments {
		spec := object(f.Object["spec"])
		for _, list := range []string{"containers", "initContainers"} {
			for _, item := range items(spec[list]) {
				container := object(item)
				ports = ports || len(items(container["ports"])) > 0
				// What hides a required template's mounts, injector/required finds.
				if name, ok := container["name"].(string); ok && !f.Required && len(items(container["volumeMounts"]))+len(items(container["volumeDevices"])) > 0 {
					mounts[name] = true
				}
			}
		}
	}
	if !ports && len(mounts) == 0 {
		return nil, nil
	}
	f := &finder{plan: plan, spec: object(plan.Pod["spec"]), changes: plan.Root.Child("spec")}
	if ports {
		if e := f.ports(); e != nil {
			return e, nil
		}
	}
	return f.mounts(mounts), f.warnings
}

// containers calls visit for each container of the pod, first those that Services look
// through first. Running says that it runs beside the app.
func (f *finder) containers(visit func(list, name string, container map[string]any, running bool) *Error) *Error {
	for _, list := range []string{"containers", "initContainers"} {
		for _, item := range items(f.spec[list]) {
			container := object(item)
			name, ok := container["name"].(string)
			if !ok {
				continue
			}
			if e := visit(list, name, container, list == "containers" || container["restartPolicy"] == "Always"); e != nil {
				return e
			}
		}
	}
	return nil
}

// owners returns the templates that put the field of an item there. With the field "" it is
// the item as a whole.
func (f *finder) owners(list, container, of, key, field string) []string {
	c := f.changes.Child(list)
	var whole []string
	for _, segment := range []string{"name=" + container, of, key, field} {
		if c.Writes() {
			whole = c.Templates
		}
		if segment == "" {
			break
		}
		c = c.Child(segment)
	}
	if c.Writes() {
		whole = c.Templates
	}
	return whole
}

// policy returns the $onConflict that a template has at the item itself, "" for none.
func (f *finder) policy(h holder, of string, id podschema.Identity) string {
	for _, fragment := range f.plan.Fragments {
		if !slices.Contains(h.templates, fragment.Template) {
			continue
		}
		spec := object(fragment.Object["spec"])
		for _, list := range []string{"containers", "initContainers"} {
			for _, item := range items(spec[list]) {
				if object(item)["name"] != h.container {
					continue
				}
				for _, one := range items(object(item)[of]) {
					if key, ok := id.Key(one); ok && key == h.key {
						if policy := directive.Of(one).Conflict; policy != "" {
							return policy
						}
					}
				}
			}
		}
	}
	return ""
}

// means reports whether a template says at one of the two that it means it. About another
// template no $onConflict decides.
func (f *finder) means(a, b holder, of string, id podschema.Identity) bool {
	if a.ours() && b.ours() && !slices.ContainsFunc(a.templates, func(name string) bool { return slices.Contains(b.templates, name) }) {
		return false
	}
	for _, h := range []holder{a, b} {
		if p := f.policy(h, of, id); p == merge.Overwrite || p == merge.KeepPod {
			return true
		}
	}
	return false
}

// fault returns the clash of two holders, of which one is a template's.
func (f *finder) fault(a, b holder, field, value, why, advice string) *Error {
	at, other := b, a
	if !at.ours() {
		at, other = a, b
	}
	e := &Error{Template: at.templates[0], List: at.list, Container: at.container, Item: at.key, Field: field, Value: value, Advice: advice}
	if strings.HasPrefix(at.key, "devicePath=") {
		e.Field = "devicePath"
	}
	if field == "mountPath" {
		_, e.Value, _ = strings.Cut(at.key, "=")
	}
	whose := "of the pod"
	if other.ours() {
		e.Other = other.templates[0]
		whose = "of template " + e.Other
	}
	e.Why = fmt.Sprintf(why, fmt.Sprintf("container %s %s", other.container, whose))
	return e
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func items(v any) []any {
	l, _ := v.([]any)
	return l
}

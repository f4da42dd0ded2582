package merge

import (
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Effect is what a plan does in one place of the base pod.
type Effect string

const (
	// Added: the base pod has nothing there.
	Added Effect = "added"
	// Replaced: the base pod has another value there.
	Replaced Effect = "replaced"
	// Appended: a text is joined to the base pod's.
	Appended Effect = "appended"
	// Removed: what the base pod has there goes.
	Removed Effect = "removed"
	// Same: the base pod has there what the templates want.
	Same Effect = "same"
	// Derived: the base pod's value goes, since the API server derives it from others.
	Derived Effect = "derived"
)

// PlaceEffect is an [Effect], for people and for machines.
type PlaceEffect struct {
	// Path is the keyed path, as people write it.
	Path   string `json:"path"`
	Effect Effect `json:"effect"`
	// Templates want it, in their order.
	Templates []string `json:"templates"`
	// Was is the base pod's value, Now the plan's. Nil is none.
	Was any `json:"was,omitempty"`
	Now any `json:"now,omitempty"`
}

// Effects returns what the plan does, place by place, in the order of the paths. An item or
// an object that is put there as a whole is one place.
func (p Plan) Effects() []PlaceEffect {
	var all []PlaceEffect
	effects(p.Root, podschema.Pod(), p.Pod, nil, &all)
	return all
}

// effects gathers what c does where the plan's pod has v, of type t. Path is a keyed path.
func effects(c *Change, t *podschema.Type, v any, path []string, all *[]PlaceEffect) {
	if c == nil {
		return
	}
	if effect, is := c.effect(); is && !(effect == Same && isKey(path)) {
		one := PlaceEffect{Path: podschema.Readable(path), Effect: effect, Templates: slices.Clone(c.Templates), Was: c.was, Now: v}
		for _, s := range c.joints {
			if !slices.Contains(one.Templates, s.template) {
				one.Templates = append(one.Templates, s.template)
			}
		}
		if effect == Same {
			one.Was = v
		}
		*all = append(*all, one)
	}
	at := inside(c, t, v)
	for _, segment := range c.Segments() {
		ct, value := at(segment)
		child := c.In[segment]
		if _, is := child.effect(); is && c.Writes() && slices.Equal(child.Templates, c.Templates) {
			child = nil // a part of what is put there as a whole
		}
		effects(child, ct, value, append(slices.Clone(path), segment), all)
	}
}

// isKey reports whether a keyed path leads to a field that finds the item around it: that it is
// the same goes without saying.
func isKey(path []string) bool {
	if len(path) < 2 {
		return false
	}
	field, item := path[len(path)-1], path[len(path)-2]
	return strings.HasPrefix(item, field+"=") || strings.Contains(item, ","+field+"=")
}

// effect returns what c does in the place itself, and false if that is nothing of its own.
func (c *Change) effect() (Effect, bool) {
	switch {
	case c.Do == Join, c.Do == Beside:
		return Appended, true
	case c.Writes() && c.was != nil:
		return Replaced, true
	case c.Writes(), c.Do == Make && len(c.In) == 0:
		return Added, true
	case c.Do == Remove:
		return Removed, true
	case c.Do == Renew:
		return Derived, true
	case c.Do == Nothing && c.asked() && !c.gone():
		return Same, true
	}
	return "", false
}

// KeptBy says which rule leaves the pod's own value alone.
type KeptBy string

const (
	// KeptByRule: labels, annotations, and in the pod's own containers variables and mounts
	// are the pod's author's.
	KeptByRule KeptBy = "rule"
	// KeptByNode: the template says $onConflict: KeepPod there, or around the place.
	KeptByNode KeptBy = "$onConflict"
	// KeptByTemplate: the template says onConflict: KeepPod.
	KeptByTemplate KeptBy = "onConflict"
	// KeptByOverridable: the template lets a pod declare a container of its sidecar's name,
	// and this pod does.
	KeptByOverridable KeptBy = "overridable"
)

// Kept is a value of the pod that stays, where a template wants another one.
type Kept struct {
	// Path is the keyed path, as people write it.
	Path     string `json:"path"`
	Template string `json:"template"`
	Why      KeptBy `json:"why"`
	// Has is the pod's value. Wants is the template's, nil if it wants none there.
	Has   any `json:"has"`
	Wants any `json:"wants,omitempty"`
}

// Kept returns the values of the pod that stay, in the order in which the templates met them,
// each once. A value that another template replaces is not among them.
func (p Plan) Kept() []Kept {
	var all []Kept
	seen := map[[3]string]bool{}
	for _, one := range p.noted {
		if one.kept == nil || replaced(one.at) {
			continue
		}
		k := *one.kept
		k.Path = one.at.String()
		if id := [3]string{k.Path, k.Template, string(k.Why)}; !seen[id] {
			seen[id] = true
			all = append(all, k)
		}
	}
	return all
}

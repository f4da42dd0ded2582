package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// keepDefaultTolerations keeps the tolerations of the plugin DefaultTolerationSeconds where
// a template replaces the whole list, or takes it away. The plugin runs again after
// webhooks: it would add them once more, and the API server would call Pillion a second
// time. It comes when all templates are merged.
func (m *merger) keepDefaultTolerations() {
	n := m.changes.Child("spec").Child("tolerations")
	spec, ok := m.root.object("spec")
	if !ok || n == nil || !n.Writes() && n.Do != Remove {
		return
	}
	was, _ := n.was.([]any)
	before, _ := spec.fields["tolerations"].([]any)
	wanted := slices.Clip(before)
	for _, key := range defaultTolerations {
		i := slices.IndexFunc(was, func(v any) bool { return isDefaultToleration(v) && objectOf(v)["key"] == key })
		if i >= 0 && !slices.ContainsFunc(wanted, func(v any) bool { return covers(objectOf(v), key) }) {
			wanted = append(wanted, was[i])
		}
	}
	if len(wanted) == len(before) {
		return
	}
	spec.put("tolerations", wanted)
	if n.Do == Remove {
		n.Do, n.desired = Write, &Desired{Type: podschema.At("spec.tolerations"), Value: wanted}
	}
}

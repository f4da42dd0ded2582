package merge

import "fmt"

// podsStays is the warning where the pod's author wins.
const podsStays = "the pod's own value stays"

// replacesPods is the warning where a template's onConflict overwrites.
const replacesPods = "the template's value replaces the pod's"

// warning is a sentence about one place, before it is known what becomes of
// that place.
type warning struct {
	template, path, what string
	// ofPods: it speaks of the pod's own value there.
	ofPods bool
}

func (m *merger) warn(at place, what string) {
	m.warnings = append(m.warnings, warning{template: m.frag.Template, path: at.keyed, what: what})
}

func (m *merger) warnOfPods(at place, what string) {
	m.warnings = append(m.warnings, warning{template: m.frag.Template, path: at.keyed, what: what, ofPods: true})
}

// sentences returns the warnings, each once. That a template leaves the pod's own
// value alone is said only if it is left: not if another overwrites it or takes it
// away, which it does later on the first call and had done before on every other.
func (m *merger) sentences() []string {
	var all []string
	said := map[string]bool{}
	for _, w := range m.warnings {
		if w.ofPods && m.overwritten(w) {
			continue
		}
		text := fmt.Sprintf("template %s: %s: %s", w.template, readable(w.path), w.what)
		if !said[text] {
			said[text] = true
			all = append(all, text)
		}
	}
	return all
}

// overwritten reports whether another template put its own in the place of the
// pod's value that the warning speaks of, or of one around it.
func (m *merger) overwritten(w warning) bool {
	for path := w.path; path != ""; path = parent(path) {
		if original, ok := m.originals[path]; ok && original != nil && m.owners[path] != "" && m.owners[path] != w.template {
			return true
		}
		if c := m.claims[path]; c.took && c.template != w.template {
			return true
		}
	}
	return false
}

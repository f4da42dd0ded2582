package merge

import (
	"fmt"
	"strings"
)

// podsStays is the warning where the pod's author wins.
const podsStays = "the pod's value is used, not the template's"

// mountStays is podsStays where the pod mounts another volume than the template.
const mountStays = "the app already mounts this path, so a sidecar will not see its files"

// replacesPods is the warning where a template's onConflict overwrites.
const replacesPods = "the template's value replaces the pod's"

// warning is a sentence about one place.
type warning struct {
	template, text string
	at             *place
	// stays: it says that the pod's value is used, not the template's there. Kept says why, and what both have.
	stays bool
	kept  *Kept
	// silent: it is no warning. The pod's author and the template agree that it is so.
	silent bool
}

// warnings are those of a plan.
type warnings []warning

func (w *warnings) add(template string, at *place, text string) {
	*w = append(*w, warning{template: template, at: at, text: text})
}

// keep notes that the pod's value is used, not the template's, and warns of it unless it is silent.
func (w *warnings) keep(at *place, kept Kept, silent bool) {
	text := podsStays
	has, _ := kept.Has.(map[string]any)
	wants, _ := kept.Wants.(map[string]any)
	if strings.Contains(at.String(), ".volumeMounts[") && has["name"] != wants["name"] {
		text = mountStays
	}
	*w = append(*w, warning{template: kept.Template, at: at, text: text, stays: true, kept: &kept, silent: silent})
}

// sentences returns the warnings, each once. That a template leaves the pod's
// own value alone is said only if the value is left: not if another template
// replaces it or takes it away.
func (w warnings) sentences() []string {
	var all []string
	said := map[string]bool{}
	for _, one := range w {
		if one.silent || one.stays && replaced(one.at) {
			continue
		}
		text := fmt.Sprintf("template %s: %s: %s", one.template, one.at, one.text)
		if !said[text] {
			said[text] = true
			all = append(all, text)
		}
	}
	return all
}

// replaced reports whether the plan replaces or removes the pod's value at the
// place, or a value around it.
func replaced(at *place) bool {
	for ; at != nil; at = at.parent {
		if n := at.find(); n != nil && (n.Do == Write && n.was != nil || n.Do == Remove) {
			return true
		}
	}
	return false
}

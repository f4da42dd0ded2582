package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Uninject returns the pod without what Pillion put in, as [Base] does, except
// that values which somebody changed since stay as they are, each with a
// warning. What Pillion added as a whole, such as a sidecar, goes with all that
// others made of it. It needs the digests of the status: without them nobody can
// tell who wrote a value, and it goes.
func Uninject(pod map[string]any, st Status) (map[string]any, []string) {
	wrote, around := map[string]bool{}, map[string]bool{}
	for _, a := range st.Templates {
		maps.Copy(wrote, digestsIn(a.Wrote))
		for path := range a.record().stakes() {
			around[parent(path)] = true // another template put something into it
		}
	}
	warned := map[string]bool{}
	changed := func(path string) bool {
		v, t := known().find(pod, path)
		if v == nil || !known().isValue(t) || computed(path) || around[path] || isSetItem(path) || wrote[digest(path, canonical(t, v))] {
			return false
		}
		warned[fmt.Sprintf("%s: somebody changed it to %s since it was injected, so it stays", readable(path), show(v))] = true
		return true
	}
	kept := Status{key: st.key}
	for _, a := range st.Templates {
		if a.Wrote != "" {
			a.Items = slices.DeleteFunc(slices.Clone(a.Items), changed)
			a.Overwrote = maps.Clone(a.Overwrote)
			maps.DeleteFunc(a.Overwrote, func(path string, _ any) bool { return changed(path) })
		}
		kept.Templates = append(kept.Templates, a)
	}
	return Base(pod, kept), slices.Sorted(maps.Keys(warned))
}

// computed tells what the API server sets whatever a template wrote.
func computed(path string) bool {
	return path == "/spec/priority" || path == "/spec/preemptionPolicy" || strings.HasPrefix(path, podResourcesPath+"/requests/")
}

// isSetItem tells an item whose path is its value.
func isSetItem(path string) bool {
	return strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "=")
}

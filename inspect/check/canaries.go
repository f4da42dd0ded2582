package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/inspect/state"
)

// canariesStopped says which canaries no pod gets any more.
func canariesStopped(replicas []state.Replica, s Settings) []Finding {
	stopped, unwritten := map[string]bool{}, map[string]bool{}
	for _, r := range replicas {
		for name, c := range r.Canaries {
			if c.Stopped {
				stopped[name] = true
				unwritten[name] = unwritten[name] || c.Unwritten
			}
		}
	}
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(stopped)) {
		says := fmt.Sprintf("the canary %s is stopped, so new pods get the stable version; its condition Stopped says why, and an edit of it starts it anew", name)
		if unwritten[name] {
			says = fmt.Sprintf("the canary %s is stopped on replicas that cannot write its status, so that others may still give it to pods; their log says what failed", name)
		}
		found = append(found, warning(says, s.getTemplate(name), s.logs()))
	}
	return capped(found, "stopped canaries")
}

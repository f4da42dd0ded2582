package store

import (
	"github.com/pillion-dev/pillion/templates"
)

// stoppedCanaries returns the canaries whose object, or mirror, says that they are stopped: those of
// objects by their source, those of mirrors by their name.
func stoppedCanaries(units []Unit, mirrors []MirrorObject) map[string]bool {
	stopped := map[string]bool{}
	for _, u := range units {
		if u.Object != nil && u.Object.Status.IsStopped(u.Object.Generation) {
			stopped[u.Source] = true
		}
	}
	for _, m := range mirrors {
		if m.Status.IsStopped(m.Generation) {
			stopped[m.Name] = true
		}
	}
	return stopped
}

// judged completes a verdict on a canary that compiles alone: the stable template decides whether it can
// be used. Hash is then what pods carry. Share is nil for a template that is no canary.
func judged(set *templates.Set, name string, hash, reason, message *string) (share *int32) {
	c, ok := set.Canary(name)
	if !ok || c.Template == nil || *reason != Compiled {
		return nil
	}
	percent := int32(c.Percent()) //nolint:gosec // 0 to 100
	if c.Version == nil {
		*hash, *reason, *message = "", CanaryUnusable, c.Unusable.Error()
	} else {
		*hash = c.Version.Hash()
	}
	return &percent
}

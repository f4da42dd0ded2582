package store

import (
	"bytes"

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
	if *hash = set.HashOf(c.Entry); c.Unusable != nil {
		*reason, *message = CanaryUnusable, c.Unusable.Error()
	}
	return &percent
}

// Object returns the object of the cluster that a template is, or its mirror. It reports false if
// there is none.
func (t *Templates) Object(template string) (Object, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.mirrors {
		if m.Name == template {
			return m.Object, true
		}
	}
	for _, u := range t.last {
		if u.Object != nil && u.Object.Name == template {
			return *u.Object, true
		}
	}
	return Object{}, false
}

// StopHere has a canary select nobody on this replica, whatever its object says, until its manifest
// changes.
func (t *Templates) StopHere(canary string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.set.Load().Canary(canary)
	if !ok {
		return
	}
	for _, u := range t.last {
		if u.Source == c.Source {
			t.stoppedHere[canary] = u
		}
	}
	t.assemble(t.complete())
}

// addStoppedHere adds the canaries that are stopped here, and forgets those whose manifest changed.
func (t *Templates) addStoppedHere(stopped map[string]bool, units []Unit) {
	now := map[string]Unit{}
	for _, u := range units {
		now[u.Source] = u
	}
	for canary, then := range t.stoppedHere {
		if u, ok := now[then.Source]; ok && bytes.Equal(u.Data, then.Data) {
			stopped[canary] = true
		} else {
			delete(t.stoppedHere, canary)
		}
	}
}

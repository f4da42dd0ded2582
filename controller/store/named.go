package store

import (
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/templates"
)

// keepNamed puts templates whose file is gone back into a set, as long as namespaces name
// them. An upgrade that drops a template from a mounted ConfigMap changes the files of the
// replicas that run, too, and pods that name the template would be refused. Objects of the
// cluster that somebody deletes are not kept: the guard has refused that, or was overruled.
func (t *Templates) keepNamed(before, after *templates.Set) *templates.Set {
	var kept []templates.Entry
	for _, e := range before.All() {
		if _, there := after.Find(e.Name); there || e.Template == nil || strings.HasPrefix(e.Source, templates.ClusterSource) || !t.named(e.Name) {
			continue
		}
		e.Err = fmt.Errorf("template %s is gone from %s, and namespaces name it; the last version stays in force until the template is back, no namespace names it, or Pillion restarts", e.Name, e.Source)
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		return after
	}
	return templates.NewSet(append(after.All(), kept...))
}

// UsageChanged says that namespaces name other templates than before: what is kept only for
// them may go.
func (t *Templates) UsageChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keeping {
		t.assemble()
		t.sayMirrors()
	}
}

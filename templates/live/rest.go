package live

import (
	"context"
	"time"

	"github.com/pillion-dev/pillion/clientset/waiting"
)

// Templates that nothing asks for are put to rest, if there are many: a cluster with a
// thousand templates should not take more memory than their manifests do.
const (
	// mostAwake is how many templates may be awake without being used. One takes about
	// 100 KiB.
	mostAwake = 64
	// restAfter is how long a template has not been used when it is put to rest, at least.
	restAfter = 10 * time.Minute
)

// putToRest puts templates to rest until ctx ends.
func (t *Templates) putToRest(ctx context.Context) {
	for waiting.For(ctx, restAfter) {
		all, awake := t.Snapshot().All(), 0
		for _, e := range all {
			if e.Template != nil && !e.Template.AtRest() {
				awake++
			}
		}
		if awake <= mostAwake {
			continue
		}
		for _, e := range all {
			if e.Template != nil {
				e.Template.Rest()
			}
		}
	}
}

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Revision is one of the Helm release, as the labels of its Secret say.
type Revision struct {
	Number  int
	Status  string
	Created time.Time
}

// releaseSettled fails for an operation of Helm that did not come to its end. Helm refuses every
// other one until somebody rolls back.
func releaseSettled(f *Facts, s Settings) []Finding {
	if s.Release == "" {
		return skipped("not looked at: Helm did not install Pillion")
	}
	if f.Revisions.Err != nil {
		return []Finding{unread(f.Revisions.Err)}
	}
	if len(f.Revisions.Value) == 0 {
		return nil
	}
	all := slices.SortedFunc(slices.Values(f.Revisions.Value), func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	last := all[len(all)-1]
	if !strings.HasPrefix(last.Status, "pending-") {
		return nil
	}
	to := last.Number // of a first installation, which has no other
	for _, r := range all {
		if r.Status == "deployed" {
			to = r.Number
		}
	}
	return []Finding{failed(
		fmt.Sprintf("revision %d of the Helm release %s is %s for %s: if no helm runs any more, it was interrupted, and Helm refuses every upgrade (another operation is in progress)",
			last.Number, s.Release, last.Status, f.Now.Sub(last.Created).Round(time.Second)),
		s.rollback(fmt.Sprint(to)))}
}

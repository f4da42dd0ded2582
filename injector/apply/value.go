package apply

import (
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// value decides about a value that the plan writes as a whole. If it has to be
// put there, it returns the value and true. Otherwise it returns the value that
// is there, brought up to date inside, or nil to leave what is there. Want is the
// record's place of the wanted value, keys are the fields that name an item.
func (a *run) value(c *merge.Change, t *podschema.Type, wanted, now any, want, rc *record.Place, at *location, keys []podschema.Key) (any, bool) {
	if !rc.Owns() || now == nil {
		return wanted, true
	}
	if rc.Gone() {
		if !podschema.Equal(t, now, wanted) {
			a.warn(c, at) // somebody put something back
		}
		return nil, false
	}
	switch {
	case want.Same(rc):
		return nil, false
	case want.Wrote == "" && rc.Wrote == "":
		return a.inside(c, t, wanted, now, rc, at, keys), false
	default:
		return a.leaf(c, t, wanted, now, want, rc, at)
	}
}

// leaf decides about one value of Pillion's own, which the plan wants changed.
func (a *run) leaf(c *merge.Change, t *podschema.Type, wanted, now any, want, rc *record.Place, at *location) (any, bool) {
	switch {
	case podschema.Equal(t, now, wanted):
		rc.Become(want)
		rc.Added = rc.Added || want.Wrote == ""
		return nil, false
	case rc.Wrote == "" || record.Digest(t, now) == rc.Wrote:
		return wanted, true
	default:
		a.warn(c, at)
		return nil, false
	}
}

// written returns the place of a value that is written now: with the original
// that the record knows, or else the one of the base pod.
func written(place, before *record.Place, was any, had bool) *record.Place {
	switch {
	case before != nil && len(before.Was) > 0 && !before.Made:
		place.Was = before.Was
	case had && (before == nil || !before.Owns()):
		place.Was = []any{was}
	}
	if place.Wrote == "" {
		place.Added = true
	}
	return place
}

// unchanged reports whether what Pillion wrote at a place is still there.
func unchanged(r *record.Place, t *podschema.Type, now any) bool {
	if r.Wrote != "" {
		return record.Digest(t, now) == r.Wrote
	}
	whole := record.Whole(nil, t, now)
	return contains(whole, r)
}

// contains reports whether all digests of q are in p, too.
func contains(p, q *record.Place) bool {
	if p == nil {
		return q.Empty()
	}
	if q.Wrote != "" && p.Wrote != q.Wrote {
		return false
	}
	for segment, child := range q.In {
		if !contains(p.In[segment], child) {
			return false
		}
	}
	return true
}

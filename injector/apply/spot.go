package apply

import (
	"cmp"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// spot is a place of the pod that a change is about.
type spot struct {
	change *merge.Change
	t      *podschema.Type
	// item is how the list around it identifies the spot, nil for a field.
	item *podschema.Identity
	// was, wanted and now are what the base pod, the plan and the pod have there. Had reports
	// whether the base pod has it at all, be it null.
	was, wanted, now any
	had              bool
	// in is what the record says of the field's object or of the item's list, segment where the
	// spot is in it.
	in      *record.Place
	segment string
	at      *location
}

// recorded returns what the record says of the spot, nil for nothing.
func (s spot) recorded() *record.Place { return s.in.Child(s.segment) }

// whole returns the place of a value that stands at the spot as a whole.
func (a *run) whole(s spot, v any) *record.Place {
	if s.item != nil {
		return record.OfItem(a.known, *s.item, v)
	}
	return record.Whole(a.known, s.t, v)
}

// settle brings a spot, and the record of it, up to date. It returns a value and true for one
// that is to be put there; otherwise the value that is there, brought up to date inside, or nil
// to leave what is there.
func (a *run) settle(s spot) (v any, put bool) {
	if !s.change.Writes() {
		return a.around(s)
	}
	rc, want := s.recorded(), a.whole(s, s.wanted)
	switch {
	case !rc.Owns() || s.now == nil:
	case rc.Gone():
		if !podschema.Equal(s.t, s.now, s.wanted) {
			a.warn(s.change, s.at) // somebody put something back
		}
		return nil, false
	case want.Same(rc):
		return nil, false
	case want.Wrote == "" && rc.Wrote == "":
		return a.inside(s), false
	case !a.replaces(s, want):
		return nil, false
	}
	s.in.Set(s.segment, written(want, rc, s.was, s.had && s.change.Do != merge.Beside))
	return s.wanted, true
}

// replaces decides about one value of Pillion's own, which the plan wants changed. Want is the
// place of the wanted value.
func (a *run) replaces(s spot, want *record.Place) bool {
	rc := s.recorded()
	switch {
	case podschema.Equal(s.t, s.now, s.wanted):
		rc.Become(want)
		rc.Added = rc.Added || want.Wrote == ""
		return false
	case rc.Wrote == "" || record.Digest(s.t, s.now) == rc.Wrote:
		return true
	default:
		a.warn(s.change, s.at)
		return false
	}
}

// around settles a spot that as a whole is not the plan's.
func (a *run) around(s spot) (v any, put bool) {
	rc := s.recorded()
	switch {
	case s.wanted == nil, s.change.Do == merge.Nothing && !s.change.Edits() && s.now == nil:
		return nil, false
	case s.now == nil:
		// The pod lacks the object that the places are in.
		place := a.anew(s)
		place.Made = place.Made || !s.had // a pod template can lack what the pod made of it has
		if s.had && s.was == nil {
			place.Was = []any{nil}
		}
		s.in.Set(s.segment, place)
		return s.wanted, true
	case rc.Owns():
		// Pillion wrote the whole of it before, and wants places in it now.
		if !s.change.Edits() {
			return nil, false
		}
		if !unchanged(rc, s.t, s.now) {
			a.warn(s.change, s.at)
			return nil, false
		}
		s.in.Set(s.segment, a.anew(s))
		return s.wanted, true
	}
	rc = s.in.Enter(s.segment)
	v = a.descend(s, rc)
	if rc.Empty() {
		s.in.Forget(s.segment)
	}
	return v, false
}

// descend applies the changes in a value that the pod has. R is the value's place.
func (a *run) descend(s spot, r *record.Place) any {
	switch wanted := s.wanted.(type) {
	case map[string]any:
		if now, ok := s.now.(map[string]any); ok {
			was, _ := s.was.(map[string]any)
			return a.object(s, was, wanted, now, r)
		}
	case []any:
		if now, ok := s.now.([]any); ok {
			was, _ := s.was.([]any)
			return a.list(s, was, wanted, now, r)
		}
	}
	return s.now
}

// anew is the place of a value that is put where the pod had none: as if the
// changes had been made in it one by one.
func (a *run) anew(s spot) *record.Place {
	place := &record.Place{Made: s.change.Do == merge.Make}
	s.now, s.at = map[string]any{}, nil
	if _, ok := s.wanted.([]any); ok {
		s.now = []any{}
	}
	inner := &run{ctx: a.ctx, known: a.known, aside: true}
	inner.descend(s, place)
	a.err = cmp.Or(a.err, inner.err)
	return place
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

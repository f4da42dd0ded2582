package apply

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// inside brings a value that Pillion added as a whole up to date, place by
// place, and returns it.
func (a *run) inside(s spot) any {
	switch w := s.wanted.(type) {
	case map[string]any:
		if now, ok := s.now.(map[string]any); ok {
			return a.insideObject(s, w, now)
		}
	case []any:
		if now, ok := s.now.([]any); ok {
			return a.insideList(s, w, now)
		}
	}
	a.warn(s.change, s.at)
	return s.now
}

// insideObject leaves the fields alone that name the item.
func (a *run) insideObject(s spot, w, now map[string]any) map[string]any {
	p, r := fields{now: now}, s.recorded()
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if w[name] == nil || s.item != nil && slices.ContainsFunc(s.item.Keys, func(k podschema.Key) bool { return k.Name == name }) {
			continue
		}
		a.set(&p, spot{change: s.change, t: s.t.Child(name), wanted: w[name], now: p.now[name], in: r, segment: name, at: s.at.field(name)}, a.part)
	}
	return p.now
}

// part is settle for a part of a value that Pillion added as a whole.
func (a *run) part(s spot) (v any, put bool) {
	rc, want := s.recorded(), a.whole(s, s.wanted)
	switch {
	case rc == nil && s.now != nil && podschema.Equal(s.t, s.now, s.wanted):
		s.in.Set(s.segment, a.whole(s, s.now))
		return s.now, false
	case rc == nil:
	case want.Same(rc):
		return nil, false
	case s.now == nil:
		a.warn(s.change, s.at) // somebody took it out
		return nil, false
	case want.Wrote == "" && rc.Wrote == "":
		return a.inside(s), false
	case !a.replaces(s, want):
		return nil, false
	}
	s.in.Set(s.segment, want)
	return s.wanted, true
}

func (a *run) insideList(s spot, w, now []any) []any {
	id, ok := s.t.Identity()
	if !ok {
		return now
	}
	keys := make(map[string]bool, len(w))
	for _, wanted := range w {
		if key, ok := id.Key(wanted); ok {
			keys[key] = true
		}
	}
	r := s.recorded()
	index := record.Match(r, id, now, keys)
	p := &items{run: a, now: now}
	absent, seen := map[int]bool{}, map[string]bool{}
	for place, wanted := range w {
		key, ok := id.Key(wanted)
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		i, have := index[key]
		rc := r.Child(key)
		switch {
		case !have && rc == nil:
			absent[place] = true
			r.Set(key, record.OfItem(a.known, id, wanted))
		case id.Set():
			if rc == nil {
				r.Set(key, record.OfItem(a.known, id, wanted))
			}
		case !have:
			if !record.OfItem(a.known, id, wanted).Same(rc) {
				a.warn(s.change, s.at.end(key)) // somebody took it out
			}
		default:
			p.replace(i, spot{change: s.change, t: id.Elem, item: &id, wanted: wanted, now: p.now[i], in: r, segment: key, at: s.at.item(key, i)}, a.part)
		}
	}
	if len(absent) == 0 {
		return p.now
	}
	return a.insert(id, w, p.now, absent, s.at)
}

package apply

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// inside brings a value that Pillion added as a whole up to date, place by
// place, and returns it: w and now are it as wanted and as it is.
func (a *run) inside(c *merge.Change, t *podschema.Type, w, now any, r *record.Place, at *location, keys []podschema.Key) any {
	switch w := w.(type) {
	case map[string]any:
		if p, ok := now.(map[string]any); ok {
			return a.insideObject(c, t, w, p, r, at, keys)
		}
	case []any:
		if p, ok := now.([]any); ok {
			return a.insideList(c, t, w, p, r, at)
		}
	}
	a.warn(c, at)
	return now
}

// insideObject leaves the fields alone that name the item.
func (a *run) insideObject(c *merge.Change, t *podschema.Type, w, now map[string]any, r *record.Place, at *location, keys []podschema.Key) map[string]any {
	p := fields{now: now}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		wanted, here := w[name], at.field(name)
		if wanted == nil || slices.ContainsFunc(keys, func(k podschema.Key) bool { return k.Name == name }) {
			continue
		}
		if v, put := a.part(c, t.Child(name), wanted, p.now[name], r.Child(name), here, nil); put {
			a.put(&p, name, here, v)
			r.Set(name, record.Whole(a.known, t.Child(name), v))
		} else if v != nil {
			p.set(name, v)
			if r.Child(name) == nil {
				r.Set(name, record.Whole(a.known, t.Child(name), v))
			}
		}
	}
	return p.now
}

// part decides about one part of a value that Pillion added as a whole. It
// returns a value to put there and true, or the value that is there.
func (a *run) part(c *merge.Change, t *podschema.Type, wanted, now any, rc *record.Place, at *location, keys []podschema.Key) (any, bool) {
	want := record.Whole(a.known, t, wanted)
	for _, k := range keys {
		want.Forget(k.Name)
	}
	switch {
	case rc == nil && now != nil && podschema.Equal(t, now, wanted):
		return now, false
	case rc == nil:
		return wanted, true
	case want.Same(rc):
		return nil, false
	case now == nil:
		a.warn(c, at) // somebody took it out
		return nil, false
	case want.Wrote != "" || rc.Wrote != "":
		return a.leaf(c, t, wanted, now, want, rc, at)
	}
	return a.inside(c, t, wanted, now, rc, at, keys), false
}

func (a *run) insideList(c *merge.Change, t *podschema.Type, w, now []any, r *record.Place, at *location) []any {
	id, ok := t.Identity()
	if !ok {
		return now
	}
	keys := make(map[string]bool, len(w))
	for _, wanted := range w {
		if key, ok := id.Key(wanted); ok {
			keys[key] = true
		}
	}
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
				a.warn(c, at.end(key)) // somebody took it out
			}
		default:
			here := at.item(key, i)
			if v, put := a.part(c, id.Elem, wanted, p.now[i], rc, here, id.Keys); put {
				a.emit(patch.Replace, here, v)
				p.set(i, v)
				r.Set(key, record.OfItem(a.known, id, v))
			} else if v != nil {
				p.set(i, v)
				if rc == nil {
					r.Set(key, record.OfItem(a.known, id, v))
				}
			}
		}
	}
	if len(absent) == 0 {
		return p.now
	}
	return a.insert(id, w, p.now, absent, at)
}

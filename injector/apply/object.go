package apply

import (
	"cmp"
	"maps"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// object applies the changes to an object of type t: b, w and p are it in the
// base pod, as wanted, and as it is now.
func (a *run) object(t *podschema.Type, c *merge.Change, b, w, now map[string]any, r *record.Place, at *location) map[string]any {
	p := fields{now: now}
	for _, name := range c.Segments() {
		a.field(t, c.In[name], name, b, w, &p, r, at.field(name))
	}
	return p.now
}

// fields are those of an object of the pod, which is copied when it is first changed.
type fields struct {
	now   map[string]any
	owned bool
}

func (f *fields) own() {
	if f.owned {
		return
	}
	f.owned, f.now = true, maps.Clone(f.now)
	if f.now == nil {
		f.now = map[string]any{}
	}
}

func (f *fields) set(name string, v any) {
	f.own()
	f.now[name] = v
}

func (f *fields) remove(name string) {
	f.own()
	delete(f.now, name)
}

func (a *run) field(t *podschema.Type, c *merge.Change, name string, b, w map[string]any, p *fields, r *record.Place, at *location) {
	ft, rc := t.Child(name), r.Child(name)
	was, had := b[name]
	now, has := p.now[name]
	switch c.Do {
	case merge.Expect:
		if rc.Empty() {
			place := expected(c, ft)
			if had {
				place.Was = []any{was}
			}
			r.Set(name, place)
		} else if ft != nil && ft.Kind() == podschema.Map {
			expectIn(c, ft, rc)
		}
	case merge.Renew:
		if rc.Owns() {
			return
		}
		if has {
			a.emit(patch.Remove, at, nil)
			p.remove(name)
		}
		place := &record.Place{Added: true}
		if had {
			place.Was = []any{was}
		}
		r.Set(name, place)
	case merge.Remove:
		switch {
		case rc.Gone(): // what stands there now, somebody put back
			return
		case rc.Owns() && now != nil && !unchanged(rc, ft, now):
			a.warn(c, at)
			return
		case has:
			a.emit(patch.Remove, at, nil)
			p.remove(name)
		}
		r.Set(name, &record.Place{Was: []any{was}})
	case merge.Write, merge.Join:
		if v, write := a.value(c, ft, w[name], now, record.Whole(a.known, ft, w[name]), rc, at, nil); write {
			a.put(p, name, at, v)
			r.Set(name, written(record.Whole(a.known, ft, v), rc, was, had))
		} else if v != nil {
			p.set(name, v)
		}
	default:
		a.around(t, c, name, b, w, p, r, at)
	}
}

// around applies the changes in a field that as a whole is not the plan's.
func (a *run) around(t *podschema.Type, c *merge.Change, name string, b, w map[string]any, p *fields, r *record.Place, at *location) {
	ft, rc := t.Child(name), r.Child(name)
	wanted, now := w[name], p.now[name]
	if wanted == nil || c.Do == merge.Nothing && !c.Edits() && now == nil {
		return
	}
	was, had := b[name]
	switch {
	case now == nil:
		// The pod lacks the object that the places are in.
		a.put(p, name, at, wanted)
		place := a.anew(c, ft, was, wanted)
		place.Made = place.Made || !had // a pod template can lack what the pod made of it has
		if had && was == nil {
			place.Was = []any{nil}
		}
		r.Set(name, place)
	case rc.Owns():
		// Pillion wrote the whole of it before, and wants places in it now.
		if !c.Edits() {
			return
		}
		if !unchanged(rc, ft, now) {
			a.warn(c, at)
			return
		}
		a.put(p, name, at, wanted)
		r.Set(name, a.anew(c, ft, was, wanted))
	default:
		rc = r.Enter(name)
		p.set(name, a.descend(ft, c, was, wanted, now, rc, at))
		if rc.Empty() {
			r.Forget(name)
		}
	}
}

// descend applies the changes in a value that the pod has.
func (a *run) descend(t *podschema.Type, c *merge.Change, was, wanted, now any, r *record.Place, at *location) any {
	switch w := wanted.(type) {
	case map[string]any:
		p, ok := now.(map[string]any)
		b, _ := was.(map[string]any)
		if ok {
			return a.object(t, c, b, w, p, r, at)
		}
	case []any:
		p, ok := now.([]any)
		b, _ := was.([]any)
		if ok {
			return a.list(t, c, b, w, p, r, at)
		}
	}
	return now
}

// anew is the place of a value that is put where the pod had none: as if the
// changes had been made in it one by one.
func (a *run) anew(c *merge.Change, t *podschema.Type, was, wanted any) *record.Place {
	place := &record.Place{Made: c.Do == merge.Make}
	var empty any = map[string]any{}
	if _, ok := wanted.([]any); ok {
		empty = []any{}
	}
	inner := &run{ctx: a.ctx, known: a.known, aside: true}
	inner.descend(t, c, was, wanted, empty, place, nil)
	a.err = cmp.Or(a.err, inner.err)
	return place
}

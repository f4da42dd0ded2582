package apply

import (
	"maps"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// object applies the changes to an object: b, w and now are it in the base pod, as wanted, and as
// it is. R is its place.
func (a *run) object(s spot, b, w, now map[string]any, r *record.Place) map[string]any {
	p := fields{now: now}
	for _, name := range s.change.Segments() {
		f := spot{change: s.change.In[name], t: s.t.Child(name), wanted: w[name], in: r, segment: name, at: s.at.field(name)}
		f.was, f.had = b[name]
		a.field(f, &p)
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

func (a *run) field(s spot, p *fields) {
	rc := s.recorded()
	var has bool
	s.now, has = p.now[s.segment]
	switch s.change.Do {
	case merge.Expect:
		if rc.Empty() {
			place := expected(s.change, s.t)
			if s.had {
				place.Was = []any{s.was}
			}
			s.in.Set(s.segment, place)
		} else if s.t != nil && s.t.Kind() == podschema.Map {
			expectIn(s.change, s.t, rc)
		}
	case merge.Renew:
		if rc.Owns() {
			return
		}
		if has {
			a.emit(patch.Remove, s.at, nil)
			p.remove(s.segment)
		}
		place := &record.Place{Added: true}
		if s.had {
			place.Was = []any{s.was}
		}
		s.in.Set(s.segment, place)
	case merge.Remove:
		switch {
		case rc.Gone(): // what stands there now, somebody put back
			return
		case rc.Owns() && s.now != nil && !unchanged(rc, s.t, s.now):
			a.warn(s.change, s.at)
			return
		case has:
			a.emit(patch.Remove, s.at, nil)
			p.remove(s.segment)
		}
		s.in.Set(s.segment, &record.Place{Was: []any{s.was}})
	default:
		a.set(p, s, a.settle)
	}
}

// set gives a field what settle says.
func (a *run) set(p *fields, s spot, settle func(spot) (any, bool)) {
	if v, put := settle(s); put {
		a.put(p, s.segment, s.at, v)
	} else if v != nil {
		p.set(s.segment, v)
	}
}

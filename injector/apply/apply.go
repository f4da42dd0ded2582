package apply

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Edit is one step of a JSON patch.
type Edit struct {
	Op    string   // add, replace or remove
	Path  []string // unescaped; a list's index as decimal, "-" behind its last item
	Value any      // nil for remove
}

// Result is a pod as it shall be, and the way there.
type Result struct {
	// Pod has the annotation with its record, unless Pillion did nothing to it.
	// It shares unchanged parts with the pod that came in.
	Pod map[string]any
	// Edits lead from the pod that came in to Pod, one after the other.
	Edits []Edit
	// Warnings are sentences about places that somebody changed since Pillion
	// wrote them, and where the plan wants something else now.
	Warnings []string
}

// TooLargeError reports that the record of what the templates do would be
// larger than [record.MaxBytes].
type TooLargeError struct {
	// Template is the one with the largest fragment.
	Template string
	// Bytes is the size of the record, Came that of the record that the pod came
	// with.
	Bytes, Came int
}

func (e *TooLargeError) Error() string {
	came := ""
	if e.Came > 0 {
		came = fmt.Sprintf(", of which the pod came with %d: if they are a copy's, remove the annotation from the pod", e.Came)
	}
	return fmt.Sprintf("the record of what was injected would have %d bytes, %d are allowed%s", e.Bytes, record.MaxBytes, came)
}

// Apply compares the record, the plan and the pod, and brings the pod up to
// date. StatusKey is the full name of the annotation. The error is a
// [*TooLargeError] or, for metadata that is no object, a [*merge.PodError].
func Apply(pod map[string]any, rec record.Record, plan merge.Plan, statusKey string) (Result, error) {
	names := plan.Templates()
	if len(names) == 0 {
		return Result{Pod: pod}, nil
	}
	a := &run{}
	written := record.New(statusKey)
	maps.Copy(written.Templates, rec.Templates)
	written.Root = rec.Root.Clone()
	a.pod = a.object(podschema.Pod(), plan.Root, plan.Base, plan.Pod, pod, written.Root, nil)
	for _, f := range plan.Fragments {
		if slices.Contains(names, f.Template) {
			written.Templates[f.Template] = f.Hash
		}
	}
	if err := a.annotate(written, rec, plan, statusKey); err != nil {
		return Result{}, err
	}
	return Result{Pod: a.pod, Edits: a.edits, Warnings: a.warnings}, nil
}

// run is one application of a plan.
type run struct {
	pod      map[string]any
	edits    []Edit
	warnings []string
}

func (a *run) emit(op string, at *location, v any) {
	a.edits = append(a.edits, Edit{Op: op, Path: at.pointer(), Value: v})
}

// put sets a field of p, which is the run's own copy.
func (a *run) put(p map[string]any, name string, at *location, v any) {
	op := "add"
	if _, ok := p[name]; ok {
		op = "replace"
	}
	a.emit(op, at, v)
	p[name] = v
}

const changedSince = "somebody changed it since the template wrote it, so it stays, and what the template wants there now is left out"

func (a *run) warn(c *merge.Change, at *location) {
	template := "?"
	if c != nil && len(c.Templates) > 0 {
		template = c.Templates[0]
	}
	a.warnings = append(a.warnings, fmt.Sprintf("template %s: %s: %s", template, podschema.Readable(at.keyed()), changedSince))
}

// location is a place of the pod as it is now: the segments of its keyed path,
// and for items of lists their indexes.
type location struct {
	up      *location
	segment string
	index   string // "" for fields
}

func (l *location) field(name string) *location { return &location{up: l, segment: name} }

func (l *location) item(key string, index int) *location {
	return &location{up: l, segment: key, index: fmt.Sprint(index)}
}

func (l *location) end(key string) *location { return &location{up: l, segment: key, index: "-"} }

func (l *location) pointer() []string {
	var path []string
	for ; l != nil; l = l.up {
		segment := l.segment
		if l.index != "" {
			segment = l.index
		}
		path = append(path, segment)
	}
	slices.Reverse(path)
	return path
}

func (l *location) keyed() []string {
	var path []string
	for ; l != nil; l = l.up {
		path = append(path, l.segment)
	}
	slices.Reverse(path)
	return path
}

// object applies the changes to an object of type t: b, w and p are it in the
// base pod, as wanted, and as it is now.
func (a *run) object(t *podschema.Type, c *merge.Change, b, w, p map[string]any, r *record.Place, at *location) map[string]any {
	p = maps.Clone(p)
	if p == nil {
		p = map[string]any{}
	}
	for _, name := range c.Segments() {
		a.field(t, c.In[name], name, b, w, p, r, at.field(name))
	}
	return p
}

func (a *run) field(t *podschema.Type, c *merge.Change, name string, b, w, p map[string]any, r *record.Place, at *location) {
	ft, rc := t.Child(name), r.Child(name)
	was, had := b[name]
	now, has := p[name]
	switch c.Do {
	case merge.Expect:
		if rc.Empty() {
			r.Set(name, expected(c, ft))
		} else if ft != nil && ft.Kind() == podschema.Map {
			expectIn(c, ft, rc)
		}
	case merge.Renew:
		if rc.Owns() {
			return
		}
		if has {
			a.emit("remove", at, nil)
			delete(p, name)
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
			a.emit("remove", at, nil)
			delete(p, name)
		}
		r.Set(name, &record.Place{Was: []any{was}})
	case merge.Write:
		if v, write := a.value(c, ft, w[name], now, record.Whole(ft, w[name]), rc, at, nil); write {
			a.put(p, name, at, v)
			r.Set(name, written(record.Whole(ft, v), rc, was, had))
		} else if v != nil {
			p[name] = v
		}
	default:
		a.around(t, c, name, b, w, p, r, at)
	}
}

// around applies the changes in a field that as a whole is not the plan's.
func (a *run) around(t *podschema.Type, c *merge.Change, name string, b, w, p map[string]any, r *record.Place, at *location) {
	ft, rc := t.Child(name), r.Child(name)
	wanted, now := w[name], p[name]
	if wanted == nil || c.Do == merge.Nothing && !c.Edits() && now == nil {
		return
	}
	was, had := b[name]
	switch {
	case now == nil:
		// The pod lacks the object that the places are in.
		a.put(p, name, at, wanted)
		place := fresh(c, ft, was, wanted)
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
		r.Set(name, fresh(c, ft, was, wanted))
	default:
		rc = r.Enter(name)
		p[name] = a.descend(ft, c, was, wanted, now, rc, at)
		if rc.Empty() {
			delete(r.In, name)
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
		return a.leaf(c, t, wanted, now, rc, at)
	}
}

// leaf decides about one value of Pillion's own, which the plan wants changed.
func (a *run) leaf(c *merge.Change, t *podschema.Type, wanted, now any, rc *record.Place, at *location) (any, bool) {
	switch {
	case podschema.Equal(t, now, wanted):
		rc.Wrote = record.Whole(t, wanted).Wrote
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
	whole := record.Whole(t, now)
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

// expected is the place of a value that the API server derives.
func expected(c *merge.Change, t *podschema.Type) *record.Place {
	if t != nil && t.Kind() == podschema.Map {
		place := &record.Place{Made: true}
		expectIn(c, t, place)
		return place
	}
	place := &record.Place{Added: true}
	if v := c.Expected(); v != nil {
		place.Wrote = record.Digest(t, v)
	}
	return place
}

func expectIn(c *merge.Change, t *podschema.Type, place *record.Place) {
	for name, child := range c.In {
		if child.Do == merge.Expect && place.Child(name).Empty() {
			place.Set(name, expected(child, t.Child(name)))
		}
	}
}

// fresh is the place of a value that is put where the pod had none: as if the
// changes had been made in it one by one.
func fresh(c *merge.Change, t *podschema.Type, was, wanted any) *record.Place {
	switch c.Do {
	case merge.Write:
		place := record.Whole(t, wanted)
		if was != nil {
			place.Was = []any{was}
		} else if place.Wrote == "" {
			place.Added = true
		}
		return place
	case merge.Remove:
		return &record.Place{Was: []any{was}}
	case merge.Renew:
		place := &record.Place{Added: true}
		if was != nil {
			place.Was = []any{was}
		}
		return place
	case merge.Expect:
		return expected(c, t)
	}
	place := &record.Place{Made: c.Do == merge.Make}
	switch w := wanted.(type) {
	case map[string]any:
		b, _ := was.(map[string]any)
		for name, child := range c.In {
			if p := fresh(child, t.Child(name), b[name], w[name]); !p.Empty() {
				place.Set(name, p)
			}
		}
	case []any:
		freshItems(c, t, was, w, place)
	}
	return place
}

func freshItems(c *merge.Change, t *podschema.Type, was any, wanted []any, place *record.Place) {
	id, _ := t.Identity()
	b, _ := was.([]any)
	index, before := merge.IndexOf(id, wanted), merge.IndexOf(id, b)
	for key, child := range c.In {
		var original any
		if i, ok := before[key]; ok {
			original = b[i]
		}
		i, have := index[key]
		switch {
		case child.Do == merge.Remove:
			place.Removed = append(place.Removed, removedItems(id, b, key)...)
		case have && child.Do == merge.Write:
			p := record.OfItem(id, wanted[i])
			if original != nil {
				p.Was, p.Added = []any{original}, false
			}
			place.Set(key, p)
		case have:
			if p := fresh(child, id.Elem, original, wanted[i]); !p.Empty() {
				place.Set(key, p)
			}
		}
	}
	slices.SortFunc(place.Removed, func(a, b record.Removed) int { return a.At - b.At })
}

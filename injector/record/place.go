package record

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/memo"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Place is what the record says of one place of a pod: of a field, of a map's
// entry or of a list's item, and of the places in it. A keyed path leads there:
// fields and keys by their names, items of lists by their [podschema.Identity.Key].
type Place struct {
	// Made: Pillion made this object or list to hold what is in it. Where nothing
	// else is in it, the base pod does not have it.
	Made bool
	// Added: Pillion added the item or the object as a whole, or the API server
	// derived it from what Pillion wrote. The base pod does not have it, with all
	// that others made of it.
	Added bool
	// Wrote is the digest of the value that Pillion wrote, "" for no value.
	Wrote string
	// Was has the value that stood there before Pillion wrote or removed it. It
	// is empty if nothing stood there.
	Was []any
	// Removed are the items that Pillion took out of this list.
	Removed []Removed
	// Behind is how many items of the same key stood in front of the item that Pillion
	// wrote. Without Was they are the author's own, and the item stands beside them.
	Behind int
	// In has the places in this one, by the next segment of the keyed path. It is not
	// changed but by [Place.Set].
	In map[string]*Place

	// origin is the place of which this one is a copy that shares In, nil for none.
	origin *Place
	// text is the place as JSON. Only origins have it.
	text []byte
}

// Removed is an item that was taken out of a list.
type Removed struct {
	// At is the item's index in the list without Pillion's own items.
	At    int
	Value any
}

// Child returns the place of a segment in p, nil if the record says nothing of
// it. It works on a nil place.
func (p *Place) Child(segment string) *Place {
	if p == nil {
		return nil
	}
	return p.In[segment]
}

// Set puts a place into p.
func (p *Place) Set(segment string, child *Place) {
	p.own()
	p.In[segment] = child
}

// own gives the place an In of its own.
func (p *Place) own() {
	switch {
	case p.In == nil:
		p.In = map[string]*Place{}
	case p.origin != nil:
		p.In = maps.Clone(p.In)
	}
	p.origin = nil
}

// Forget takes the place of a segment out of p.
func (p *Place) Forget(segment string) {
	if _, ok := p.In[segment]; ok {
		p.own()
		delete(p.In, segment)
	}
}

// Become makes p say of what Pillion wrote there what q says. Q is not used any more.
func (p *Place) Become(q *Place) {
	p.Wrote, p.In, p.origin = q.Wrote, q.In, q.origin
}

// Enter returns the place of a segment in p, made if need be.
func (p *Place) Enter(segment string) *Place {
	child := p.In[segment]
	switch {
	case child == nil:
		child = &Place{}
		p.Set(segment, child)
	case p.origin != nil:
		own := *child
		child = &own
		p.Set(segment, child)
	}
	return child
}

// Owns reports whether what stands at the place is Pillion's: written, added,
// or taken away.
func (p *Place) Owns() bool {
	return p != nil && (p.Added || p.Wrote != "" || len(p.Was) > 0 && !p.Made)
}

// Beside reports whether Pillion put the item behind one of the author's of the same key,
// which stays.
func (p *Place) Beside() bool { return p != nil && p.Behind > 0 && len(p.Was) == 0 }

// Gone reports whether Pillion took away what stood at the place, and wrote
// nothing there.
func (p *Place) Gone() bool {
	return p != nil && len(p.Was) > 0 && !p.Made && !p.Added && p.Wrote == "" && len(p.In) == 0
}

// Empty reports whether the record says nothing of the place nor of any in it.
func (p *Place) Empty() bool {
	if p == nil {
		return true
	}
	if p.Made || p.Owns() || len(p.Removed) > 0 {
		return false
	}
	for _, child := range p.In {
		if !child.Empty() {
			return false
		}
	}
	return true
}

// Clone returns a copy that shares nothing with p but the values in Was and
// Removed.
func (p *Place) Clone() *Place {
	if p == nil {
		return nil
	}
	c := *p
	c.Was, c.Removed, c.origin, c.text = slices.Clone(p.Was), slices.Clone(p.Removed), nil, nil
	if p.In != nil {
		c.In = make(map[string]*Place, len(p.In))
		for segment, child := range p.In {
			c.In[segment] = child.Clone()
		}
	}
	return &c
}

// Same reports whether two places say the same of what Pillion wrote there and
// in them.
func (p *Place) Same(q *Place) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.Wrote == q.Wrote && maps.EqualFunc(p.In, q.In, (*Place).Same)
}

const digestLength = 8

// Digest returns eight hexadecimal digits of a value's canonical form, which the
// API's defaulting does not change. It tells a value that somebody changed from
// one that is as it was written. It proves nothing: who can forge a record can
// change the pod as well.
func Digest(t *podschema.Type, v any) string {
	room := texts.Get().(*[]byte)
	defer texts.Put(room)
	text := podschema.AppendCanonical((*room)[:0], t, v)
	if cap(text) <= MaxBytes {
		*room = text
	}
	h := fnv.New64a()
	h.Write(text)
	sum := h.Sum64()
	var folded [digestLength / 2]byte
	binary.BigEndian.PutUint32(folded[:], uint32(sum)^uint32(sum>>32))
	return hex.EncodeToString(folded[:])
}

// The places of values that never change are made once.
var (
	wholes = new(memo.Key[*Place])
	items  = new(memo.Key[*Place])
)

// copyOf returns a copy of a place that is shared by many.
func (p *Place) copyOf() *Place {
	return &Place{Made: p.Made, Added: p.Added, Wrote: p.Wrote, In: p.In, origin: p}
}

// shareable makes the place one to copy.
func (p *Place) shareable() *Place {
	p.text, _ = p.appendJSON(nil)
	return p
}

// OfItem returns the place of a list's item that is added as a whole, such as a
// sidecar. It has a digest of each value in the item.
func OfItem(known memo.Tables, id podschema.Identity, item any) *Place {
	if id.Set() {
		return &Place{Added: true}
	}
	if f := known.Of(item); f != nil {
		return items.Do(f, func() *Place { return ofItem(known, id, item).shareable() }).copyOf()
	}
	return ofItem(known, id, item)
}

func ofItem(known memo.Tables, id podschema.Identity, item any) *Place {
	p := whole(known, id.Elem, item, id.Keys)
	if p.Wrote == "" {
		p.Added = true
	}
	return p
}

// Whole returns the place of a value that is written as a whole, with a digest
// of each value in it. Known is what is known about values that never change.
func Whole(known memo.Tables, t *podschema.Type, v any) *Place {
	if f := known.Of(v); f != nil {
		return wholes.Do(f, func() *Place { return whole(known, t, v, nil).shareable() }).copyOf()
	}
	return whole(known, t, v, nil)
}

// whole makes the place of a value, without the fields that name it.
func whole(known memo.Tables, t *podschema.Type, v any, keys []podschema.Key) *Place {
	if t.IsOneAddition() {
		return &Place{Wrote: Digest(t, v)}
	}
	p := &Place{}
	switch v := v.(type) {
	case map[string]any:
		p.In = make(map[string]*Place, len(v))
		for name, value := range v {
			if value != nil && !slices.ContainsFunc(keys, func(k podschema.Key) bool { return k.Name == name }) {
				p.In[name] = Whole(known, t.Child(name), value)
			}
		}
	case []any:
		id, _ := t.Identity()
		p.In = make(map[string]*Place, len(v))
		for _, item := range v {
			if key, ok := id.Key(item); ok {
				p.In[key] = OfItem(known, id, item)
			}
		}
	}
	return p
}

// Match returns the index of the item that each of the keys means in a list of a pod,
// which is at place p. An author may have an item twice, as environments do. Then the
// key means the one that is as Pillion wrote it, or else the first, or the one that has
// as many in front of it as Pillion's had; if it has none, the key means no item.
func Match[V any](p *Place, id podschema.Identity, items []any, keys map[string]V) map[string]int {
	if len(keys) == 0 {
		return nil
	}
	index := make(map[string]int, min(len(keys), len(items)))
	var several map[string][]int
	for i, key := range podschema.KeysIn(id, items, keys) {
		c := p.Child(key)
		if c != nil && c.Behind > 0 {
			if several == nil {
				several = map[string][]int{}
			}
			several[key] = append(several[key], i)
			continue
		}
		first, taken := index[key]
		if !taken {
			index[key] = i
			continue
		}
		if c != nil && c.Wrote != "" && Digest(id.Elem, items[first]) != c.Wrote && Digest(id.Elem, items[i]) == c.Wrote {
			index[key] = i
		}
	}
	for key, all := range several {
		if i, ok := matchBehind(p.In[key], id, items, all); ok {
			index[key] = i
		}
	}
	return index
}

// matchBehind is Match for an item that had others of its key in front of it. All are
// the indexes of the items of the key.
func matchBehind(c *Place, id podschema.Identity, items []any, all []int) (int, bool) {
	written := func(i int) bool { return c.Wrote != "" && Digest(id.Elem, items[i]) == c.Wrote }
	counted := c.Behind < len(all)
	if counted && written(all[c.Behind]) {
		return all[c.Behind], true
	}
	if i := slices.IndexFunc(all, written); i >= 0 {
		return all[i], true
	}
	if counted {
		return all[c.Behind], true
	}
	return 0, false
}

// prune takes out what the place would give back where the pod has no room for
// it. It means nothing now, and would mean something as soon as a template
// makes such a room.
func (p *Place) prune(v any, t *podschema.Type) {
	id, keyed := t.Identity()
	items, isList := v.([]any)
	object, isObject := v.(map[string]any)
	// Items are taken out by their keys, and a list that Pillion wrote as a whole
	// has none to give back.
	p.Removed = slices.DeleteFunc(p.Removed, func(r Removed) bool {
		_, named := id.Key(r.Value)
		return !keyed || !named || v != nil && !isList || p.Owns()
	})
	var index map[string]int
	if isList && keyed {
		index = Match(p, id, items, p.In)
	}
	for segment, child := range p.In {
		switch {
		case isObject:
			value, have := object[segment]
			if !have && len(child.Was) > 0 && (child.Was[0] == nil || child.Made) {
				child.Was = nil
			}
			child.prune(value, t.Child(segment))
		case index != nil:
			if i, have := index[segment]; have {
				child.prune(items[i], id.Elem)
			} else {
				child.forget()
			}
		default:
			child.forget()
		}
	}
}

// uncount takes out how many items stand in front of one that is not Pillion's: that means
// nothing, and only a forged record says it.
func (p *Place) uncount() {
	if !p.Owns() {
		p.Behind = 0
	}
}

// forget takes out all that the place and those in it would give back.
func (p *Place) forget() {
	p.Was, p.Removed = nil, nil
	p.uncount()
	for _, child := range p.In {
		child.forget()
	}
}

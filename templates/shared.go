package templates

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/utils/lru"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/memo"
	"github.com/pillion-dev/pillion/templates/param"
)

// shared is a part of a fragment that depends on nothing but parameters and the installer's
// values: it is the same for all pods with the same parameters. Nobody changes its value.
type shared struct {
	node
	expression.Place
	// index is the part's number in its template.
	index int
}

// render charges the run with what the part costs, whether it has to be made or not. So a
// template is as expensive for the thousandth pod as for the first.
func (n *shared) render(r *renderer, _ *expression.Scope) (any, error) {
	p, err := r.made.part(r, n)
	if err != nil {
		return nil, err
	}
	if err := r.run.Charge(p.cost, p.bytes, n.Place); err != nil {
		return nil, err
	}
	return p.value, p.err
}

// made is what has been made of a template for one set of parameters.
type made struct {
	params *param.Values
	parts  []atomic.Pointer[part]
	// memo knows the parts' values.
	memo memo.Table
	// room is how many bytes of JSON may still be kept of the parts.
	room atomic.Int64
	// cache is where this is kept; nil if it is not.
	cache *Cache
	// kept is how many bytes of JSON are kept, until gone says that the cache has let go.
	mu   sync.Mutex
	kept int
	gone bool

	// variants are the fragments of the last pods that differ in something else, none of
	// more than maxKept bytes. The next one replaces the one at number next.
	variants [maxVariants]atomic.Pointer[variant]
	next     atomic.Uint32
}

// variant is a fragment as some pods get it: those of one workload are the same for a
// template.
type variant struct {
	fragment map[string]any
	bytes    int
	memo     memo.Table
}

// settled returns the fragment, or one that is the same, and what is known about it. A
// fragment is worth remembering things about when it comes for the second time.
func (m *made) settled(fragment map[string]any, run *expression.Run) (map[string]any, memo.Tables) {
	_, bytes := run.Cost()
	if bytes > maxPart {
		return fragment, memo.Tables{&m.memo}
	}
	for i := range m.variants {
		if v := m.variants[i].Load(); v != nil && same(v.fragment, fragment) {
			v.memo.Keep(v.fragment)
			return v.fragment, memo.Tables{&v.memo, &m.memo}
		}
	}
	if m.keep(bytes) {
		if old := m.variants[m.next.Add(1)%maxVariants].Swap(&variant{fragment: fragment, bytes: bytes}); old != nil {
			m.keep(-old.bytes)
		}
	}
	return fragment, memo.Tables{&m.memo}
}

// same reports whether two values are equal. Parts that they share are not looked at.
// (reflect.DeepEqual takes memory for each entry.)
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
			return true
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if len(a) > 0 && &a[0] == &b[0] {
			return true
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// part is the value of a [shared], or the error that it gives, and what it cost.
type part struct {
	value any
	err   error
	cost  uint64
	bytes int
}

func (t *Template) newMade(params *param.Values) *made {
	m := &made{params: params, parts: make([]atomic.Pointer[part], t.sharedParts)}
	m.room.Store(maxPart)
	return m
}

// keep says that so many bytes more are kept, and has the cache let go of others that were
// used longer ago. It reports false if nothing more is to be kept.
func (m *made) keep(bytes int) bool {
	if m.cache == nil {
		return true
	}
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return false
	}
	m.kept += bytes
	m.mu.Unlock()
	m.cache.add(bytes)
	return true
}

// letGo returns how many bytes were kept. Nothing more is, for pods that are being rendered.
func (m *made) letGo() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	return m.kept
}

// part returns the value of a part. Its error is that of the context, which has ended.
func (m *made) part(r *renderer, n *shared) (*part, error) {
	if p := m.parts[n.index].Load(); p != nil {
		return p, nil
	}
	run := r.template.names.Run(r.run.Context(), nil, nil, m.params.ByName)
	alone := &renderer{template: r.template, run: run, made: m}
	p := &part{}
	p.value, p.err = n.node.render(alone, run.Scope())
	if err := run.Interrupted(); err != nil && r.run.Context().Err() != nil {
		return nil, err
	}
	p.cost, p.bytes = run.Cost()
	if m.room.Add(-int64(p.bytes)) < 0 {
		m.room.Add(int64(p.bytes))
		return p, nil
	}
	if !m.keep(p.bytes) {
		return p, nil
	}
	// Whoever was first has the value that all share.
	if !m.parts[n.index].CompareAndSwap(nil, p) {
		p = m.parts[n.index].Load()
	}
	m.memo.Keep(p.value)
	return p, nil
}

const (
	// maxKept is how many bytes of JSON a [Cache] keeps. Decoded, with what is known about
	// them, they take up to fifty times as much.
	maxKept = 384 << 10
	// maxSets is how many sets of parameters it keeps something for.
	maxSets = 1024
	// maxPart is how many bytes it keeps of the parts that belong to one of them, and of each
	// variant. There are maxVariants of those.
	maxPart     = 6 << 10
	maxVariants = 4
	// maxKey is how long the annotations are that set the parameters, at most.
	maxKey = 2 << 10
)

// Cache keeps what templates make of parameters, for the sets of parameters that were used
// last. What is kept is what would be made again. The zero Cache is ready for use, by any
// number of goroutines.
type Cache struct {
	once   sync.Once
	sets   *lru.Cache
	adding sync.Mutex
	kept   atomic.Int64
}

// cacheKey has all that the shared parts of a template depend on. It keeps no template alive.
type cacheKey struct {
	template weak.Pointer[Template]
	// annotations are those of the namespace and of the pod that set parameters.
	annotations string
}

func (c *Cache) get(key cacheKey) *made {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		c.sets = lru.NewWithEvictionFunc(maxSets, func(_ lru.Key, m any) { c.kept.Add(-int64(m.(*made).letGo())) })
	})
	if m, ok := c.sets.Get(key); ok {
		return m.(*made)
	}
	return nil
}

// put keeps m, unless something is kept for that key. It returns what is. It is called after
// get.
func (c *Cache) put(key cacheKey, m *made) *made {
	if c == nil || len(key.annotations) > maxKey {
		return m
	}
	c.adding.Lock()
	defer c.adding.Unlock()
	if first, ok := c.sets.Get(key); ok {
		return first.(*made)
	}
	m.cache = c
	c.sets.Add(key, m)
	m.keep(len(key.annotations) + sizeOf(m.params))
	return m
}

// sizeOf is about what parameters take, in bytes of JSON. Their defaults are the template's.
func sizeOf(params *param.Values) int {
	const entry = 50
	size := 0
	for _, value := range params.ByName {
		size += entry
		if m, ok := value.(map[string]any); ok {
			size += entry * len(m)
		}
	}
	return size
}

// add says that so many bytes more are kept.
func (c *Cache) add(bytes int) {
	for c.kept.Add(int64(bytes)) > maxKept && c.sets.Len() > 0 {
		c.sets.RemoveOldest()
		bytes = 0
	}
}

// made returns what is made of the template for a pod's parameters. Its error is a
// *ParameterError.
func (t *Template) made(in Input) (*made, error) {
	a := in.annotations()
	key := cacheKey{template: weak.Make(t), annotations: t.setBy(a)}
	if m := in.Cache.get(key); m != nil {
		return m, nil
	}
	params, err := t.parameters.Resolve(a)
	if err != nil {
		return nil, err
	}
	return in.Cache.put(key, t.newMade(params)), nil
}

// setBy returns the annotations that set parameters of the template, in one text. Different
// annotations give different texts.
func (t *Template) setBy(a param.Annotations) string {
	var room [8]string
	var b strings.Builder
	for _, annotations := range []map[string]string{a.Namespace, a.Pod} {
		keys := room[:0]
		for key := range annotations {
			if strings.HasPrefix(key, t.annotations) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			// No key of an annotation has these characters.
			b.WriteString(key)
			b.WriteByte(0)
			b.WriteString(annotations[key])
			b.WriteByte(1)
		}
		b.WriteByte(2)
	}
	return b.String()
}

// share returns the tree in which the largest parts that depend on nothing but parameters
// are [shared], and how many there are.
func share(tree node) (node, int) {
	s := &sharing{}
	return s.share(tree), s.parts
}

type sharing struct{ parts int }

func (s *sharing) share(n node) node {
	if len(reads(n)) == 0 {
		shared := &shared{node: n, index: s.parts}
		switch n := n.(type) {
		case *constant:
			if _, isMap := n.value.(map[string]any); !isMap {
				if _, isList := n.value.([]any); !isList {
					return n
				}
			}
			shared.At = n.at
		case *mapping:
			shared.Place = n.Place
		case *sequence:
			shared.At = n.at
		case *whole:
			shared.Place = n.expression.Place
		}
		s.parts++
		return shared
	}
	switch n := n.(type) {
	case *mapping:
		copied := *n
		copied.entries = slices.Clone(n.entries)
		for i, e := range n.entries {
			copied.entries[i].value = s.share(e.value)
		}
		return &copied
	case *sequence:
		copied := *n
		copied.items = slices.Clone(n.items)
		for i, it := range n.items {
			copied.items[i].node = s.share(it.node)
		}
		return &copied
	}
	return n
}

// reads returns what a part of a fragment depends on besides parameters and the installer's
// values: the pod, its namespace, and the names that the $each and $for around it bind.
func reads(n node) []string {
	var names []string
	note := func(e *expression.Expression) {
		if e != nil {
			names = append(names, e.ReadsOfPod()...)
		}
	}
	parts := func(parts []textPart) {
		for _, p := range parts {
			note(p.expression)
		}
	}
	switch n := n.(type) {
	case *text:
		parts(n.parts)
	case *whole:
		note(n.expression)
	case *mapping:
		note(n.condition)
		for _, e := range n.entries {
			parts(e.text)
			names = append(names, reads(e.value)...)
		}
	case *sequence:
		for _, it := range n.items {
			inside := reads(it.node)
			switch {
			case it.loop != nil:
				note(it.loop.over)
				inside = slices.DeleteFunc(inside, func(name string) bool { return name == it.loop.name })
			case it.each != "":
				inside = append(inside, "pod") // its containers
			}
			names = append(names, inside...)
		}
	}
	return names
}

package fragment

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Insert inserts items into a list, each at its $position. The first front items of the list are those that
// earlier templates put first: First comes after them. Items without an anchor are inserted first, the others
// when their anchor is there. If no remaining item has its anchor, Insert appends the first one, returns it as
// stray, and continues.
//
// Insert takes time linear in the lengths of the list and the items.
func Insert(id podschema.Identity, list []any, front int, items []Item) (all []any, stray []Item) {
	if !hasPositions(items) {
		all := slices.Grow(slices.Clip(list), len(items))
		for _, it := range items {
			if v := it.JSON(); v != nil {
				all = append(all, v)
			}
		}
		return all, nil
	}
	c := newChain(id, list, front)
	waiting, placed := map[string][]Item{}, map[*Node]bool{}
	place := func(it Item, insert func(Item)) {
		// An inserted item may be the anchor of waiting ones.
		for next := []Item{it}; len(next) > 0; next, insert = next[1:], c.insert {
			if placed[next[0].Node] {
				continue
			}
			insert(next[0])
			placed[next[0].Node] = true
			next = append(next, waiting[next[0].Key]...)
			delete(waiting, next[0].Key)
		}
	}
	for _, it := range items {
		anchor := anchorOf(id, it.Position)
		if _, there := c.byKey[anchor]; anchor == "" || there {
			place(it, c.insert)
		} else if it.JSON() != nil {
			waiting[anchor] = append(waiting[anchor], it)
		}
	}
	if len(waiting) > 0 {
		for _, it := range items {
			if len(waiting[anchorOf(id, it.Position)]) > 0 && !placed[it.Node] {
				stray = append(stray, it)
				place(it, c.append)
			}
		}
	}
	return c.list(), stray
}

func hasPositions(items []Item) bool {
	for _, it := range items {
		if it.Position.Kind != directive.Default {
			return true
		}
	}
	return false
}

// anchorOf returns the key of the anchor, "" for none.
func anchorOf(id podschema.Identity, p directive.Place) string {
	if p.Kind != directive.Before && p.Kind != directive.After || id.Set() || p.Anchor == "" {
		return ""
	}
	name := id.Keys[0].Name
	if key, ok := id.Key(map[string]any{name: p.Anchor}); ok {
		return key
	}
	return name + "=" + p.Anchor
}

// chain is a doubly linked list. Link 0 is its head and its end.
type chain struct {
	id    podschema.Identity
	links []link
	// byKey has the link of each key, tail the last link that was inserted after a link.
	byKey map[string]int
	tail  map[int]int
	// front is the last of the links that come first.
	front int
}

type link struct {
	item       any
	prev, next int
}

func newChain(id podschema.Identity, list []any, front int) *chain {
	c := &chain{id: id, links: make([]link, 1, len(list)+1), byKey: make(map[string]int, len(list)), tail: map[int]int{}}
	for i, item := range list {
		at := c.link(c.links[0].prev, item)
		if key, ok := id.Key(item); ok {
			c.byKey[key] = at
		}
		if i < front {
			c.front = at
		}
	}
	return c
}

// link inserts an item after a link, and returns the new link.
func (c *chain) link(behind int, item any) int {
	at, next := len(c.links), c.links[behind].next
	c.links = append(c.links, link{item, behind, next})
	c.links[behind].next, c.links[next].prev = at, at
	return at
}

func (c *chain) append(it Item) { c.insertAfter(c.links[0].prev, it) }

func (c *chain) insertAfter(behind int, it Item) int {
	v := it.JSON()
	if v == nil {
		return behind
	}
	at := c.link(behind, v)
	c.byKey[it.Key] = at
	return at
}

// insert inserts an item at its position. The anchor must be there.
func (c *chain) insert(it Item) {
	anchor, anchored := c.byKey[anchorOf(c.id, it.Position)]
	switch kind := it.Position.Kind; {
	case anchored && kind == directive.Before:
		c.insertAfter(c.links[anchor].prev, it)
	case anchored && kind == directive.After:
		behind, ok := c.tail[anchor]
		if !ok {
			behind = anchor
		}
		c.tail[anchor] = c.insertAfter(behind, it)
	case kind == directive.First, kind == directive.Before:
		c.front = c.insertAfter(c.front, it)
	default:
		c.append(it)
	}
}

func (c *chain) list() []any {
	list := make([]any, 0, len(c.links)-1)
	for at := c.links[0].next; at != 0; at = c.links[at].next {
		list = append(list, c.links[at].item)
	}
	return list
}

package merge

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// A digest stands in the status for one value that a template wrote: of its
// path and its canonical form, so that the API's defaulting does not change it.
// It tells what somebody changed since from what is as it was written. It is no
// proof of anything: who can forge a status can change the pod as well.

const digestLength = 8

func digest(path, value string) string {
	h := fnv.New64a()
	h.Write([]byte(path))
	h.Write([]byte{0})
	h.Write([]byte(value))
	sum := h.Sum64()
	return fmt.Sprintf("%08x", uint32(sum)^uint32(sum>>32))
}

// digestsIn reads digests without separators. What is no whole digest is left
// out: nothing depends on it.
func digestsIn(text string) map[string]bool {
	digests := make(map[string]bool, len(text)/digestLength)
	for ; len(text) >= digestLength; text = text[digestLength:] {
		digests[text[:digestLength]] = true
	}
	return digests
}

func digestText(digests map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(digests)), "")
}

// digests calls visit with the digest of each part of v, which stands at path:
// of every value in it that is compared as a whole. The fields that name an
// item of a list are no part of it.
func (s *shapes) digests(t *podschema.Type, path string, v any, visit func(string)) {
	if s.isValue(t) || s.added[t] {
		visit(digest(path, canonical(t, v)))
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if value != nil {
				s.digests(child(t, name), join(path, name), value, visit)
			}
		}
	case []any:
		id, _ := s.identityOf(t)
		for _, item := range v {
			if key, ok := id.key(item); ok {
				s.itemDigests(id, join(path, key), item, visit)
			}
		}
	}
}

func (s *shapes) itemDigests(id identity, path string, item any, visit func(string)) {
	object, isObject := item.(map[string]any)
	switch {
	case id.set():
		visit(digest(path, ""))
	case isObject && !s.isValue(id.elem):
		rest, empty := maps.Clone(object), true
		for _, k := range id.keys {
			delete(rest, k.Name)
		}
		s.digests(id.elem, path, rest, func(d string) { empty = false; visit(d) })
		if empty {
			visit(digest(path, ""))
		}
	default:
		s.digests(id.elem, path, item, visit)
	}
}

// sign records that the template wrote v at path.
func (m *merger) sign(t *podschema.Type, path string, v any) {
	if m.record.signs {
		m.digests(t, path, v, func(d string) { m.record.wrote[d] = true })
	}
}

func (m *merger) signItem(id identity, path string, v any) {
	if m.record.signs {
		m.itemDigests(id, path, v, func(d string) { m.record.wrote[d] = true })
	}
}

// resign records that the template wrote v where it had written old.
func (m *merger) resign(t *podschema.Type, path string, old, v any) {
	m.digests(t, path, old, func(d string) { delete(m.record.wrote, d) })
	m.sign(t, path, v)
}

// signed reports whether the template wrote exactly v at path, in this call or
// an earlier one.
func (m *merger) signed(t *podschema.Type, path string, v any) bool {
	whole := true
	m.digests(t, path, v, func(d string) { whole = whole && m.record.wrote[d] })
	return whole
}

func (m *merger) signedItem(id identity, path string, v any) bool {
	whole := true
	m.itemDigests(id, path, v, func(d string) { whole = whole && m.record.wrote[d] })
	return whole
}

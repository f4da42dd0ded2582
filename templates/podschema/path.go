package podschema

import (
	"fmt"
	"slices"
	"strings"
)

// Path is a keyed path: it leads to the same place of a pod when a list gets more items. It is immutable. Nil
// is the pod itself.
type Path struct {
	parent *Path
	// name is a field, the key of a map, or the [Identity.Key] of an item.
	name string
	// keyed is set for a key of a map and for an item.
	keyed bool
}

// Field returns the place of a field.
func (p *Path) Field(name string) *Path { return &Path{p, name, false} }

// Key returns the place of a map's value, or of a list's item.
func (p *Path) Key(key string) *Path { return &Path{p, key, true} }

// In returns the place of an object's field, or of a map's value, by the type of the object.
func (p *Path) In(t *Type, name string) *Path { return &Path{p, name, t == nil || t.Kind() == Map} }

// Parent returns the path around p.
func (p *Path) Parent() *Path { return p.parent }

// Name returns the last segment.
func (p *Path) Name() string { return p.name }

// Segments returns the path from the pod to p.
func (p *Path) Segments() []string {
	all := make([]string, 0, 8) // few places are deeper
	for ; p != nil; p = p.parent {
		all = append(all, p.name)
	}
	slices.Reverse(all)
	return all
}

// Is reports whether p has these segments.
func (p *Path) Is(segments ...string) bool {
	for _, name := range slices.Backward(segments) {
		if p == nil || p.name != name {
			return false
		}
		p = p.parent
	}
	return p == nil
}

// Readable writes the path as [Readable] does.
func (p *Path) Readable() string { return Readable(p.Segments()) }

// String writes the path for a record: fields with dots, and keys in brackets, in which ~0 means ~ and ~1 means
// ]. The key of an item of a set is a digest. [ParsePath] parses it.
func (p *Path) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

var keyEscaper, keyUnescaper = strings.NewReplacer("~", "~0", "]", "~1"), strings.NewReplacer("~1", "]", "~0", "~")

func (p *Path) write(b *strings.Builder) {
	if p == nil {
		return
	}
	p.parent.write(b)
	switch {
	case p.keyed:
		b.WriteByte('[')
		_, _ = keyEscaper.WriteString(b, RecordKey(p.name))
		b.WriteByte(']')
	case p.parent != nil:
		b.WriteByte('.')
		fallthrough
	default:
		b.WriteString(p.name)
	}
}

// RecordKey returns a key as it is in the paths of records. The key of an item of a set, which is the whole
// item, becomes a digest.
func RecordKey(key string) string {
	if text, ok := strings.CutPrefix(key, "="); ok && len(text) > digestLength {
		return "=" + digestOf([]byte(text))
	}
	return key
}

// maxDepth bounds the segments of a path. No place of a pod has more.
const maxDepth = 64

// ParsePath parses the result of [Path.String].
func ParsePath(text string) (*Path, error) {
	var p *Path
	for depth, rest := 0, text; rest != ""; depth++ {
		if depth == maxDepth {
			return nil, fmt.Errorf("the path %q has more than %d segments", Clip(text), maxDepth)
		}
		if key, ok := strings.CutPrefix(rest, "["); ok && p != nil {
			name, after, ok := strings.Cut(key, "]")
			if !ok {
				return nil, fmt.Errorf("the path %q has a [ without its ]", Clip(text))
			}
			p, rest = p.Key(keyUnescaper.Replace(name)), after
			continue
		}
		if p != nil {
			after, ok := strings.CutPrefix(rest, ".")
			if !ok {
				return nil, fmt.Errorf("the path %q has no dot before %q", Clip(text), Clip(rest))
			}
			rest = after
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("the path %q has an empty field", Clip(text))
		}
		p, rest = p.Field(rest[:end]), rest[end:]
	}
	if p == nil {
		return nil, fmt.Errorf("the path is empty")
	}
	return p, nil
}

// LookUp returns the pod's value at a keyed path, nil for none.
func LookUp(pod map[string]any, path []string) any {
	t, v := Pod(), any(pod)
	for _, segment := range path {
		switch w := v.(type) {
		case map[string]any:
			t, v = t.Child(segment), w[segment]
		case []any:
			id, keyed := t.Identity()
			if !keyed {
				return nil
			}
			i, ok := IndexIn(id, w, map[string]bool{segment: true})[segment]
			if !ok {
				return nil
			}
			t, v = id.Elem, w[i]
		default:
			return nil
		}
	}
	return v
}

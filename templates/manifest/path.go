package manifest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
)

// Path is the path from the manifest's root, which is nil, to a value. Paths are immutable and share their
// beginnings.
type Path struct {
	up *Path
	// key is a map's key; index is a list's, and key is empty then.
	key    string
	index  int
	isItem bool
}

// Field returns the path of a key.
func (p *Path) Field(key string) *Path { return &Path{up: p, key: key} }

// Item returns the path of an item, from 0.
func (p *Path) Item(index int) *Path { return &Path{up: p, index: index, isItem: true} }

// Fields returns p extended by several keys.
func (p *Path) Fields(keys ...string) *Path {
	for _, key := range keys {
		p = p.Field(key)
	}
	return p
}

// steps returns the path's parts from the root on.
func (p *Path) steps() []*Path {
	var steps []*Path
	for ; p != nil; p = p.up {
		steps = append(steps, p)
	}
	slices.Reverse(steps)
	return steps
}

var plainKey = regexp.MustCompile(`^[A-Za-z$_][A-Za-z0-9_-]*$`)

// String writes the path as in spec.containers[0].labels["app.example.com/name"].
func (p *Path) String() string {
	var b strings.Builder
	for _, s := range p.steps() {
		switch {
		case s.isItem:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plainKey.MatchString(s.key):
			b.WriteString("[" + show.Value(s.key) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// Place returns the path of a value in a manifest, and its line in the file. A step is a key or an index. If
// the value is absent, the line is that of the nearest value above it, or 0 if unknown.
func Place(d Document, steps ...any) (at string, line int) {
	var p *Path
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			p = p.Field(step)
		case int:
			p = p.Item(step)
		}
	}
	return p.String(), NewSource(d.Manifest, d.Line).Line(p)
}

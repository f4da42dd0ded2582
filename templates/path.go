package templates

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// path leads from the manifest's root (nil) to a value in it. Paths are
// immutable and share their beginnings.
type path struct {
	up *path
	// key is a map's key; index is a list's, and key is empty then.
	key    string
	index  int
	isItem bool
}

func (p *path) field(key string) *path { return &path{up: p, key: key} }

func (p *path) item(index int) *path { return &path{up: p, index: index, isItem: true} }

// fields returns p extended by several keys.
func (p *path) fields(keys ...string) *path {
	for _, key := range keys {
		p = p.field(key)
	}
	return p
}

// steps returns the path's parts from the root on.
func (p *path) steps() []*path {
	var steps []*path
	for ; p != nil; p = p.up {
		steps = append(steps, p)
	}
	slices.Reverse(steps)
	return steps
}

var plainKey = regexp.MustCompile(`^[A-Za-z$_][A-Za-z0-9_-]*$`)

// String writes the path as in spec.containers[0].labels["app.example.com/name"].
func (p *path) String() string {
	var b strings.Builder
	for _, s := range p.steps() {
		switch {
		case s.isItem:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plainKey.MatchString(s.key):
			b.WriteString("[" + shown(s.key) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

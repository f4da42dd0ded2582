// Package recordtest makes records for tests: those that a forger would write.
//
// May import: record.
package recordtest

import (
	"strings"

	"github.com/pillion-dev/pillion/injector/record"
)

// Forged lists what a forged record says, by keyed paths such as
// /spec/containers/name=web/env/name=FOO, in which "~1" is "/" and "~0" is "~".
type Forged struct {
	Templates map[string]string
	Added     []string
	Made      []string
	Was       map[string]any
	Removed   map[string][]record.Removed
	Wrote     map[string]string
	Behind    map[string]int
}

// Text returns the annotation's value.
func (f Forged) Text() string {
	r := record.New("")
	for name, hash := range f.Templates {
		r.Templates[name] = hash
	}
	for _, path := range f.Added {
		at(r, path).Added = true
	}
	for _, path := range f.Made {
		at(r, path).Made = true
	}
	for path, v := range f.Was {
		at(r, path).Was = []any{v}
	}
	for path, removed := range f.Removed {
		at(r, path).Removed = removed
	}
	for path, digest := range f.Wrote {
		at(r, path).Wrote = digest
	}
	for path, n := range f.Behind {
		at(r, path).Behind = n
	}
	return r.Encode()
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func at(r record.Record, path string) *record.Place {
	p := r.Root
	if path == "" {
		return p
	}
	for _, segment := range strings.Split(path, "/")[1:] {
		p = p.Enter(unescape.Replace(segment))
	}
	return p
}

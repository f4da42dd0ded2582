package apply

import (
	"cmp"
	"slices"
	"strconv"
)

// location is a place of the pod as it is now: the segments of its keyed path,
// and for items of lists their indexes.
type location struct {
	up      *location
	segment string
	index   string // "" for fields
}

func (l *location) field(name string) *location { return &location{up: l, segment: name} }

func (l *location) item(key string, index int) *location {
	return &location{up: l, segment: key, index: strconv.Itoa(index)}
}

func (l *location) end(key string) *location { return &location{up: l, segment: key, index: "-"} }

// pointer returns the segments of the place's JSON pointer.
func (l *location) pointer() []string {
	var path []string
	for ; l != nil; l = l.up {
		path = append(path, cmp.Or(l.index, l.segment))
	}
	slices.Reverse(path)
	return path
}

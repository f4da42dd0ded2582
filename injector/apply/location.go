package apply

import (
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

func (l *location) pointer() []string {
	path := make([]string, 0, l.depth())
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

func (l *location) depth() (n int) {
	for ; l != nil; l = l.up {
		n++
	}
	return n
}

func (l *location) keyed() []string {
	path := make([]string, 0, l.depth())
	for ; l != nil; l = l.up {
		path = append(path, l.segment)
	}
	slices.Reverse(path)
	return path
}

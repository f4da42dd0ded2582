package apply

import (
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// A value that the API server derives is recorded before it is there, so that the
// base pod never has it.

// expected is the place of a value that the API server derives.
func expected(c *merge.Change, t *podschema.Type) *record.Place {
	if t != nil && t.Kind() == podschema.Map {
		place := &record.Place{Made: true}
		expectIn(c, t, place)
		return place
	}
	place := &record.Place{Added: true}
	if v := c.Expected(); v != nil {
		place.Wrote = record.Digest(t, v)
	}
	return place
}

func expectIn(c *merge.Change, t *podschema.Type, place *record.Place) {
	for name, child := range c.In {
		if child.Do == merge.Expect && place.Child(name).Empty() {
			place.Set(name, expected(child, t.Child(name)))
		}
	}
}

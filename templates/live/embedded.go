package live

import (
	"context"

	"github.com/pillion-dev/pillion/templates/library"
)

// Library returns a source of the embedded templates of those names. An unknown
// name is an error that lists what there is.
func Library(names ...string) (Source, error) {
	s := &embedded{}
	for _, name := range names {
		data, err := library.Get(name)
		if err != nil {
			return nil, err
		}
		s.units = append(s.units, Unit{Source: "library/" + name, Data: data})
	}
	return s, nil
}

type embedded struct{ units []Unit }

func (s *embedded) Name() string { return "library" }

// Run reports once: the library changes only with the program.
func (s *embedded) Run(ctx context.Context, report func(Report)) {
	report(Report{Units: s.units})
	<-ctx.Done()
}

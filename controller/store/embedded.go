package store

import (
	"context"

	"github.com/pillion-dev/pillion/templates/library"
)

// Library returns a source of the embedded templates of those names, with the registry of the
// installer's values. An unknown name is an error that lists what there is.
func Library(values map[string]any, names ...string) (Source, error) {
	r, err := LibraryReport(values, names...)
	return &embedded{name: "library", units: r.Units}, err
}

// LibraryReport is what the source of [Library] reports.
func LibraryReport(values map[string]any, names ...string) (r Report, err error) {
	for _, name := range names {
		data, err := library.Get(name, values)
		if err != nil {
			return r, err
		}
		r.Units = append(r.Units, Unit{Source: "library/" + name, Data: data, From: FromLibrary})
	}
	return r, nil
}

// BuiltIn returns a source of one manifest that is a part of the program. The name is how
// messages call it.
func BuiltIn(name string, manifest []byte) Source {
	return &embedded{name: name, units: []Unit{{Source: name, Data: manifest}}}
}

type embedded struct {
	name  string
	units []Unit
}

func (s *embedded) Name() string { return s.name }

// Run reports once: what is embedded changes only with the program.
func (s *embedded) Run(ctx context.Context, report func(Report)) {
	report(Report{Units: s.units})
	<-ctx.Done()
}

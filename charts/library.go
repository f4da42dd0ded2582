package charts

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed pillion/library/*.yaml
var library embed.FS

//go:embed pillion/Chart.yaml
var chart string

//go:embed pillion/values.schema.json
var valuesSchema []byte

// ValuesSchema returns the JSON Schema of the chart's values.
func ValuesSchema() []byte { return slices.Clone(valuesSchema) }

// Version returns the version of the chart and of Pillion, as in the tag of a release: v0.1.0.
func Version() string {
	for line := range strings.Lines(chart) {
		if version, ok := strings.CutPrefix(line, "version: "); ok {
			return "v" + strings.TrimSpace(version)
		}
	}
	panic("charts: Chart.yaml has no version")
}

const (
	folder    = "pillion/library"
	extension = ".yaml"
)

// Names returns the names of all templates of the library, sorted.
func Names() []string {
	entries, err := library.ReadDir(folder)
	if err != nil {
		panic(fmt.Sprintf("charts: listing the embedded templates: %v", err))
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), extension)
	}
	slices.Sort(names)
	return names
}

// Template returns the manifest (YAML) of a template of the library. The error for an unknown name lists the names.
func Template(name string) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("the library has no template %q; it has %s", name, strings.Join(Names(), ", "))
	}
	data, err := library.ReadFile(folder + "/" + name + extension)
	if err != nil {
		return nil, fmt.Errorf("reading the library's template %q: %w", name, err)
	}
	return data, nil
}

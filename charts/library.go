package charts

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed pillion/library/*.yaml
var library embed.FS

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

package library

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.yaml
var manifests embed.FS

const extension = ".yaml"

// Names returns the names of all templates, sorted.
func Names() []string {
	entries, err := manifests.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("library: listing the embedded templates: %v", err))
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), extension)
	}
	slices.Sort(names)
	return names
}

// Get returns the manifest (YAML) of the template of that name. The error of an
// unknown name lists those there are.
func Get(name string) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("the library has no template %q; it has %s", name, strings.Join(Names(), ", "))
	}
	data, err := manifests.ReadFile(name + extension)
	if err != nil {
		return nil, fmt.Errorf("reading the library's template %q: %w", name, err)
	}
	return data, nil
}

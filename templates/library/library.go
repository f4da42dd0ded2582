package library

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.yaml
var manifests embed.FS

const extension = ".yaml"

// defaultImage is the default of a parameter of type image. TestARegistryTakesThePlaceOfThatOfEachImage
// holds the manifests to this form.
var defaultImage = regexp.MustCompile(`(type: image\n +default: )((localhost|[^/\s]*[.:][^/\s]*)/)?(\S+)`)

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

// Get returns the manifest (YAML) of the template of that name. The installer's values may have a
// registry in global.imageRegistry. It replaces the registry in the default of an image: the first
// part of the reference, if that has a dot or a port, or is localhost. The error of an unknown name
// lists the names.
func Get(name string, values map[string]any) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("the library has no template %q; it has %s", name, strings.Join(Names(), ", "))
	}
	data, err := manifests.ReadFile(name + extension)
	if err != nil {
		return nil, fmt.Errorf("reading the library's template %q: %w", name, err)
	}
	global, _ := values["global"].(map[string]any)
	if registry, _ := global["imageRegistry"].(string); registry != "" {
		data = defaultImage.ReplaceAll(data, []byte("${1}"+strings.ReplaceAll(strings.TrimSuffix(registry, "/"), "$", "$$")+"/${4}"))
	}
	return data, nil
}

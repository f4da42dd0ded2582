package templatestest

import (
	"errors"
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

// Manifest returns the manifest of a SidecarTemplate. The spec is YAML: in braces, or lines indented by two spaces.
func Manifest(name, spec string) string {
	return "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:\n  " + spec + "\n"
}

// Namespaced returns the manifest of a NamespacedSidecarTemplate. Its spec is as that of [Manifest].
func Namespaced(namespace, name, spec string) string {
	return "apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec:\n  " + spec + "\n"
}

// Specs returns the set of SidecarTemplates that are known to be good. Their specs, by their names, are as that of [Manifest].
func Specs(t testing.TB, specs map[string]string) *templates.Set {
	t.Helper()
	var manifests []string
	for name, spec := range specs {
		manifests = append(manifests, Manifest(name, spec))
	}
	return Set(t, manifests...)
}

// Any returns the set of the templates of manifests of both kinds. A template with a mistake is an entry with its error.
func Any(t testing.TB, manifests ...string) *templates.Set {
	t.Helper()
	var entries []templates.Entry
	for _, manifest := range manifests {
		var e templates.Entry
		var mistakes *templates.CompileError
		if e.Template, _, e.Err = templates.Compile([]byte(manifest), templates.Options{Values: map[string]any{"secret": "s"}}); errors.As(e.Err, &mistakes) {
			e.Name, e.Namespace, e.Template = mistakes.Template, mistakes.Scope.Namespace, nil
		} else if e.Err != nil {
			t.Fatal(e.Err)
		} else {
			e.Name, e.Namespace = e.Template.Name(), e.Template.Scope().Namespace
		}
		entries = append(entries, e)
	}
	return templates.NewSet(entries)
}

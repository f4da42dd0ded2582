// Package templatestest compiles the templates of tests. It is for tests.
package templatestest

import (
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

// Compile compiles a manifest that is known to be good.
func Compile(t testing.TB, manifest string) *templates.Template {
	t.Helper()
	template, _, err := templates.Compile([]byte(manifest), templates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// Set returns the set of the templates of manifests that are known to be good.
func Set(t testing.TB, manifests ...string) *templates.Set {
	t.Helper()
	var entries []templates.Entry
	for _, manifest := range manifests {
		template := Compile(t, manifest)
		entries = append(entries, templates.Entry{Name: template.Name(), Template: template})
	}
	return templates.NewSet(entries)
}

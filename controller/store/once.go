package store

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/templates"
)

// Once returns the set of what sources have at one moment, in the order of their precedence. It is for
// programs that follow no source.
func Once(compile templates.Options, reports ...Report) *templates.Set {
	var units []Unit
	for _, r := range reports {
		units = append(units, r.Units...)
	}
	return newCompiler(compile).assemble(units, templates.NewSet(nil)).set
}

// ReportOf returns what a list of the cluster's SidecarTemplates has.
func ReportOf(objects []unstructured.Unstructured, prefix string) Report {
	all := make([]any, len(objects))
	for i := range objects {
		all[i] = onlyNeeded(&objects[i], prefix)
	}
	return units(all, nil)
}

package lint

import (
	"errors"
	"fmt"

	"github.com/pillion-dev/pillion/templates"
)

// canary replaces a canary by the version that its pods get: the canary's spec under the stable template's name and
// with its selectors. It reports false if there is no such version.
func (tr *trial) canary(t *templates.Template) bool {
	declared, ok := t.Canary()
	if !ok {
		return true
	}
	path, line := templates.Place(tr.document.Document, "spec", "canary", "of")
	stable, found := tr.stable(declared.Of)
	switch {
	case found && stable == nil:
		tr.addAt("canary", Warning, path, line, fmt.Sprintf("the template %s has mistakes, so the canary was tried without it", declared.Of))
	case found:
		if of, is := stable.Canary(); is {
			tr.addAt("canary", Error, path, line, fmt.Sprintf("%s is a canary itself; want the stable template, %s", declared.Of, of.Of))
			return false
		}
	default:
		tr.addAt("canary", Warning, path, line, fmt.Sprintf("there is no template %s among these files and in the library, so the canary was tried without it; without that template it selects no pods", declared.Of))
	}
	version, err := t.AsStable(stable)
	var mistakes *templates.CompileError
	switch {
	case errors.As(err, &mistakes):
		for _, p := range mistakes.Problems {
			at, line := templates.Place(tr.document.Document, "spec", "canary")
			tr.addAt("canary", Error, at, line, p.Path+": "+p.Message)
		}
		return false
	case err != nil:
		tr.addAt("canary", Error, path, line, err.Error())
		return false
	}
	tr.template, tr.result.Hash = version, version.Hash()
	return true
}

// stable returns the template of a name, nil if it does not compile. It reports false if no template has the name.
func (tr *trial) stable(name string) (*templates.Template, bool) {
	for _, d := range tr.documents {
		o := tr.options.Compile
		o.Source, o.FirstLine = d.Source, d.Line
		t, _, err := templates.Compile(d.Manifest, o)
		var mistakes *templates.CompileError
		switch { // of a namespace's own template there is no canary
		case err == nil && t.Name() == name && !t.Scope().Namespaced:
			return t, true
		case errors.As(err, &mistakes) && mistakes.Template == name && !mistakes.Scope.Namespaced:
			return nil, true
		}
	}
	if tr.options.Stable == nil {
		return nil, false
	}
	t := tr.options.Stable(name)
	return t, t != nil
}

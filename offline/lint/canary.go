package lint

import (
	"errors"
	"fmt"

	"github.com/pillion-dev/pillion/templates"
)

// canary has a canary tried as what pods get: under the stable template's name, with what that one
// says of its pods. It reports false if it cannot be that.
func (j *judged) canary(t *templates.Template) bool {
	declared, ok := t.Canary()
	if !ok {
		return true
	}
	path, line := templates.Place(j.document.Document, "spec", "canary", "of")
	stable, found := j.stable(declared.Of)
	switch {
	case found && stable == nil:
		j.place("canary", Warning, path, line, fmt.Sprintf("the template %s has mistakes, so the canary was tried without it", declared.Of))
	case found:
		if of, is := stable.Canary(); is {
			j.place("canary", Error, path, line, fmt.Sprintf("%s is a canary itself; want the stable template, %s", declared.Of, of.Of))
			return false
		}
	default:
		j.place("canary", Warning, path, line, fmt.Sprintf("there is no template %s among these files and in the library, so the canary was tried without it; without that template it selects no pods", declared.Of))
	}
	version, err := t.AsStable(stable)
	var mistakes *templates.CompileError
	switch {
	case errors.As(err, &mistakes):
		for _, p := range mistakes.Problems {
			at, line := templates.Place(j.document.Document, "spec", "canary")
			j.place("canary", Error, at, line, p.Path+": "+p.Message)
		}
		return false
	case err != nil:
		j.place("canary", Error, path, line, err.Error())
		return false
	}
	j.template, j.result.Hash = version, version.Hash()
	return true
}

// stable returns the template of a name, nil if it does not compile. It reports false if there is
// none.
func (j *judged) stable(name string) (*templates.Template, bool) {
	for _, d := range j.documents {
		o := j.options.Compile
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
	if j.options.Stable == nil {
		return nil, false
	}
	t := j.options.Stable(name)
	return t, t != nil
}

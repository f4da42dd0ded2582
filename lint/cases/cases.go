package cases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// testdata is the folder beside a template's file that holds the cases.
const testdata = "testdata"

// Template is a template with the file it was read from.
type Template struct {
	File string
	templates.Document
}

// Options say how to run cases.
type Options struct {
	// Compile has the installer's values for cases without
	// values of their own.
	Compile templates.Options
	// ExcludedNamespaces are the webhook's.
	ExcludedNamespaces []string
	// Whole has the folders whose templates are all given. A folder of cases in them
	// that belongs to no template is a problem.
	Whole []string
	// Update writes the result of a case that fails into the case's files.
	Update bool
	// Now is the time of each case, by which exceptions of required templates end. Default: the real
	// time.
	Now time.Time
}

// Result is the result of one case.
type Result struct {
	// Template is the template's name, and Source where it was read; empty if there is none for
	// the case.
	Template, Source string
	// Injected: the template was injected into the case's pod.
	Injected bool
	// Case is the path of the case's folder.
	Case string
	// Problems are sentences about the mistakes, some with a diff.
	Problems []string
	// Updated are the names of the files that were written or removed.
	Updated []string
}

// Run runs the cases of all templates, in the order of the templates and then of
// the cases' names. Templates that do not compile are left out: lint reports them.
// The error is about reading folders. The problems of a case are in its result.
func Run(ctx context.Context, list []Template, o Options) ([]Result, error) {
	pipeline := injector.NewPipeline(injector.Config{ExcludedNamespaces: o.ExcludedNamespaces})
	s := &suite{options: o, inject: func(r injector.Request) (injector.Outcome, error) {
		r.Now = o.Now
		return pipeline.Inject(ctx, r)
	}}
	for _, t := range list {
		compiled, err := compile(t, o.Compile)
		s.named = append(s.named, named{filepath.Clean(filepath.Dir(t.File)), nameOf(compiled, err)})
		if err == nil {
			s.templates = append(s.templates, loaded{Template: t, compiled: compiled})
		}
	}
	for i := range s.templates {
		s.templates[i].version = s.version(s.templates[i].compiled)
	}
	var results []Result
	for _, t := range s.templates {
		found, err := s.template(t)
		if err != nil {
			return nil, err
		}
		results = append(results, found...)
	}
	for _, folder := range o.Whole {
		strays, err := s.strays(folder)
		if err != nil {
			return nil, err
		}
		results = append(results, strays...)
	}
	return results, nil
}

// suite is one run.
type suite struct {
	options   Options
	inject    func(injector.Request) (injector.Outcome, error)
	templates []loaded
	named     []named
}

// named is a template's name, and the folder of its file. The name is "" for a manifest in
// which it cannot be read: it may be any.
type named struct{ folder, name string }

func nameOf(t *templates.Template, err error) string {
	var bad *templates.CompileError
	switch {
	case err == nil:
		return t.Name()
	case errors.As(err, &bad):
		return bad.Template
	}
	return ""
}

type loaded struct {
	Template
	compiled *templates.Template
	// version is the template that pods get: for a canary the version under the stable template's name, if that
	// compiles.
	version *templates.Template
}

// version returns the template that pods get. The cases of a canary are about the pods that it
// selects: they get it under the stable template's name, with the stable template's selectors, if
// that is among the templates.
func (s *suite) version(t *templates.Template) *templates.Template {
	declared, ok := t.Canary()
	if !ok {
		return t
	}
	var stable *templates.Template
	for _, other := range s.templates {
		if other.compiled.Name() == declared.Of {
			stable = other.compiled
		}
	}
	if version, err := t.AsStable(stable); err == nil {
		return version
	}
	return t // lint reports the mistake
}

func compile(t Template, o templates.Options) (*templates.Template, error) {
	o.Source, o.FirstLine = t.File, t.Line
	compiled, _, err := templates.Compile(t.Manifest, o)
	return compiled, err
}

// template runs the cases of one template.
func (s *suite) template(t loaded) ([]Result, error) {
	folder := filepath.Join(filepath.Dir(t.File), testdata, t.compiled.Name())
	names, err := folders(folder)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	// Each step down is confined to the folder above it, so that a symbolic link
	// leads nowhere else.
	beside, err := os.OpenRoot(filepath.Dir(t.File))
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the cases: %w", err)
	}
	defer beside.Close()
	var results []Result
	for _, name := range names {
		r := Result{Template: t.compiled.Name(), Source: t.File, Case: filepath.Join(folder, name)}
		root, err := beside.OpenRoot(filepath.Join(testdata, t.compiled.Name(), name))
		if err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("the folder cannot be opened: %v", err))
		} else {
			s.run(t, &folderCase{root: root, result: &r})
			if err := root.Close(); err != nil {
				return nil, err
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// strays returns a result for each folder of cases that belongs to no template.
// Folders of templates that do not compile are no strays, nor are folders without a
// pod: testdata may hold other things, too.
func (s *suite) strays(folder string) ([]Result, error) {
	names, err := folders(filepath.Join(folder, testdata))
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, name := range names {
		pods, err := filepath.Glob(filepath.Join(folder, testdata, name, "*", podFile))
		if err != nil {
			return nil, fmt.Errorf("looking for cases: %w", err)
		}
		if len(pods) == 0 || s.names(folder, name) {
			continue
		}
		results = append(results, Result{
			Case:     filepath.Join(folder, testdata, name),
			Problems: []string{fmt.Sprintf("no template in %s is named %s: rename the folder to its template's name, or delete it", folder, name)},
		})
	}
	return results, nil
}

// names reports whether a template of that name comes from the folder.
func (s *suite) names(folder, name string) bool {
	return slices.ContainsFunc(s.named, func(n named) bool {
		return n.folder == filepath.Clean(folder) && (n.name == name || n.name == "")
	})
}

// folders returns the names of the folders in path, sorted; none if there is no
// such path. Hidden ones are left out.
func folders(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the folder of the cases: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || e.Type()&fs.ModeSymlink != 0) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// set returns the templates that a case loads: its own, and those that the
// annotations name.
func (s *suite) set(own *templates.Template, annotations ...string) *templates.Set {
	entries := []templates.Entry{{Name: own.Name(), Template: own}}
	for _, t := range s.templates {
		name := t.compiled.Name()
		if name != own.Name() && slices.ContainsFunc(annotations, func(a string) bool { return mentions(a, name) }) {
			entries = append(entries, templates.Entry{Name: name, Template: t.compiled})
		}
	}
	return templates.NewSet(entries)
}

// mentions reports whether the value of an inject annotation names a template.
func mentions(annotation, name string) bool {
	for part := range strings.SplitSeq(annotation, ",") {
		if strings.TrimLeft(strings.TrimSpace(part), "+-") == name {
			return true
		}
	}
	return false
}

package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Template is the text of a template in a file.
type Template struct {
	// Source is the file's path.
	Source string
	templates.Document
}

// Set compiles the templates that the flags name. A bad template is an entry of the
// set, so that only pods that request it are refused.
func (o *Options) Set(stdin io.Reader) (*templates.Set, error) {
	options, err := o.CompileOptions(stdin)
	if err != nil {
		return nil, err
	}
	names := o.Library
	if len(names) == 0 {
		names = charts.Names()
	}
	entries, err := o.entries(options, names)
	if err != nil {
		return nil, err
	}
	return templates.NewSet(slices.Collect(maps.Values(entries))), nil
}

// entries compiles the named templates of the library, and those of --templates. A template of
// --templates replaces the one of the library that has its name.
func (o *Options) entries(options templates.Options, names []string) (map[string]templates.Entry, error) {
	entries := map[string]templates.Entry{}
	for _, name := range names {
		t, err := LibraryTemplate(name, options)
		if err != nil {
			return nil, err
		}
		entries[name] = templates.Entry{Name: name, Template: t}
	}
	own, err := o.ownTemplates(options)
	maps.Copy(entries, own)
	return entries, err
}

// LibraryTemplate compiles a template of the library.
func LibraryTemplate(name string, o templates.Options) (*templates.Template, error) {
	manifest, err := charts.Template(name)
	if err != nil {
		return nil, err
	}
	o.Source = "library/" + name
	t, _, err := templates.Compile(manifest, o)
	return t, err
}

// templateKey is the name of a template, which is NAMESPACE/NAME for one of a namespace.
func templateKey(e templates.Entry) string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// ownTemplates compiles the templates of --templates, by their [templateKey]. Two templates of one
// key are an error: the files do not say which one to use.
func (o *Options) ownTemplates(options templates.Options) (map[string]templates.Entry, error) {
	entries, places := map[string]templates.Entry{}, map[string]string{}
	manifests, err := o.objectTemplates()
	if err != nil {
		return nil, err
	}
	for _, path := range o.Templates {
		more, err := ReadTemplates(path)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, more...)
	}
	for _, m := range manifests {
		entry, place := m.Compile(options, o.Namespace), templates.NamedAt(m.Document, m.Source)
		if entry.Name == "" {
			return nil, entry.Err
		}
		key := templateKey(entry)
		if other, taken := places[key]; taken {
			return nil, fmt.Errorf("reading templates: %s: the name %s is taken by %s; rename or delete one of the two", place, entry.Name, other)
		}
		entries[key], places[key] = entry, place
	}
	return entries, nil
}

// CompileOptions returns the options of the compiler, with the installer's values.
func (o *Options) CompileOptions(stdin io.Reader) (templates.Options, error) {
	options := templates.Options{ForeignSidecars: append([]string{}, o.ForeignSidecars...), Check: injector.CheckRequired}
	var err error
	switch {
	case o.ValuesText != "":
		options.Values, err = parseValues("functionConfig", []byte(o.ValuesText))
	case o.Values != "":
		options.Values, err = readValues(stdin, o.Values)
	}
	return options, err
}

// readValues reads a file that holds one YAML object.
func readValues(stdin io.Reader, name string) (map[string]any, error) {
	data, err := ReadFile(stdin, name)
	if err != nil {
		return nil, err
	}
	return parseValues(name, data)
}

// parseValues reads one YAML object. Source names the text in errors.
func parseValues(source string, data []byte) (map[string]any, error) {
	values, err := workload.ParseValues(data)
	if err != nil {
		return nil, fmt.Errorf("reading values from %s: %w", source, err)
	}
	return values, nil
}

// namespaceOf returns the namespace that a template is for, empty for a template of the cluster. A
// manifest that names none is for the fallback, as kubectl would apply it.
func namespaceOf(scope templates.Scope, fallback string) string {
	if !scope.Namespaced {
		return ""
	}
	return cmp.Or(scope.Namespace, fallback, "default")
}

// Compile compiles the template. Fallback is the namespace of a NamespacedSidecarTemplate that names none.
func (t Template) Compile(o templates.Options, fallback string) templates.Entry {
	o.Source, o.FirstLine = t.Source, t.Line
	compiled, _, err := templates.Compile(t.Manifest, o)
	if err == nil {
		return templates.Entry{Name: compiled.Name(), Namespace: namespaceOf(compiled.Scope(), fallback), Template: compiled}
	}
	entry := templates.Entry{Err: err}
	var compile *templates.CompileError
	if errors.As(err, &compile) {
		entry.Name, entry.Namespace = compile.Template, namespaceOf(compile.Scope, fallback)
	}
	return entry
}

// ReadTemplates reads the templates of a file, or of a directory's *.yaml, *.yml
// and *.json.
func ReadTemplates(path string) ([]Template, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading templates: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = templateFiles(path); err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
	}
	var manifests []Template
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		manifests = append(manifests, parseTemplates(file, data)...)
	}
	if len(manifests) == 0 {
		return nil, noTemplate(path)
	}
	return manifests, nil
}

// ReadTemplatesFrom reads the templates of a stream.
func ReadTemplatesFrom(stdin io.Reader) ([]Template, error) {
	data, err := ReadFile(stdin, "-")
	if err != nil {
		return nil, err
	}
	manifests := parseTemplates("-", data)
	if len(manifests) == 0 {
		return nil, noTemplate("standard input")
	}
	return manifests, nil
}

// templateFiles returns the files of a directory that may have templates.
func templateFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// parseTemplates returns the templates of a file's data.
func parseTemplates(file string, data []byte) (manifests []Template) {
	for _, d := range templates.ParseFile(data) {
		manifests = append(manifests, Template{Source: file, Document: d})
	}
	return manifests
}

func noTemplate(path string) error {
	return fmt.Errorf("reading templates: %s has no SidecarTemplate", path)
}

// objectTemplates returns the templates among the objects that come with the pods.
func (o *Options) objectTemplates() ([]Template, error) {
	var manifests []Template
	for _, object := range o.Objects {
		if object["kind"] != v1alpha1.Kind && object["kind"] != v1alpha1.NamespacedKind {
			continue
		}
		text, err := workload.YAML(object)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %s: %w", workload.NameOf(object), err)
		}
		manifests = append(manifests, parseTemplates(workload.NameOf(object), []byte(text))...)
	}
	return manifests, nil
}

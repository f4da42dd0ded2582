package main

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
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// offline has the flags of the commands that work on files.
type offline struct {
	file      string
	templates []string
	library   []string
	values    string
	// valuesText are the values themselves, in place of their file.
	valuesText    string
	foreign       []string
	namespace     string
	namespaceFile string
	// beside are the objects that come with the pods. The SidecarTemplates and the Namespaces among
	// them count as those of --templates and --namespace-file.
	beside []map[string]any
	// inCluster: templates, values and namespaces are those of the cluster of where.
	inCluster bool
	where     inspect.Place
	now       time.Time
}

const foreignUsage = "containers of other injectors, by name: $each: App and $each: Init skip them, except in required templates (empty: none)"

// maxFile bounds the bytes of one file.
const maxFile = 64 << 20

func (o *offline) templateFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.templates, "templates", nil, "file or directory of SidecarTemplates (repeatable)")
	cmd.Flags().StringSliceVar(&o.library, "library", nil, "names of library templates to use (default: all of them)")
	o.compileFlags(cmd)
}

// compileFlags are the server's settings that templates are compiled with.
func (o *offline) compileFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.values, "values", "", "YAML file of the installer's values, which templates read as 'values'")
	cmd.Flags().StringSliceVar(&o.foreign, "foreign-sidecars", templates.DefaultForeignSidecars(), foreignUsage)
}

func (o *offline) podFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with pods or workloads, - for standard input")
	o.settingFlags(cmd)
}

// settingFlags are the flags that say what is injected, and for which namespaces.
func (o *offline) settingFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that name none (with a cluster: default the context's)")
	cmd.Flags().StringVar(&o.namespaceFile, "namespace-file", "", "file with Namespace objects, for their labels and annotations")
	nowFlag(cmd.Flags(), &o.now)
	o.templateFlags(cmd)
}

// clusterFlag adds --cluster, and the flags that say which cluster. Without it, only files are
// read, whether or not there is a cluster.
func (o *offline) clusterFlag(cmd *cobra.Command) {
	placeFlags(cmd.Flags(), &o.where)
	cmd.Flags().BoolVar(&o.inCluster, "cluster", false, "take templates, values and namespaces from the cluster, read with your own rights")
}

// fileFlags are the flags that say what --cluster reads.
var fileFlags = []string{"templates", "library", "values", "foreign-sidecars", "namespace-file", "excluded-namespaces"}

// connect returns the cluster that the flags name, with the settings of the server there. What the cluster is read for must not be given by files
// as well.
func (o *offline) connect(cmd *cobra.Command) (*inspect.Live, error) {
	for _, name := range fileFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return nil, usageError{Err: fmt.Errorf("--%s is only for files, and this command reads the cluster: leave it out", name)}
		}
	}
	live, err := o.live(cmd)
	if err != nil {
		return nil, err
	}
	namespace := o.namespace
	if namespace == "" {
		if namespace, _, err = kubeconfigOf(o.where).Namespace(); err != nil {
			return nil, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	live.Fallback, live.Compare.Pipeline = namespace, at(live.Compare.Pipeline, o.now)
	return live, nil
}

// live returns the cluster that the flags name, with the settings of the server there.
func (o *offline) live(cmd *cobra.Command) (*inspect.Live, error) {
	cluster, err := openCluster(o.where)
	if err != nil {
		return nil, err
	}
	return cluster.Live(cmd.Context())
}

// inForce returns the templates of the files, or those of the cluster with what else there is. It
// prints what could not be read there: templates that could not are nil.
func (o *offline) inForce(cmd *cobra.Command) (*templates.Set, *inspect.Live, error) {
	if !o.inCluster {
		set, err := o.set(cmd)
		return set, nil, err
	}
	live, err := o.connect(cmd)
	if err != nil {
		return nil, nil, err
	}
	printNotes(cmd, live)
	return live.Templates, live, nil
}

// printNotes prints what of a cluster's settings could not be read.
func printNotes(cmd *cobra.Command, live *inspect.Live) {
	for _, note := range live.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
	}
}

// readFile reads a file, or standard input for "-".
func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	var in io.Reader
	if name == "-" {
		in = cmd.InOrStdin()
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading %s: it is larger than %d bytes", name, maxFile)
	}
	return data, nil
}

func (o *offline) documents(cmd *cobra.Command) ([]workload.Document, error) {
	if o.file == "" {
		return nil, usageError{Err: errors.New("-f FILE is required")}
	}
	return readDocuments(cmd, o.file)
}

// readDocuments reads the objects of a file.
func readDocuments(cmd *cobra.Command, name string) ([]workload.Document, error) {
	data, err := readFile(cmd, name)
	if err != nil {
		return nil, err
	}
	documents, err := workload.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return documents, nil
}

// changePods is [workload.Change] for a document of a file. Errors name the file and the
// document, if there is a file.
func changePods(file string, d workload.Document, change func(workload.Pod) (map[string]any, error)) (map[string]any, int, error) {
	object, pods, err := workload.Change(d.Object, change)
	if err != nil && file != "" {
		err = fmt.Errorf("%s: document %d: %w", file, d.Number, err)
	}
	return object, pods, err
}

// set compiles the templates that the flags name. A bad template is an entry of the
// set, so that only pods that ask for it are refused.
func (o *offline) set(cmd *cobra.Command) (*templates.Set, error) {
	options, err := o.compileOptions(cmd)
	if err != nil {
		return nil, err
	}
	names := o.library
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
func (o *offline) entries(options templates.Options, names []string) (map[string]templates.Entry, error) {
	entries := map[string]templates.Entry{}
	for _, name := range names {
		t, err := libraryTemplate(name, options)
		if err != nil {
			return nil, err
		}
		entries[name] = templates.Entry{Name: name, Template: t}
	}
	own, err := o.ownTemplates(options)
	maps.Copy(entries, own)
	return entries, err
}

// templateKey is the name of a template, which is NAMESPACE/NAME for one of a namespace.
func templateKey(e templates.Entry) string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// ownTemplates compiles the templates of --templates, by their [templateKey]. Two templates of one
// key are an error: nothing says which one to use.
func (o *offline) ownTemplates(options templates.Options) (map[string]templates.Entry, error) {
	entries, places := map[string]templates.Entry{}, map[string]string{}
	manifests, err := manifestsOf(o.beside)
	if err != nil {
		return nil, err
	}
	for _, path := range o.templates {
		more, err := readManifests(path)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, more...)
	}
	for _, m := range manifests {
		entry, place := compile(m, options, o.namespace), templates.NamedAt(m.Document, m.Source)
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

func (o *offline) compileOptions(cmd *cobra.Command) (templates.Options, error) {
	options := templates.Options{ForeignSidecars: append([]string{}, o.foreign...), Check: injector.CheckRequired}
	var err error
	switch {
	case o.valuesText != "":
		options.Values, err = parseValues("functionConfig", []byte(o.valuesText))
	case o.values != "":
		options.Values, err = readValues(cmd, o.values)
	}
	return options, err
}

// readValues reads a file that holds one YAML object.
func readValues(cmd *cobra.Command, name string) (map[string]any, error) {
	data, err := readFile(cmd, name)
	if err != nil {
		return nil, err
	}
	return parseValues(name, data)
}

// parseValues reads one YAML object. Name says where it is from.
func parseValues(name string, data []byte) (map[string]any, error) {
	values, err := workload.ParseValues(data)
	if err != nil {
		return nil, fmt.Errorf("reading values from %s: %w", name, err)
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

// compile compiles a document of a file of templates.
func compile(d lint.Document, o templates.Options, fallback string) templates.Entry {
	o.Source, o.FirstLine = d.Source, d.Line
	t, _, err := templates.Compile(d.Manifest, o)
	if err == nil {
		return templates.Entry{Name: t.Name(), Namespace: namespaceOf(t.Scope(), fallback), Template: t}
	}
	entry := templates.Entry{Err: err}
	var compile *templates.CompileError
	if errors.As(err, &compile) {
		entry.Name, entry.Namespace = compile.Template, namespaceOf(compile.Scope, fallback)
	}
	return entry
}

// readManifests reads the templates of a file, or of a directory's *.yaml, *.yml
// and *.json.
func readManifests(path string) ([]lint.Document, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading templates: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		files = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	var manifests []lint.Document
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		manifests = append(manifests, documentsOf(file, data)...)
	}
	if len(manifests) == 0 {
		return nil, noTemplate(path)
	}
	return manifests, nil
}

// documentsOf returns the templates of a file's data.
func documentsOf(file string, data []byte) (documents []lint.Document) {
	for _, d := range templates.ParseFile(data) {
		documents = append(documents, lint.Document{Source: file, Document: d})
	}
	return documents
}

func noTemplate(path string) error {
	return fmt.Errorf("reading templates: %s has no SidecarTemplate", path)
}

// manifestsOf returns the templates among objects.
func manifestsOf(objects []map[string]any) ([]lint.Document, error) {
	var manifests []lint.Document
	for _, object := range objects {
		if object["kind"] != v1alpha1.Kind && object["kind"] != v1alpha1.NamespacedKind {
			continue
		}
		text, err := workload.YAML(object)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %s: %w", workload.NameOf(object), err)
		}
		manifests = append(manifests, documentsOf(workload.NameOf(object), []byte(text))...)
	}
	return manifests, nil
}

// namespaces reads those of --namespace-file, and those beside the pods.
func (o *offline) namespaces(cmd *cobra.Command) (inspect.Namespaces, error) {
	var beside []map[string]any
	for _, object := range o.beside {
		if object["kind"] == "Namespace" {
			beside = append(beside, object)
		}
	}
	if o.namespaceFile == "" {
		return inspect.FileNamespaces(beside, o.namespace)
	}
	data, err := readFile(cmd, o.namespaceFile)
	if err != nil {
		return inspect.Namespaces{}, err
	}
	documents, err := workload.Parse(data)
	var found inspect.Namespaces
	if err == nil {
		for _, d := range documents {
			beside = append(beside, itemsOf(d.Object)...)
		}
		found, err = inspect.FileNamespaces(beside, o.namespace)
	}
	if err != nil {
		return found, fmt.Errorf("reading namespaces from %s: %w", o.namespaceFile, err)
	}
	return found, nil
}

// session decides about the pods of a file.
type session struct {
	*inspect.Session
	// file holds the documents. It is empty where they are the items of a ResourceList. What is
	// wrong with an item is a note about it, and stops no other.
	file      string
	documents []workload.Document
	// notes are what was told of the pods.
	notes []note
}

func (o *offline) open(cmd *cobra.Command) (*session, error) {
	documents, err := o.documents(cmd)
	if err != nil {
		return nil, err
	}
	if o.inCluster {
		return o.openCluster(cmd, documents)
	}
	return o.openFiles(cmd, documents)
}

// openFiles returns a session for documents of the file, by the flags alone.
func (o *offline) openFiles(cmd *cobra.Command, documents []workload.Document) (*session, error) {
	set, err := o.set(cmd)
	if err != nil {
		return nil, err
	}
	ns, err := o.namespaces(cmd)
	if err != nil {
		return nil, err
	}
	pipeline := at(injector.NewPipeline(injector.Config{ExcludedNamespaces: settings.DefaultExcluded(), Explain: "pillion explain -f " + o.file + " with the same flags"}), o.now)
	return &session{file: o.file, documents: documents, Session: &inspect.Session{
		Compare:   drift.Comparer{Pipeline: pipeline, Registration: entries.Registration{All: true, Excluded: settings.DefaultExcluded()}},
		Templates: set, Namespaces: ns,
	}}, nil
}

// openCluster returns a session with the settings of the cluster, and the namespaces there that
// the documents are for.
func (o *offline) openCluster(cmd *cobra.Command, documents []workload.Document) (*session, error) {
	live, err := o.connect(cmd)
	if err != nil {
		return nil, err
	}
	s := &session{file: o.file, documents: documents, Session: live.Session()}
	names := map[string]bool{}
	for _, d := range documents {
		// A document that cannot be read is told of when its turn comes.
		_, _, _ = workload.Change(d.Object, func(p workload.Pod) (map[string]any, error) {
			names[cmp.Or(p.Namespace, live.Fallback)] = true
			return p.Object, nil
		})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ns, err := live.NamespaceOf(cmd.Context(), name)
		if err != nil {
			return nil, err
		}
		s.Namespaces.Add(ns)
	}
	return s, nil
}

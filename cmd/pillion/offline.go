package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/standing"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
)

// offline has the flags of the commands that work on files.
type offline struct {
	file          string
	templates     []string
	library       []string
	values        string
	prefix        string
	foreign       []string
	kubeVersion   string
	namespace     string
	namespaceFile string
	// inCluster: templates, values and namespaces are those of the cluster of where.
	inCluster bool
	where     *installation
}

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
	cmd.Flags().StringVar(&o.prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of Pillion's annotations")
	cmd.Flags().StringSliceVar(&o.foreign, "foreign-sidecars", templates.DefaultForeignSidecars(), foreignUsage)
}

// kubeVersionFlag adds the flag for commands without a cluster.
func (o *offline) kubeVersionFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.kubeVersion, "kube-version", "", fmt.Sprintf("Kubernetes version that templates read as 'kubernetes' (default %s)", templates.NewestKubernetes()))
}

func (o *offline) podFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with pods or workloads, - for standard input")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that name none (with a cluster: default the context's)")
	cmd.Flags().StringVar(&o.namespaceFile, "namespace-file", "", "file with Namespace objects, for their labels and annotations; and with their LimitRanges and ResourceQuotas")
	o.templateFlags(cmd)
	o.kubeVersionFlag(cmd)
}

// clusterFlag adds --cluster, and the flags that say which cluster. Without it, only files are
// read, whether or not there is a cluster.
func (o *offline) clusterFlag(cmd *cobra.Command, where *installation) {
	o.where = where
	where.flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.inCluster, "cluster", false, "take templates, values, prefix and namespaces from the cluster, read with your own rights")
}

// fileFlags are the flags that say what --cluster reads.
var fileFlags = []string{"templates", "library", "values", "foreign-sidecars", "kube-version", "namespace-file"}

// connect returns the cluster that the flags name. What it is read for must not be given by
// files as well.
func (o *offline) connect(cmd *cobra.Command) (*cluster, error) {
	for _, name := range fileFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return nil, usageError{fmt.Errorf("--%s is for files, and here the cluster is read: leave it out", name)}
		}
	}
	return o.where.cluster(cmd, o.prefix, o.namespace)
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
		return nil, usageError{errors.New("-f FILE is required")}
	}
	data, err := readFile(cmd, o.file)
	if err != nil {
		return nil, err
	}
	documents, err := workload.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.file, err)
	}
	return documents, nil
}

// changePods is [workload.Change] for a document of a file. Errors name the file and the
// document.
func changePods(file string, d workload.Document, change func(workload.Pod) (map[string]any, error)) (map[string]any, int, error) {
	object, pods, err := workload.Change(d.Object, change)
	if err != nil {
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
		names = library.Names()
	}
	entries := map[string]templates.Entry{}
	for _, name := range names {
		t, err := libraryTemplate(name, options)
		if err != nil {
			return nil, err
		}
		entries[name] = templates.Entry{Name: name, Template: t}
	}
	own, err := o.ownTemplates(options)
	if err != nil {
		return nil, err
	}
	maps.Copy(entries, own) // a template of --templates takes the place of the library's
	defaults, _ := options.Values["defaults"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if _, ok := entries[name]; !ok {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: the values have defaults for %q, and no template of that name is loaded\n", name)
		}
	}
	return templates.NewSet(slices.Collect(maps.Values(entries))), nil
}

// ownTemplates compiles the templates of --templates. Two templates of one name are an
// error: nothing says which one to use.
func (o *offline) ownTemplates(options templates.Options) (map[string]templates.Entry, error) {
	entries, places := map[string]templates.Entry{}, map[string]string{}
	for _, path := range o.templates {
		manifests, err := readManifests(path)
		if err != nil {
			return nil, err
		}
		for _, m := range manifests {
			entry, place := m.compile(options), templates.NamedAt(m.Document, m.source)
			if entry.Name == "" {
				return nil, entry.Err
			}
			if other, taken := places[entry.Name]; taken {
				return nil, fmt.Errorf("reading templates: %s: the name %s is taken by %s; rename or delete one of the two", place, entry.Name, other)
			}
			entries[entry.Name], places[entry.Name] = entry, place
		}
	}
	return entries, nil
}

func (o *offline) compileOptions(cmd *cobra.Command) (templates.Options, error) {
	options := templates.Options{Prefix: o.prefix, ForeignSidecars: foreignNames(o.foreign)}
	if o.kubeVersion != "" {
		var err error
		if options.Kubernetes, err = templates.ParseKubernetesVersion(o.kubeVersion); err != nil {
			return options, usageError{fmt.Errorf("--kube-version: %w", err)}
		}
	}
	if o.values == "" {
		return options, nil
	}
	values, err := readValues(cmd, o.values)
	options.Values = values
	return options, err
}

// readValues reads a file that holds one YAML object.
func readValues(cmd *cobra.Command, name string) (map[string]any, error) {
	data, err := readFile(cmd, name)
	if err != nil {
		return nil, err
	}
	documents, err := workload.Parse(data)
	if errors.Is(err, workload.ErrEmpty) {
		return nil, nil
	}
	if err == nil && len(documents) > 1 {
		err = fmt.Errorf("%d documents; one is allowed", len(documents))
	}
	if err != nil {
		return nil, fmt.Errorf("reading values from %s: %w", name, err)
	}
	return documents[0].Object, nil
}

// manifest is one document of a file of templates.
type manifest struct {
	source string
	templates.Document
}

func (m manifest) compile(o templates.Options) templates.Entry {
	o.Source, o.FirstLine = m.source, m.Line
	t, _, err := templates.Compile(m.Manifest, o)
	if err == nil {
		return templates.Entry{Name: t.Name(), Template: t}
	}
	entry := templates.Entry{Err: err}
	var compile *templates.CompileError
	if errors.As(err, &compile) {
		entry.Name = compile.Template
	}
	return entry
}

// readManifests reads the templates of a file, or of a directory's *.yaml, *.yml
// and *.json.
func readManifests(path string) ([]manifest, error) {
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
	var manifests []manifest
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading templates: %w", err)
		}
		for _, d := range templates.ParseFile(data) {
			manifests = append(manifests, manifest{source: file, Document: d})
		}
	}
	if len(manifests) == 0 {
		return nil, fmt.Errorf("reading templates: there is no SidecarTemplate in %s", path)
	}
	return manifests, nil
}

// knownNamespaces finds the namespace of an object among those of --namespace-file.
type knownNamespaces struct {
	known map[string]templates.Namespace
	// limits has the LimitRanges and ResourceQuotas, by namespace.
	limits   map[string]*predict.Namespace
	fallback string
	// live are the cluster's, with what of them could not be read.
	live  map[string]liveNamespace
	notes map[string][]explain.Note
}

// unknown says why the annotations of a namespace are not known.
func (n knownNamespaces) unknown(name string) string {
	if ns, ok := n.live[name]; ok && ns.unread != nil {
		return "not known: the namespace cannot be read with your rights"
	}
	return "not known: no --namespace-file has it"
}

// keep takes a namespace of the cluster in.
func (n *knownNamespaces) keep(ns liveNamespace) {
	if n.live == nil {
		n.known, n.limits, n.live, n.notes = map[string]templates.Namespace{}, map[string]*predict.Namespace{}, map[string]liveNamespace{}, map[string][]explain.Note{}
	}
	n.live[ns.Name], n.notes[ns.Name] = ns, ns.notes
	n.limits[ns.Name] = &ns.Namespace
	if ns.unread == nil {
		n.known[ns.Name] = ns.Namespace.Namespace
	}
}

func (o *offline) namespaces(cmd *cobra.Command) (knownNamespaces, error) {
	n := knownNamespaces{known: map[string]templates.Namespace{}, limits: map[string]*predict.Namespace{}, fallback: o.namespace}
	if o.namespaceFile == "" {
		return n, nil
	}
	data, err := readFile(cmd, o.namespaceFile)
	if err != nil {
		return n, err
	}
	documents, err := workload.Parse(data)
	if err != nil {
		return n, fmt.Errorf("reading namespaces from %s: %w", o.namespaceFile, err)
	}
	var only string
	objects, err := flatten(documents)
	if err != nil {
		return n, fmt.Errorf("reading namespaces from %s: %w", o.namespaceFile, err)
	}
	for _, object := range objects {
		switch kind, _ := object["kind"].(string); kind {
		case "Namespace":
		case "LimitRange", "ResourceQuota":
			if err := n.limit(kind, object); err != nil {
				return n, fmt.Errorf("reading namespaces from %s: %w", o.namespaceFile, err)
			}
			continue
		default:
			return n, fmt.Errorf("reading namespaces from %s: an object is of kind %q; allowed are Namespace, LimitRange and ResourceQuota", o.namespaceFile, kind)
		}
		ns := injector.NamespaceOf(object)
		if err := workload.CheckMetadata(object); err != nil {
			return n, fmt.Errorf("reading namespaces from %s: Namespace/%s: %w", o.namespaceFile, ns.Name, err)
		}
		n.known[ns.Name] = ns
		only = ns.Name
	}
	if n.fallback == "" && len(n.known) == 1 {
		n.fallback = only
	}
	return n, nil
}

// limit keeps a LimitRange or a ResourceQuota.
func (n *knownNamespaces) limit(kind string, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	of := n.limits[namespace]
	if of == nil {
		of = &predict.Namespace{}
		n.limits[namespace] = of
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if kind == "LimitRange" {
		of.LimitRanges = append(of.LimitRanges, corev1.LimitRange{})
		err = json.Unmarshal(data, &of.LimitRanges[len(of.LimitRanges)-1])
	} else {
		of.Quotas = append(of.Quotas, corev1.ResourceQuota{})
		err = json.Unmarshal(data, &of.Quotas[len(of.Quotas)-1])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", workload.NameOf(object), err)
	}
	return nil
}

// limited returns a namespace with what limits its pods. An object that names no namespace
// counts for each.
func (n knownNamespaces) limited(ns templates.Namespace) predict.Namespace {
	all := predict.Namespace{Namespace: ns}
	for _, name := range []string{"", ns.Name} {
		if of := n.limits[name]; of != nil {
			all.LimitRanges, all.Quotas = append(all.LimitRanges, of.LimitRanges...), append(all.Quotas, of.Quotas...)
		}
	}
	return all
}

// flatten returns the objects of documents, with the items of lists in their places.
func flatten(documents []workload.Document) ([]map[string]any, error) {
	var objects []map[string]any
	for _, d := range documents {
		items, ok := d.Object["items"].([]any)
		if !ok {
			objects = append(objects, d.Object)
			continue
		}
		for i, item := range items {
			object, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("document %d: items[%d] is no object", d.Number, i)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// of returns the namespace of that name, or the fallback for an object that names none.
// Known reports whether --namespace-file has it.
func (n knownNamespaces) of(name string) (ns templates.Namespace, known bool) {
	if name == "" {
		name = n.fallback
	}
	if name == "" {
		name = "default"
	}
	if ns, ok := n.known[name]; ok {
		return ns, true
	}
	return templates.Namespace{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}, false
}

// session has the inputs of one run of a command: of files, or of a cluster.
type session struct {
	pipeline *injector.Pipeline
	// compare compares pods that exist with new ones.
	compare    standing.Comparer
	set        *templates.Set
	prefix     string
	values     map[string]any // the installer's
	namespaces knownNamespaces
	// file holds the documents.
	file      string
	documents []workload.Document
	// told has the broken templates that a pod asked for. Its outcome told of the mistakes.
	told map[string]bool
	// cluster is nil for a session of files.
	cluster *cluster
}

func (o *offline) open(cmd *cobra.Command) (*session, error) {
	documents, err := o.documents(cmd)
	if err != nil {
		return nil, err
	}
	if o.inCluster {
		return o.openCluster(cmd, documents)
	}
	options, err := o.compileOptions(cmd)
	if err != nil {
		return nil, err
	}
	set, err := o.set(cmd)
	if err != nil {
		return nil, err
	}
	ns, err := o.namespaces(cmd)
	if err != nil {
		return nil, err
	}
	pipeline := injector.NewPipeline(injector.Config{Prefix: o.prefix, ExcludedNamespaces: defaultExcluded, Explain: "pillion explain -f " + o.file + " with the same flags"})
	return &session{
		pipeline: pipeline, compare: standing.Comparer{Pipeline: pipeline, Registration: standing.Registration{Prefix: o.prefix, All: true, Excluded: defaultExcluded}},
		set: set, prefix: o.prefix, values: options.Values, namespaces: ns, file: o.file, documents: documents, told: map[string]bool{},
	}, nil
}

// openCluster returns a session with the settings of the cluster, and the namespaces there that
// the documents are for.
func (o *offline) openCluster(cmd *cobra.Command, documents []workload.Document) (*session, error) {
	c, err := o.connect(cmd)
	if err != nil {
		return nil, err
	}
	s := c.session()
	s.file, s.documents = o.file, documents
	names := map[string]bool{}
	for _, d := range documents {
		// A document that cannot be read is told of when its turn comes.
		_, _, _ = workload.Change(d.Object, func(p workload.Pod) (map[string]any, error) {
			names[cmp.Or(p.Namespace, c.namespace)] = true
			return p.Object, nil
		})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ns, err := c.namespaceOf(cmd.Context(), name)
		if err != nil {
			return nil, err
		}
		s.namespaces.keep(ns)
	}
	return s, nil
}

// session returns one for the cluster, without a file. Its set is empty where the templates
// cannot be read.
func (c *cluster) session() *session {
	set := c.settings.set
	if set == nil {
		set = templates.NewSet(nil)
	}
	return &session{
		pipeline: c.compare.Pipeline, compare: c.compare, set: set, prefix: c.settings.prefix, values: c.settings.compile.Values,
		namespaces: knownNamespaces{fallback: c.namespace}, told: map[string]bool{}, cluster: c,
	}
}

// outcome injects into the pod that is created of p, and into p.
func (s *session) outcome(ctx context.Context, p workload.Pod) (foretold, error) {
	ns, _ := s.namespaces.of(p.Namespace)
	return s.outcomeOf(ctx, p.Created(ns.Name), ns, injector.Request{PodTemplate: p.Object})
}

// outcomeOf injects into a pod that is created now. Of the request it takes what is about the
// answer.
func (s *session) outcomeOf(ctx context.Context, created map[string]any, ns templates.Namespace, r injector.Request) (foretold, error) {
	r.Operation, r.Pod, r.Namespace, r.Templates = "CREATE", created, ns, s.set
	out, err := s.pipeline.Inject(ctx, r)
	if err != nil {
		return foretold{}, err
	}
	f := foretold{Outcome: out}
	var injected []*templates.Template
	for _, t := range out.Templates {
		switch t.Code {
		case reason.TemplateBroken:
			s.told[t.Name] = true
		case reason.Injected:
			if e, ok := s.set.Get(t.Name); ok && e.Template != nil {
				injected = append(injected, e.Template)
			}
		}
	}
	if out.Allowed {
		f.troubles = predict.Troubles(predict.Input{Before: created, After: out.Pod, Namespace: s.namespaces.limited(ns), Injected: injected})
	}
	return f, nil
}

// foretold is what becomes of a pod.
type foretold struct {
	injector.Outcome
	// troubles are what refuses the pod after its injection.
	troubles []predict.Trouble
}

// refused reports whether the pod does not come to be.
func (f foretold) refused() bool {
	return !f.Allowed || slices.ContainsFunc(f.troubles, func(t predict.Trouble) bool { return t.Refused })
}

// warnOfTheRest warns of broken templates that no pod asked for.
func (s *session) warnOfTheRest(w io.Writer) {
	for _, e := range s.set.All() {
		if e.Err != nil && !s.told[e.Name] {
			fmt.Fprintf(w, "warning: %v\n", e.Err)
		}
	}
}

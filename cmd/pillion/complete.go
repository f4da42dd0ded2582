package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// kubectlCompletion is the name under which kubectl looks for the completions of its plugin
// pillion: a link to this program.
const kubectlCompletion = "kubectl_complete-pillion"

const (
	// completeTimeout bounds what a completion asks of a cluster: a person waits.
	completeTimeout = time.Second
	// mostCompletions is how many objects of a kind are read.
	mostCompletions = 500
)

// noFiles: the shell offers no files beside what it is given.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// registerCompletions adds what the shell offers for flags, beside their names. For arguments it
// offers nothing where a command does not say what.
func registerCompletions(root *cobra.Command) error {
	var add func(cmd *cobra.Command) error
	add = func(cmd *cobra.Command) error {
		if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		completions := flagCompletions()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if c, ok := f.Value.(choice); ok {
				completions[f.Name] = fixed(c.allowed)
			}
		})
		for flag, complete := range completions {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
				return fmt.Errorf("adding the completion of --%s to %s: %w", flag, cmd.CommandPath(), err)
			}
		}
		for _, sub := range cmd.Commands() {
			if err := add(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return add(root)
}

// flagCompletions are the completions of flags.
func flagCompletions() map[string]cobra.CompletionFunc {
	manifests := cobra.FixedCompletions([]string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt)
	return map[string]cobra.CompletionFunc{ // --templates takes files and folders, which shells offer by themselves
		"namespace":           completeNamespaces,
		"pillion-namespace":   completeNamespaces,
		"context":             completeContexts,
		"excluded-namespaces": eachOf(completeNamespaces),
		"library":             eachOf(fixed(library.Names())),
		"filename":            manifests,
		"namespace-file":      manifests,
		"pod":                 manifests,
		"values":              manifests,
		"certs-provider":      fixed(providers),
		"key-algorithm":       fixed(keyAlgorithms),
		"enforcement":         fixed([]string{enforcementAuto, enforcementManual}),
		"webhook-scope":       fixed([]string{scopeRequested, scopeAll}),
		"log-level":           fixed([]string{"debug", "info", "warn", "error"}),
		"log-format":          fixed([]string{"text", "json"}),
	}
}

// anyFile offers files.
var anyFile = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)

// fixed offers the same everywhere.
func fixed(values []string) cobra.CompletionFunc { return cobra.FixedCompletions(values, noFiles) }

// first offers something for the first argument, and nothing for others.
func first(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return complete(cmd, args, begun)
	}
}

// eachOf offers the items of a list: those that are not in it yet.
func eachOf(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := ""
		if at := strings.LastIndex(begun, ","); at >= 0 {
			before, begun = begun[:at+1], begun[at+1:]
		}
		taken := strings.Split(before, ",")
		offered, directive := complete(cmd, args, begun)
		var items []cobra.Completion
		for _, item := range offered {
			if name, _, _ := strings.Cut(item, "\t"); !slices.Contains(taken, name) {
				items = append(items, before+item)
			}
		}
		return items, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// readsCluster reports whether the command finds its templates in a cluster: those with the flag
// --cluster do only with it.
func readsCluster(cmd *cobra.Command) bool {
	asked, err := cmd.Flags().GetBool("cluster")
	return asked || err != nil
}

// completeTemplates offers the templates that a command would find: those of a cluster that it
// reads, if that answers soon, or those of --library (all without it); and those of the files of
// --templates.
func completeTemplates(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := cmd.Flags().GetStringSlice("library")
	if readsCluster(cmd) {
		names = append(names, clusterNames(cmd, templatesResource(cmd), "")...)
	}
	if len(names) == 0 {
		names = library.Names()
	}
	names = slices.AppendSeq(names, maps.Keys(fileTemplates(cmd)))
	slices.Sort(names)
	return slices.Compact(names), noFiles
}

func templatesResource(cmd *cobra.Command) schema.GroupVersionResource {
	prefix, err := cmd.Flags().GetString("annotation-prefix")
	if err != nil || prefix == "" {
		prefix = templates.DefaultPrefix
	}
	return schema.GroupVersionResource{Group: prefix, Version: v1alpha1.Version, Resource: "sidecartemplates"}
}

func namespacedResource(cmd *cobra.Command) schema.GroupVersionResource {
	return templatesResource(cmd).GroupVersion().WithResource(store.NamespacedResource)
}

// fileTemplates are the good templates of the files of --templates, by name.
func fileTemplates(cmd *cobra.Command) map[string]*templates.Template {
	found := map[string]*templates.Template{}
	paths, _ := cmd.Flags().GetStringSlice("templates")
	for _, path := range paths {
		manifests, _ := readManifests(path)
		for _, m := range manifests {
			if e := compile(m, templates.Options{Prefix: templatesResource(cmd).Group}, ""); e.Err == nil && e.Namespace == "" {
				found[e.Name] = e.Template
			}
		}
	}
	return found
}

// completeParams offers templates, and then the parameters of the one that is named.
func completeParams(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		offered, directive := completeTemplates(cmd, args, begun)
		if namespace, _ := cmd.Flags().GetString("namespace"); namespace != "" && readsCluster(cmd) {
			offered = append(offered, clusterNames(cmd, namespacedResource(cmd), namespace)...)
			slices.Sort(offered)
		}
		return slices.Compact(offered), directive
	}
	t := templateOf(cmd, args[0])
	if t == nil {
		return nil, noFiles
	}
	var offered []cobra.Completion
	for _, p := range t.Parameters() {
		if name := parameterName(p); !slices.Contains(args[1:], name) {
			offered = append(offered, cobra.CompletionWithDesc(name, p.Description))
		}
	}
	return offered, noFiles
}

// templateOf returns the template that a command would find: of --templates, of a cluster that it
// reads, if that answers soon, or of the library. It is nil where there is no good one.
func templateOf(cmd *cobra.Command, name string) *templates.Template {
	if t := fileTemplates(cmd)[name]; t != nil {
		return t
	}
	var manifest []byte
	resource := templatesResource(cmd)
	if readsCluster(cmd) {
		manifest = clusterManifest(cmd, resource, "", name)
		if namespace, _ := cmd.Flags().GetString("namespace"); manifest == nil && namespace != "" {
			manifest = clusterManifest(cmd, namespacedResource(cmd), namespace, name)
		}
	}
	if manifest == nil {
		manifest, _ = library.Get(name, nil) // none of another name
	}
	t, _, _ := templates.Compile(manifest, templates.Options{Prefix: resource.Group})
	return t
}

// clusterManifest returns the manifest of a template of the cluster, nil where it does not answer.
func clusterManifest(cmd *cobra.Command, resource schema.GroupVersionResource, namespace, name string) (manifest []byte) {
	ask(cmd, dynamic.NewForConfig, func(ctx context.Context, client *dynamic.DynamicClient) {
		object, err := client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			manifest, _ = object.MarshalJSON() // of JSON that was read
		}
	})
	return manifest
}

// ask calls f with a client of the cluster, if there is one, for what a person waits for.
func ask[Client any](cmd *cobra.Command, connect func(*rest.Config) (Client, error), f func(context.Context, Client)) {
	config, err := kubeconfigFor(cmd).ClientConfig()
	if err != nil {
		return
	}
	client, err := connect(config)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	f(ctx, client)
}

func completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return clusterNames(cmd, corev1.SchemeGroupVersion.WithResource("namespaces"), ""), noFiles
}

// completeTargets offers what status and rollout take: templates and namespaces, with ns/ or
// sct/ before it only these.
func completeTargets(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	kind, _, qualified := strings.Cut(begun, "/")
	of := func(isNamespace bool) []cobra.Completion {
		complete := completeTemplates
		if isNamespace {
			complete = completeNamespaces
		}
		names, _ := complete(cmd, args, begun)
		return names
	}
	if !qualified {
		all := append(of(false), of(true)...)
		slices.Sort(all)
		return slices.Compact(all), noFiles
	}
	isNamespace, known := inspect.TargetPrefixes[kind]
	if !known {
		return nil, noFiles
	}
	return withKind(kind, of(isNamespace)), noFiles
}

// completeObjects offers kinds, and after KIND/ or KIND the names of the namespace's objects.
func completeObjects(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	kind, _, qualified := strings.Cut(begun, "/")
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		kind, qualified = args[0], true
	}
	if !qualified {
		var kinds []cobra.Completion
		for _, k := range inspect.ObjectKinds {
			kinds = append(kinds, k.Short+"/")
		}
		return kinds, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	k, ok := inspect.ObjectKindOf(kind)
	if !ok {
		return nil, noFiles
	}
	namespace := ""
	if k.Kind != "Namespace" {
		if namespace, _ = cmd.Flags().GetString("namespace"); namespace == "" {
			namespace, _, _ = kubeconfigFor(cmd).Namespace() // without a kubeconfig there are no names
		}
	}
	names := clusterNames(cmd, k.GroupVersionResource, namespace)
	if len(args) == 0 || strings.Contains(args[0], "/") {
		return withKind(kind, names), noFiles
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args[1:], name) }), noFiles
}

func withKind(kind string, names []cobra.Completion) []cobra.Completion {
	all := make([]cobra.Completion, len(names))
	for i, name := range names {
		all[i] = kind + "/" + name
	}
	return all
}

// kubeconfigFor returns the settings that the command's flags choose.
func kubeconfigFor(cmd *cobra.Command) clientcmd.ClientConfig {
	var p inspect.Place
	p.Kubeconfig, _ = cmd.Flags().GetString("kubeconfig")
	p.Context, _ = cmd.Flags().GetString("context")
	return kubeconfigOf(p)
}

// completeContexts offers the contexts of the kubeconfig.
func completeContexts(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := kubeconfigFor(cmd).RawConfig()
	if err != nil {
		return nil, noFiles
	}
	return slices.Sorted(maps.Keys(config.Contexts)), noFiles
}

// clusterNames returns the names of objects, none if the cluster does not answer soon or the
// user may not list them: a completion says nothing.
func clusterNames(cmd *cobra.Command, of schema.GroupVersionResource, namespace string) (names []string) {
	ask(cmd, metadata.NewForConfig, func(ctx context.Context, client metadata.Interface) {
		list, err := client.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: mostCompletions})
		if err != nil {
			return
		}
		for _, o := range list.Items {
			names = append(names, o.Name)
		}
	})
	return names
}

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
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates"
)

// kubectlCompletion is the name under which kubectl looks for the completions of its plugin
// pillion: a link to this program.
const kubectlCompletion = "kubectl_complete-pillion"

const (
	// completeTimeout bounds the requests of a completion to a cluster: a person waits.
	completeTimeout = time.Second
	// mostCompletions is how many objects of a kind are read.
	mostCompletions = 500
)

// noFiles: the shell offers no files besides the completions.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// registerCompletions adds the completions of the flags' values. A command without completions of its own
// offers nothing for arguments.
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
	files := cobra.FixedCompletions([]string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt)
	return map[string]cobra.CompletionFunc{ // --templates takes files and folders, which shells offer by themselves
		"namespace":           completeNamespaces,
		"pillion-namespace":   completeNamespaces,
		"context":             completeContexts,
		"excluded-namespaces": eachOf(completeNamespaces),
		"library":             eachOf(fixed(charts.Names())),
		"filename":            files,
		"namespace-file":      files,
		"pod":                 files,
		"values":              files,
		"config":              files,
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

// eachOf offers items for a comma list, without the items that the list already has.
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
		names = append(names, clusterNames(cmd, store.Resource)...)
	}
	if len(names) == 0 {
		names = charts.Names()
	}
	names = append(names, fileTemplates(cmd)...)
	slices.Sort(names)
	return slices.Compact(names), noFiles
}

// fileTemplates are the names of the good templates of the files of --templates.
func fileTemplates(cmd *cobra.Command) (names []string) {
	paths, _ := cmd.Flags().GetStringSlice("templates")
	for _, path := range paths {
		files, _ := manifests.ReadTemplates(path)
		for _, t := range files {
			if e := t.Compile(templates.Options{}, ""); e.Err == nil && e.Namespace == "" {
				names = append(names, e.Name)
			}
		}
	}
	return names
}

func completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return clusterNames(cmd, corev1.SchemeGroupVersion.WithResource("namespaces")), noFiles
}

// completeTargets offers templates and namespaces, the targets of status and rollout. After ns/ or sct/ it offers
// one of the two kinds.
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

// clusterNames returns the names of the cluster's objects, none if it does not answer soon or the user
// may not list them: a completion says nothing.
func clusterNames(cmd *cobra.Command, of schema.GroupVersionResource) (names []string) {
	config, err := kubeconfigFor(cmd).ClientConfig()
	if err != nil {
		return nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	list, err := client.Resource(of).List(ctx, metav1.ListOptions{Limit: mostCompletions})
	if err != nil {
		return nil
	}
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names
}

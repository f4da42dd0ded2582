package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates"
)

// source has the flags of commands that read templates and namespaces from files, or with --cluster from a cluster.
type source struct {
	manifests.Options
	// file has the pods.
	file string
	// inCluster: templates, values and namespaces are those of the cluster of place.
	inCluster bool
	place     inspect.Place
}

// podFlags adds the flags of commands that read a file of pods.
func (s *source) podFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.file, "filename", "f", "", "file with pods or workloads, - for standard input")
	s.AddFlags(cmd.Flags())
}

// clusterFlag adds --cluster, and the flags that name the cluster. Without it, only files are
// read, whether or not there is a cluster.
func (s *source) clusterFlag(cmd *cobra.Command) {
	placeFlags(cmd.Flags(), &s.place)
	cmd.Flags().BoolVar(&s.inCluster, "cluster", false, "take templates, values and namespaces from the cluster, read with your own rights")
}

// fileFlags are the flags that name files with parts that --cluster reads from the cluster.
var fileFlags = []string{"templates", "library", "values", "foreign-sidecars", "namespace-file", "excluded-namespaces"}

// connect returns the cluster that the flags name, with the settings of the server there. A flag of fileFlags is
// an error.
func (s *source) connect(cmd *cobra.Command) (*inspect.Live, error) {
	for _, name := range fileFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return nil, usageError{Err: fmt.Errorf("--%s is only for files, and this command reads the cluster: leave it out", name)}
		}
	}
	live, err := s.live(cmd)
	if err != nil {
		return nil, err
	}
	namespace, err := s.namespace()
	if err != nil {
		return nil, err
	}
	live.Fallback, live.Compare.Pipeline = namespace, s.At(live.Compare.Pipeline)
	return live, nil
}

// namespace returns the namespace of -n, or that of the context.
func (s *source) namespace() (string, error) {
	if s.Namespace != "" {
		return s.Namespace, nil
	}
	namespace, _, err := kubeconfigOf(s.place).Namespace()
	if err != nil {
		return "", fmt.Errorf("finding the namespace: %w", err)
	}
	return namespace, nil
}

// live returns the cluster that the flags name, with the settings of the server there.
func (s *source) live(cmd *cobra.Command) (*inspect.Live, error) {
	cluster, err := openCluster(s.place)
	if err != nil {
		return nil, err
	}
	return cluster.Live(cmd.Context())
}

// inForce returns the templates of the files, or those of the cluster with its other settings. It
// prints a note for each part of the cluster that cannot be read. Templates that cannot be read are nil.
func (s *source) inForce(cmd *cobra.Command) (*templates.Set, *inspect.Live, error) {
	if !s.inCluster {
		set, err := s.Set(cmd.InOrStdin())
		return set, nil, err
	}
	live, err := s.connect(cmd)
	if err != nil {
		return nil, nil, err
	}
	printNotes(cmd, live)
	return live.Templates, live, nil
}

// printNotes prints a note for each setting of a cluster that cannot be read.
func printNotes(cmd *cobra.Command, live *inspect.Live) {
	for _, note := range live.Notes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
	}
}

// documents reads the file of pods.
func (s *source) documents(cmd *cobra.Command) ([]workload.Document, error) {
	if s.file == "" {
		return nil, usageError{Err: errors.New("-f FILE is required")}
	}
	return manifests.ReadDocuments(cmd.InOrStdin(), s.file)
}

// open returns a session for the file of pods.
func (s *source) open(cmd *cobra.Command) (*manifests.Session, error) {
	documents, err := s.documents(cmd)
	if err != nil {
		return nil, err
	}
	if s.inCluster {
		return s.openCluster(cmd, documents)
	}
	return s.Session(cmd.InOrStdin(), s.file, documents)
}

// openCluster returns a session with the settings of the cluster, and the namespaces there that
// the documents are for.
func (s *source) openCluster(cmd *cobra.Command, documents []workload.Document) (*manifests.Session, error) {
	live, err := s.connect(cmd)
	if err != nil {
		return nil, err
	}
	session := &manifests.Session{File: s.file, Documents: documents, Session: live.Session()}
	names := map[string]bool{}
	for _, d := range documents {
		// The session reports a document that cannot be read.
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
		session.Namespaces.Add(ns)
	}
	return session, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/injector/unlabel"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// unlabelPage is how many namespaces are read at once, and unlabelWriters how many are
	// written at the same time.
	unlabelPage    = 500
	unlabelWriters = 16
	// unlabelTries bounds the tries for one namespace that others write, too.
	unlabelTries = 5
)

func newUnlabelCommand() *cobra.Command {
	var kubeconfig, kubeContext, prefix string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "unlabel",
		Short: "Take the labels that Pillion set off all namespaces, after it has gone",
		Long: `Unlabel takes off the labels PREFIX/injection and PREFIX/required that Pillion set.
What a hand set stays: a value of PREFIX/injection that another field manager owns.

'helm uninstall' does the same while Pillion runs. Use unlabel where Pillion did not
run then, or after 'helm uninstall --no-hooks'. While Pillion runs it sets the labels
again. Labels without Pillion's webhook configurations do nothing.

You need the permissions to list and to patch namespaces.`,
		Example: `  pillion unlabel --dry-run`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clusterConfig(kubeconfig, kubeContext)
			if err != nil {
				return err
			}
			u, err := newUnlabeller(config, prefix, dryRun)
			if err != nil {
				return err
			}
			done, err := u.sweep(cmd.Context())
			for _, name := range slices.Sorted(maps.Keys(done)) {
				fmt.Fprintf(cmd.OutOrStdout(), "namespace %s: %s\n", name, strings.Join(done[name], ", "))
			}
			said := "took labels off %d namespaces\n"
			if dryRun {
				said = "would take labels off %d namespaces\n"
			}
			fmt.Fprintf(cmd.OutOrStdout(), said, len(done))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	f.StringVar(&kubeContext, "context", "", contextUsage)
	f.StringVar(&prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of the labels")
	f.BoolVar(&dryRun, "dry-run", false, "say what would be taken off, and change nothing")
	return cmd
}

// unlabeller takes Pillion's labels off namespaces.
type unlabeller struct {
	namespaces metadata.ResourceInterface
	labels     unlabel.Labels
	manager    string // of fields
	dryRun     bool
}

func newUnlabeller(config *rest.Config, prefix string, dryRun bool) (*unlabeller, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // its writers are few
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for namespaces: %w", err)
	}
	return &unlabeller{client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), unlabel.New(prefix), kept.FieldManager(prefix), dryRun}, nil
}

// sweep takes the labels off every namespace. It returns what it took off, by namespace, and
// every error.
func (u *unlabeller) sweep(ctx context.Context) (map[string][]string, error) {
	done := map[string][]string{}
	var failed error
	var mu sync.Mutex
	for _, key := range u.labels.Keys() {
		options := metav1.ListOptions{LabelSelector: key, Limit: unlabelPage}
		for {
			page, err := u.namespaces.List(ctx, options)
			if err != nil {
				return done, errors.Join(failed, fmt.Errorf("listing namespaces with the label %s: %w", key, err))
			}
			var group errgroup.Group
			group.SetLimit(unlabelWriters)
			for i := range page.Items {
				ns := &page.Items[i]
				if mu.Lock(); done[ns.Name] != nil { // by the other label
					mu.Unlock()
					continue
				}
				mu.Unlock()
				group.Go(func() error {
					keys, err := u.one(ctx, ns)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						failed = errors.Join(failed, fmt.Errorf("taking labels off namespace %s: %w", ns.Name, err))
					} else if len(keys) > 0 {
						done[ns.Name] = keys
					}
					return nil
				})
			}
			_ = group.Wait() // the errors are in failed
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	return done, failed
}

// one takes Pillion's labels off a namespace, and returns their keys.
func (u *unlabeller) one(ctx context.Context, ns *metav1.PartialObjectMetadata) (keys []string, err error) {
	for range unlabelTries {
		keys = u.labels.Ours(ns.ObjectMeta)
		if len(keys) == 0 || u.dryRun {
			return keys, nil
		}
		var patch []byte
		if patch, err = unlabel.Patch(ns.ObjectMeta, keys); err != nil {
			return nil, err
		}
		_, err = u.namespaces.Patch(ctx, ns.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: u.manager})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if !apierrors.IsConflict(err) {
			return keys, err
		}
		if ns, err = u.namespaces.Get(ctx, ns.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return nil, err
}

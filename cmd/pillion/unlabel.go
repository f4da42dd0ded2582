package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/inspect"
)

func newUnlabelCommand() *cobra.Command {
	var where inspect.Place
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "unlabel",
		Short: "Remove Pillion's labels from all namespaces, after an uninstall",
		Long: `Unlabel removes the labels pillion.dev/injection and pillion.dev/required that
Pillion set. A value of the first that another field manager owns stays.

'helm uninstall' does the same while Pillion runs. Use unlabel where Pillion did
not run then, or after 'helm uninstall --no-hooks'. While Pillion runs it sets
the labels again. Labels without Pillion's webhook configurations do nothing.

You need the permissions to list and to patch namespaces.`,
		Example: `  pillion unlabel --dry-run`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clusterConfig(where)
			if err != nil {
				return err
			}
			config.QPS = -1 // its writers are few
			client, err := metadata.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("making a client for namespaces: %w", err)
			}
			done, err := labels.Remover{Namespaces: client.Resource(inspect.NamespacesResource), DryRun: dryRun}.Remove(cmd.Context())
			for _, name := range slices.Sorted(maps.Keys(done)) {
				fmt.Fprintf(cmd.OutOrStdout(), "namespace %s: %s\n", name, strings.Join(done[name], ", "))
			}
			said := "removed labels from %d namespaces\n"
			if dryRun {
				said = "would remove labels from %d namespaces\n"
			}
			fmt.Fprintf(cmd.OutOrStdout(), said, len(done))
			return err
		},
	}
	f := cmd.Flags()
	clusterFlags(f, &where)
	f.BoolVar(&dryRun, "dry-run", false, "say what would be removed, and change nothing")
	return cmd
}

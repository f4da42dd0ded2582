package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it works with",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			build := ""
			if version != charts.Version() {
				build = "build " + version + ", "
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "pillion %s (%s%s, %s/%s)\nKubernetes: %s and later\nTemplates:  %s/%s\nReplicas:   of the same version; pillion check compares\n",
				charts.Version(), build, runtime.Version(), runtime.GOOS, runtime.GOARCH, check.OldestKubernetes, v1alpha1.Group, v1alpha1.Version)
			return err
		},
	}
}

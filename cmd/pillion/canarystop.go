package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/canary"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

func newCanaryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "canary",
		Short: "Stop canaries of templates",
		Args:  subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCanaryStopCommand())
	return cmd
}

// canaryStopCommand has the flags of the command.
type canaryStopCommand struct {
	where          inspect.Place
	prefix, reason string
}

func newCanaryStopCommand() *cobra.Command {
	var c canaryStopCommand
	cmd := &cobra.Command{
		Use:   "stop CANARY",
		Short: "Give a canary to no new pod any more",
		Long: `Stop sets the condition Stopped in the status of a canary, as Pillion itself does when
the canary fails. Within a second new pods get the stable template. Pods that have the
canary keep it until they are made anew. You need the right to patch
sidecartemplates/status. GitOps tools leave a status alone, so they do not take this back.

An edit of the canary starts it anew, with any change of its spec. To stop it without that
right, or in git: spec.canary.percent: 0, or delete it.`,
		Example: `  pillion canary stop fluent-bit-next
  pillion canary stop fluent-bit-next --reason "OPS-123: logs arrive late"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("canary stop takes the name of one canary, got %d", len(args))}
			}
			return nil
		},
		RunE: c.run,
	}
	f := cmd.Flags()
	placeFlags(f, &c.where)
	f.StringVar(&c.prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of Pillion's annotations")
	f.StringVar(&c.reason, "reason", "somebody ran 'pillion canary stop'", "the message of the condition")
	return cmd
}

// stopTries is how often the condition is written anew where the object changes meanwhile: replicas
// write its status, too.
const stopTries = 5

func (c *canaryStopCommand) run(cmd *cobra.Command, args []string) error {
	cluster, err := openCluster(c.where)
	if err != nil {
		return err
	}
	client := cluster.Objects.Resource(schema.GroupVersionResource{Group: c.prefix, Version: v1alpha1.Version, Resource: store.Resource})
	var of string
	var was bool
	for range stopTries {
		if of, was, err = c.stop(cmd, client, args[0]); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	says := "stopped; new pods get " + of
	if was {
		says = "is stopped already"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\nPods that have it keep it; to bring them back: pillion rollout sct/%s --dry-run%s\n", args[0], says, of, c.where.Args())
	return err
}

// stop writes the condition once, unless it is there, and returns the name of the stable template.
func (c *canaryStopCommand) stop(cmd *cobra.Command, client dynamic.ResourceInterface, name string) (of string, was bool, err error) {
	found, err := client.Get(cmd.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false, fmt.Errorf("the cluster has no SidecarTemplate %s; where it is a file of the values, set its spec.canary.percent to 0 there: %w", name, err)
	} else if err != nil {
		return "", false, inspect.Granting(err)
	}
	if of, _, _ = unstructured.NestedString(found.Object, "spec", "canary", "of"); of == "" {
		return "", false, fmt.Errorf("the template %s is no canary: it has no spec.canary.of; to inject it nowhere, set spec.suspend", name)
	}
	var object v1alpha1.SidecarTemplate
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": found.Object["status"]}, &object); err != nil {
		return "", false, fmt.Errorf("reading the status of the SidecarTemplate %s: %w", name, err)
	}
	if object.Status.IsStopped(found.GetGeneration()) {
		return of, true, nil
	}
	meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{
		Type: v1alpha1.Stopped, Status: metav1.ConditionTrue, ObservedGeneration: found.GetGeneration(), Reason: canary.StoppedByHand, Message: c.reason,
	})
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": found.GetResourceVersion()},
		"status":   map[string]any{"conditions": object.Status.Conditions},
	})
	if err != nil {
		return "", false, err
	}
	if _, err = client.Patch(cmd.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pillion-canary"}, "status"); err != nil {
		return "", false, fmt.Errorf("stopping the canary %s: %w", name, inspect.Granting(err))
	}
	return of, false, nil
}

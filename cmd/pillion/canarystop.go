package main

import (
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/canary"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// canaryStopCommand has the flags of the command.
type canaryStopCommand struct {
	canaryPlace
	reason string
}

func newCanaryStopCommand() *cobra.Command {
	var c canaryStopCommand
	cmd := &cobra.Command{
		Use:   "stop CANARY",
		Short: "Give a canary to no new pod any more",
		Long: `Stop sets the condition Stopped in the status of a canary, as Pillion itself
does when the canary fails. Within a second new pods get the stable template.
Pods that have the canary keep it until they are made anew. You need the right
to patch sidecartemplates/status. GitOps tools leave a status alone, so they do
not take this back.

An edit of the canary starts it anew, with any change of its spec. To stop it
without that right, or in git: spec.canary.percent: 0, or delete it.`,
		Example: `  pillion canary stop fluent-bit-next
  pillion canary stop fluent-bit-next --reason "OPS-123: logs arrive late"`,
		Args:              oneArg("canary stop takes the name of one canary"),
		RunE:              c.run,
		ValidArgsFunction: first(completeTemplates),
	}
	f := cmd.Flags()
	c.flags(f)
	f.StringVar(&c.reason, "reason", "somebody ran 'pillion canary stop'", "the message of the condition")
	return cmd
}

// stopTries is how often the condition is written anew where the object changes meanwhile: replicas
// write its status, too.
const stopTries = 5

func (c *canaryStopCommand) run(cmd *cobra.Command, args []string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
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
		return "", false, err
	}
	if of = canaryOf(found); of == "" {
		return "", false, fmt.Errorf("the template %s is no canary: it has no spec.canary.of; to inject it nowhere, set spec.suspend", name)
	}
	status, err := statusOf(found)
	if err != nil {
		return "", false, fmt.Errorf("reading the status of the SidecarTemplate %s: %w", name, err)
	}
	if status.IsStopped(found.GetGeneration()) {
		return of, true, nil
	}
	patch, err := canary.StopPatch(store.Object{Generation: found.GetGeneration(), ResourceVersion: found.GetResourceVersion(), Status: status},
		metav1.Condition{Type: v1alpha1.Stopped, Status: metav1.ConditionTrue, Reason: canary.StoppedByHand, Message: c.reason})
	if err != nil {
		return "", false, err
	}
	if _, err = client.Patch(cmd.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pillion-canary"}, "status"); err != nil {
		return "", false, fmt.Errorf("stopping the canary %s: %w", name, err)
	}
	return of, false, nil
}

package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/templates/admissionpolicy"
)

// policyCommand has the flags of the command.
type policyCommand struct {
	source   source
	excluded []string
}

func newPolicyCommand() *cobra.Command {
	var c policyCommand
	cmd := &cobra.Command{
		Use:   "policy TEMPLATE",
		Short: "Print an admission policy that holds pods to a required template",
		Long: `Policy prints a ValidatingAdmissionPolicy with its binding for a required
template. API servers evaluate it themselves: it holds while Pillion is away,
and in a namespace that is too new for Pillion's labels. Pods that the template
selects are refused if one of its containers is missing, or has an image that
neither the template renders nor its spec.verify.images allows; and so is
another image for such a container in a running pod. So are exec and attach
into such a container, unless the template has spec.verify.allow.exec. The
comments in front of it list its limits.

Without --cluster policy reads files: --templates, and with --values the
defaults that the installer's values give. With --cluster the template and the
namespaces that are left out are those of the cluster, read with your own
rights. Apply what is printed again when the template's images or selectors
change; 'pillion check' says when it is old.

A container under $if is not demanded, since API servers cannot evaluate the
condition. A template whose every container depends on the pod, by $if or by
matchConditions, has no policy.`,
		Example: `  pillion policy mesh --templates mesh.yaml
  pillion policy mesh --cluster | kubectl apply -f -`,
		Args:              oneArg("policy takes the name of one template"),
		RunE:              c.run,
		ValidArgsFunction: first(completeTemplates),
	}
	c.source.AddTemplateFlags(cmd.Flags())
	c.source.clusterFlag(cmd)
	cmd.Flags().StringSliceVar(&c.excluded, "excluded-namespaces", settings.DefaultExcluded(), "namespaces that the policy leaves out, besides Pillion's own")
	return cmd
}

func (c *policyCommand) run(cmd *cobra.Command, args []string) error {
	set, live, err := c.source.inForce(cmd)
	if err != nil {
		return err
	}
	options := admissionpolicy.Options{Excluded: append(slices.Clone(c.excluded), c.source.place.Namespace)}
	if live != nil {
		if !live.Complete {
			return errors.New("a policy depends on Pillion's settings, which cannot be read with your rights (see the notes above)")
		}
		options = admissionpolicy.Options{Excluded: live.Excluded}
	}
	t, err := oneTemplate(set, args[0])
	if err != nil {
		return err
	}
	floor, err := admissionpolicy.Of(cmd.Context(), t, options, set.CanariesOf(t.Name())...)
	if err != nil {
		return err
	}
	return floor.Write(cmd.OutOrStdout())
}

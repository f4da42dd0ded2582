package inspect

import (
	"context"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect/chain"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
)

// policyVersions are those of MutatingAdmissionPolicies, which Kubernetes has since 1.32, the newest
// first: v1beta1 and v1alpha1 are of the same shape.
var policyVersions = []string{"v1", "v1beta1", "v1alpha1"}

// chained reads the cluster's webhook configurations and policies. Notes say what could not be
// read.
func (c *Cluster) chained(ctx context.Context) (all chain.Objects, notes []explain.Note, err error) {
	var denied error
	read := func(resource string, unread error) {
		switch {
		case apierrors.IsForbidden(unread):
			all.Unread, denied = append(all.Unread, resource), unread
		case err == nil:
			err = unread
		}
	}
	read("mutatingadmissionpolicies", inNewest(ctx, c, "mutatingadmissionpolicies", policyVersions, &all.MutatingPolicies))
	read(chain.MutatingBindings, inNewest(ctx, c, chain.MutatingBindings, policyVersions, &all.MutatingBindings))
	read("mutatingwebhookconfigurations", inNewest(ctx, c, "mutatingwebhookconfigurations", []string{"v1"}, &all.Mutating))
	read("validatingadmissionpolicies", inNewest(ctx, c, "validatingadmissionpolicies", []string{"v1"}, &all.ValidatingPolicies))
	read(chain.ValidatingBindings, inNewest(ctx, c, chain.ValidatingBindings, []string{"v1"}, &all.ValidatingBindings))
	read("validatingwebhookconfigurations", inNewest(ctx, c, "validatingwebhookconfigurations", []string{"v1"}, &all.Validating))
	if denied != nil {
		notes = append(notes, lackingChain(all.Unread, denied))
	}
	return all, notes, err
}

// inNewest lists objects in the newest version that the API server has: none where it has none.
func inNewest[T any](ctx context.Context, c *Cluster, resource string, versions []string, into *[]T) (err error) {
	for _, version := range versions {
		*into, err = listed[T](ctx, c, resourceOf(admissionv1.GroupName, version, resource), "", metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// lackingChain returns the note about resources that the user may not list.
func lackingChain(resources []string, denied error) explain.Note {
	lacks := "the chain lacks all " + strings.Join(resources, ", ") + ": "
	if missingRight(denied) == nil {
		return lacking(lacks, denied)
	}
	var qualified []string
	for _, r := range resources {
		qualified = append(qualified, r+"."+admissionv1.GroupName)
	}
	return explain.Note{Says: lacks + "you lack the right to list them. An admin can grant it:", Remedy: []string{
		"kubectl create clusterrole pillion-chain --verb=list --resource=" + strings.Join(qualified, ","),
		"kubectl create clusterrolebinding pillion-chain --clusterrole=pillion-chain " + deniedTo(denied),
	}}
}

// link adds the chain of the pod to what is explained, if it is asked for.
func (l *Live) link(ctx context.Context, explained *explain.Pod, ns templates.Namespace, pod, after map[string]any) error {
	if !l.Chain {
		return nil
	}
	if l.links == nil {
		all, notes, err := l.chained(ctx)
		if err != nil {
			return err
		}
		l.links, l.Notes = &all, append(l.Notes, notes...)
	}
	found, err := chain.Of(chain.Input{Objects: *l.links, Pod: pod, After: after, Namespace: ns, Prefix: l.Prefix})
	if err != nil {
		return err
	}
	explained.Chain = &found
	return nil
}

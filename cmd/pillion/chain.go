package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/offline/chain"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/templates"
)

// chainKind is a kind of objects that a chain is made of.
type chainKind struct {
	resource string
	// versions are those in which an API server may have it, the newest first.
	versions []string
	read     func([]byte) error
}

// policyVersions are those of MutatingAdmissionPolicies, which Kubernetes has since 1.32: v1beta1
// and v1alpha1 are of the same shape.
var policyVersions = []string{"v1", "v1beta1", "v1alpha1"}

// readChain reads the cluster's webhook configurations and policies with the user's own rights.
// Notes say what could not be read.
func readChain(ctx context.Context, client dynamic.Interface) (all chain.Objects, notes []explain.Note, err error) {
	var denied error
	for _, kind := range []chainKind{
		{"mutatingadmissionpolicies", policyVersions, items(&all.MutatingPolicies)},
		{chain.MutatingBindings, policyVersions, items(&all.MutatingBindings)},
		{"mutatingwebhookconfigurations", []string{"v1"}, items(&all.Mutating)},
		{"validatingadmissionpolicies", []string{"v1"}, items(&all.ValidatingPolicies)},
		{chain.ValidatingBindings, []string{"v1"}, items(&all.ValidatingBindings)},
		{"validatingwebhookconfigurations", []string{"v1"}, items(&all.Validating)},
	} {
		err := kind.list(ctx, client)
		switch {
		case apierrors.IsForbidden(err):
			all.Unread, denied = append(all.Unread, kind.resource), err
		case err != nil:
			return all, notes, fmt.Errorf("reading %s: %w", kind.resource, err)
		}
	}
	if denied != nil {
		notes = append(notes, lackingChain(all.Unread, denied))
	}
	return all, notes, nil
}

// lackingChain returns the note about resources that the user may not list.
func lackingChain(resources []string, denied error) explain.Note {
	lacks := "the chain lacks all " + strings.Join(resources, ", ") + ": "
	if !lacksRight(denied) {
		return lacking(lacks, denied)
	}
	var qualified []string
	for _, r := range resources {
		qualified = append(qualified, r+"."+admissionv1.GroupName)
	}
	return explain.Note{Says: lacks + "you lack the right to list them. Who may grant it:", Remedy: []string{
		"kubectl create clusterrole pillion-chain --verb=list --resource=" + strings.Join(qualified, ","),
		"kubectl create clusterrolebinding pillion-chain --clusterrole=pillion-chain " + deniedTo(denied),
	}}
}

// list reads the objects in the newest version that the API server has. There are none where it
// has no version.
func (k chainKind) list(ctx context.Context, client dynamic.Interface) error {
	for _, version := range k.versions {
		found, err := client.Resource(schema.GroupVersionResource{Group: admissionv1.GroupName, Version: version, Resource: k.resource}).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		data, err := found.MarshalJSON()
		if err != nil {
			return err
		}
		return k.read(data)
	}
	return nil
}

// items returns a function that reads the items of a list.
func items[T any](into *[]T) func([]byte) error {
	return func(data []byte) error {
		var list struct {
			Items []T `json:"items"`
		}
		err := json.Unmarshal(data, &list)
		*into = list.Items
		return err
	}
}

// link adds the chain of the pod to what is explained, if it is asked for.
func (c *cluster) link(ctx context.Context, explained *explain.Pod, ns templates.Namespace, pod, after map[string]any) error {
	if !c.chain {
		return nil
	}
	if c.links == nil {
		all, notes, err := readChain(ctx, c.objects)
		if err != nil {
			return err
		}
		c.links, c.notes = &all, append(c.notes, notes...)
	}
	found, err := chain.Of(chain.Input{Objects: *c.links, Pod: pod, After: after, Namespace: ns, Prefix: c.settings.prefix})
	if err != nil {
		return err
	}
	explained.Chain = &found
	return nil
}

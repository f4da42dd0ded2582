package main

import (
	"context"
	"encoding/json"
	"fmt"

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
	// unread is called where a right is missing. It may be nil.
	unread func()
}

// policyVersions are those of MutatingAdmissionPolicies, which Kubernetes has since 1.32: v1beta1
// and v1alpha1 are of the same shape.
var policyVersions = []string{"v1", "v1beta1", "v1alpha1"}

// readChain reads the cluster's webhook configurations and policies with the user's own rights.
// Notes say what could not be read.
func readChain(ctx context.Context, client dynamic.Interface) (all chain.Objects, notes []explain.Note, err error) {
	all.UnreadBindings = map[chain.Phase]bool{}
	unread := func(phase chain.Phase) func() { return func() { all.UnreadBindings[phase] = true } }
	for _, kind := range []chainKind{
		{"mutatingadmissionpolicies", policyVersions, items(&all.MutatingPolicies), nil},
		{"mutatingadmissionpolicybindings", policyVersions, items(&all.MutatingBindings), unread(chain.MutatingPolicies)},
		{"mutatingwebhookconfigurations", []string{"v1"}, items(&all.Mutating), nil},
		{"validatingadmissionpolicies", []string{"v1"}, items(&all.ValidatingPolicies), nil},
		{"validatingadmissionpolicybindings", []string{"v1"}, items(&all.ValidatingBindings), unread(chain.ValidatingPolicies)},
		{"validatingwebhookconfigurations", []string{"v1"}, items(&all.Validating), nil},
	} {
		err := kind.list(ctx, client)
		switch {
		case apierrors.IsForbidden(err):
			notes = append(notes, lacking(fmt.Sprintf("the chain lacks all %s: ", kind.resource), err))
			if kind.unread != nil {
				kind.unread()
			}
		case err != nil:
			return all, notes, fmt.Errorf("reading %s: %w", kind.resource, err)
		}
	}
	return all, notes, nil
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

package main

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/offline/chain"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/templates"
)

// readChain reads the cluster's webhook configurations and policies with the user's own rights.
// Notes say what could not be read.
func readChain(ctx context.Context, client dynamic.Interface) (all chain.Objects, notes []string, err error) {
	for _, kind := range []struct {
		resource string
		read     func([]byte) error
	}{
		{"mutatingadmissionpolicies", items(&all.MutatingPolicies)},
		{"mutatingadmissionpolicybindings", items(&all.MutatingBindings)},
		{"mutatingwebhookconfigurations", items(&all.Mutating)},
		{"validatingadmissionpolicies", items(&all.ValidatingPolicies)},
		{"validatingadmissionpolicybindings", items(&all.ValidatingBindings)},
		{"validatingwebhookconfigurations", items(&all.Validating)},
	} {
		resource := client.Resource(admissionv1.SchemeGroupVersion.WithResource(kind.resource))
		found, err := resource.List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("the chain lacks all %s: %s", kind.resource, lackingOr(err)))
			continue
		case apierrors.IsNotFound(err):
			continue // this Kubernetes has none
		case err != nil:
			return all, notes, fmt.Errorf("reading %s: %w", kind.resource, err)
		}
		data, err := found.MarshalJSON()
		if err == nil {
			err = kind.read(data)
		}
		if err != nil {
			return all, notes, fmt.Errorf("reading %s: %w", kind.resource, err)
		}
	}
	return all, notes, nil
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
		c.links, c.linkNotes = &all, notes
	}
	found, err := chain.Of(chain.Input{Objects: *c.links, Pod: pod, After: after, Namespace: ns, Prefix: c.settings.prefix})
	if err != nil {
		return err
	}
	found.Notes = append(found.Notes, c.linkNotes...)
	explained.Chain = &found
	return nil
}

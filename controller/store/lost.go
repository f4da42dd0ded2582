package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/templates"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// wentWithCRD returns a function that tells objects that went with their CRD from objects that
// somebody deleted, by when they were made. Who deletes a template wants it gone. Who deletes the
// CRD seldom means every template of the cluster, so those stay in force until they are back, or
// the process ends. crd and err are the API server's answer to a read of the CRD.
func wentWithCRD(crd metav1.Object, err error) (func(created metav1.Time) bool, error) {
	switch {
	case apierrors.IsNotFound(err):
		return func(metav1.Time) bool { return true }, nil
	case err != nil:
		return nil, err
	}
	made := crd.GetCreationTimestamp()
	return func(created metav1.Time) bool { return crd.GetDeletionTimestamp() != nil || created.Before(&made) }, nil
}

// losses are the objects of the cluster that went with their CRD.
type losses struct {
	// read is [wentWithCRD] of the CRD as it is now.
	read func(ctx context.Context) (func(created metav1.Time) bool, error)
	// known has when the objects were made that were there, by name, and lost those that went.
	known map[string]metav1.Time
	lost  map[string]bool
}

// definition reads the CRD. It needs the verb get on this one object.
func (c *cluster) definition(ctx context.Context) (func(created metav1.Time) bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return wentWithCRD(c.client.Resource(definitions).Get(ctx, c.gvr.GroupResource().String(), metav1.GetOptions{}))
}

// judge adds to a report of all objects those that were lost. It returns an error where it
// cannot tell yet, and must be called again.
func (l *losses) judge(ctx context.Context, r Report) (Report, error) {
	if r.Units == nil {
		return r, nil
	}
	now := map[string]metav1.Time{}
	for _, u := range r.Units {
		now[u.Object.Name] = u.Object.Created
		delete(l.lost, u.Object.Name)
	}
	gone := maps.Clone(l.known)
	maps.DeleteFunc(gone, func(name string, _ metav1.Time) bool { _, there := now[name]; return there })
	if len(gone) > 0 {
		went, err := l.read(ctx)
		switch {
		case apierrors.IsForbidden(err):
			r.Note = fmt.Sprintf("missing permission: the verb get on the CRD; deleting the CRD cannot be told from deleting each template: %v", err)
		case err != nil:
			return r, fmt.Errorf("reading the CRD of templates that are gone: %w", err)
		default:
			for name, created := range gone {
				if went(created) {
					l.lost[name] = true
				}
			}
		}
	}
	l.known = now
	for _, name := range slices.Sorted(maps.Keys(l.lost)) {
		r.Units = append(r.Units, Unit{Source: templates.ClusterSource + name, Err: fmt.Errorf(
			"the CRD was deleted, and SidecarTemplate %s with it; the last version stays in force until the object is back: apply it again, or, if it is to go, apply it and delete it", name)})
	}
	return r, nil
}

package live

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/templates"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// losses tells objects that somebody deleted from objects that went with their CRD. Who
// deletes a template wants it gone. Who deletes the CRD seldom means every template of the
// cluster, so those stay in force until they are back, or the process ends.
type losses struct {
	// read returns the UID of the CRD, and whether it is being deleted.
	read func(ctx context.Context) (uid types.UID, going bool, err error)
	// uid is that of the CRD that the known objects were of, and next that of the CRD that the
	// objects listed from now on are of. Empty if it could not be read.
	uid, next types.UID
	// known are the objects that were there, and lost those that went with the CRD.
	known, lost map[string]bool
}

// definition reads the CRD. It needs the verb get on this one object.
func (c *cluster) definition(ctx context.Context) (types.UID, bool, error) {
	o, err := c.client.Resource(definitions).Get(ctx, c.gvr.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		return "", false, err
	}
	return o.GetUID(), o.GetDeletionTimestamp() != nil, nil
}

// begin notes which CRD the objects are of, before they are listed.
func (l *losses) begin(ctx context.Context) {
	if uid, going, err := l.read(ctx); err == nil && !going {
		l.next = uid
	}
}

// judge adds to a report of all objects those that were lost. It returns an error where it
// cannot tell yet, and must be called again.
func (l *losses) judge(ctx context.Context, r Report) (Report, error) {
	if r.Units == nil {
		return r, nil
	}
	now, back := map[string]bool{}, false
	for _, u := range r.Units {
		now[u.Object.Name] = true
		back = back || l.lost[u.Object.Name]
		delete(l.lost, u.Object.Name)
	}
	if back {
		l.begin(ctx) // it is of the CRD that there is now
	}
	gone := maps.Clone(l.known)
	maps.DeleteFunc(gone, func(name string, _ bool) bool { return now[name] })
	if len(gone) > 0 {
		uid, going, err := l.read(ctx)
		switch {
		case apierrors.IsNotFound(err), err == nil && (going || l.uid != "" && uid != l.uid):
			maps.Copy(l.lost, gone)
		case apierrors.IsForbidden(err):
			r.Note = fmt.Sprintf("missing permission: the verb get on the CRD; deleting the CRD cannot be told from deleting each template: %v", err)
		case err != nil:
			return r, fmt.Errorf("reading the CRD of templates that are gone: %w", err)
		}
		if err == nil && !going {
			l.next = uid
		}
	}
	l.known = now
	if l.next != "" {
		l.uid, l.next = l.next, ""
	}
	for _, name := range slices.Sorted(maps.Keys(l.lost)) {
		r.Units = append(r.Units, Unit{Source: templates.ClusterSource + name, Err: fmt.Errorf(
			"the CRD was deleted, and SidecarTemplate %s with it; the last version stays in force until the object is back: apply it again, or, if it is to go, apply it and delete it", name)})
	}
	return r, nil
}

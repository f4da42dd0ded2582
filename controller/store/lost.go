package store

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
	// crd is the UID of the CRD when it was last read, empty if it never could be, and fresh
	// says that it was read since the last report.
	crd   types.UID
	fresh bool
	// known are the objects that were there, by name, and lost those that went with the CRD.
	known map[string]origin
	lost  map[string]bool
}

// origin is the UID of an object, and that of its CRD.
type origin struct{ uid, crd types.UID }

// definition reads the CRD. It needs the verb get on this one object.
func (c *cluster) definition(ctx context.Context) (types.UID, bool, error) {
	o, err := c.client.Resource(definitions).Get(ctx, c.gvr.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		return "", false, err
	}
	return o.GetUID(), o.GetDeletionTimestamp() != nil, nil
}

// begin notes which CRD the objects are of that are seen for the first time.
func (l *losses) begin(ctx context.Context) {
	if uid, going, err := l.read(ctx); err == nil && !going {
		l.crd, l.fresh = uid, true
	}
}

// judge adds to a report of all objects those that were lost. It returns an error where it
// cannot tell yet, and must be called again.
func (l *losses) judge(ctx context.Context, r Report) (Report, error) {
	if r.Units == nil {
		return r, nil
	}
	now, anew := map[string]origin{}, false
	for _, u := range r.Units {
		k := l.known[u.Object.Name]
		if k.uid != u.Object.UID {
			anew = true
			k = origin{uid: u.Object.UID}
		}
		now[u.Object.Name] = k
		delete(l.lost, u.Object.Name)
	}
	if anew && !l.fresh {
		l.begin(ctx)
	}
	for name, k := range now {
		if k.crd == "" {
			now[name] = origin{uid: k.uid, crd: l.crd}
		}
	}
	gone := maps.Clone(l.known)
	maps.DeleteFunc(gone, func(name string, _ origin) bool { _, there := now[name]; return there })
	if len(gone) > 0 {
		uid, going, err := l.read(ctx)
		switch {
		case apierrors.IsForbidden(err):
			r.Note = fmt.Sprintf("missing permission: the verb get on the CRD; deleting the CRD cannot be told from deleting each template: %v", err)
		case err != nil && !apierrors.IsNotFound(err):
			return r, fmt.Errorf("reading the CRD of templates that are gone: %w", err)
		default:
			for name, k := range gone {
				if err != nil || going || k.crd != "" && k.crd != uid {
					l.lost[name] = true
				}
			}
		}
	}
	l.known, l.fresh = now, false
	for _, name := range slices.Sorted(maps.Keys(l.lost)) {
		r.Units = append(r.Units, Unit{Source: templates.ClusterSource + name, Err: fmt.Errorf(
			"the CRD was deleted, and SidecarTemplate %s with it; the last version stays in force until the object is back: apply it again, or, if it is to go, apply it and delete it", name)})
	}
	return r, nil
}

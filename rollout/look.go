package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/templates"
)

// view is what the cluster has at one moment.
type view struct {
	// workloads have at least one pod that is behind, or were asked for.
	workloads []Workload
	// left are the pods that are behind and stay as they are, with the reason.
	left []left
	// refused are the workloads of which no new pod could be created.
	refused []left
	// current counts the pods that are up to date, behind those that are not, and cannot
	// those of workloads that the mode cannot bring up to date. Pods that get nothing are
	// neither.
	current, behind, cannot int
}

// left is a pod, or the pods of an owner, that stay as they are for one reason.
type left struct {
	what, why string
	pods      int
	// cannot: they count in [view].
	cannot bool
}

// leave adds a pod to those that stay as they are.
func (v *view) leave(what, why string, cannot bool) {
	if cannot {
		v.cannot++
	}
	for i := range v.left {
		if v.left[i].what == what && v.left[i].why == why {
			v.left[i].pods++
			return
		}
	}
	v.left = append(v.left, left{what, why, 1, cannot})
}

// workload returns the workload of an owner.
func (v view) workload(o Owner) (Workload, bool) {
	i := slices.IndexFunc(v.workloads, func(w Workload) bool { return w.Owner == o })
	if i < 0 {
		return Workload{}, false
	}
	return v.workloads[i], true
}

// seen is a pod that was judged.
type seen struct {
	Pod
	owner   Owner
	owned   bool
	refused string
	current bool
}

// look reads the pods of namespaces. Owners of which the caller waits are in the view, even
// if all their pods are up to date.
func (r *run) look(ctx context.Context, namespaces []string, asked ...Owner) (view, error) {
	var pods []seen
	interesting := map[string]bool{}
	byOwner := map[Owner]*Workload{}
	for _, o := range asked {
		interesting[o.Namespace] = true
		byOwner[o] = &Workload{Owner: o} // it may have no pod at the moment
	}
	var v view
	for _, namespace := range namespaces {
		err := r.Cluster.Pods(ctx, namespace, func(object map[string]any) error {
			if ended(object) {
				return nil
			}
			s, err := r.see(ctx, object)
			if err != nil {
				return err
			}
			pods = append(pods, s)
			switch {
			case s.Behind != "" || s.refused != "":
				interesting[s.Namespace] = true
				v.behind++
			case s.current:
				v.current++
			}
			return nil
		})
		if err != nil {
			return view{}, err
		}
	}
	refused := map[Owner]string{}
	for _, s := range pods {
		if !interesting[s.Namespace] {
			continue
		}
		owner, why, err := r.ownerOf(ctx, s)
		if err != nil {
			return view{}, err
		}
		if why != "" {
			if s.Behind != "" {
				what := "pod/" + s.Name
				if s.owned {
					what = s.owner.String()
				}
				v.leave(what+" in namespace "+s.Namespace, s.Behind+"; "+why, false)
			}
			continue
		}
		if byOwner[owner] == nil {
			byOwner[owner] = &Workload{Owner: owner}
		}
		byOwner[owner].Pods = append(byOwner[owner].Pods, s.Pod)
		refused[owner] = cmp.Or(refused[owner], s.refused)
	}
	for owner, w := range byOwner {
		taken := r.take(&v, w, refused[owner])
		if !taken && !slices.Contains(asked, owner) {
			continue
		}
		switch err := r.measure(ctx, w); {
		case err == nil:
			v.workloads = append(v.workloads, *w)
		case !apierrors.IsNotFound(err): // else it was deleted, and its pods will be
			return view{}, err
		}
	}
	slices.SortFunc(v.workloads, func(a, b Workload) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	byWhat := func(a, b left) int { return strings.Compare(a.what, b.what) }
	slices.SortFunc(v.left, byWhat)
	slices.SortFunc(v.refused, byWhat)
	return v, nil
}

// take notes which pods of a workload stay as they are, and why no new one can be created. It
// reports whether pods are to be brought up to date.
func (r *run) take(v *view, w *Workload, refused string) bool {
	slices.SortFunc(w.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	why := r.stays[w.Owner]
	excepted := slices.Contains(r.Except, w.key())
	if excepted {
		why, refused = "left out by --except", ""
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		p.Cannot = cmp.Or(why, p.Cannot)
		if p.Behind != "" && p.Cannot != "" && !p.Going {
			v.leave(w.Owner.String()+" in namespace "+p.Namespace, p.Behind+"; "+p.Cannot, !excepted)
		}
	}
	if refused != "" {
		v.refused = append(v.refused, left{what: w.Owner.String() + " in namespace " + w.Namespace, why: refused})
	}
	return len(w.behind()) > 0
}

// see judges a pod.
func (r *run) see(ctx context.Context, object map[string]any) (seen, error) {
	s := seen{Pod: podOf(object)}
	s.owner, s.owned = controllerOf(object)
	own := (&unstructured.Unstructured{Object: object}).GetLabels()
	if s.Going || !r.Selector.Matches(labels.Set(own)) {
		return s, nil
	}
	ns, err := r.namespace(ctx, s.Namespace)
	if apierrors.IsNotFound(err) {
		return s, nil // it is being deleted with all that is in it
	}
	if err != nil {
		return s, err
	}
	v, err := r.Judge.judge(ctx, object, ns)
	if err != nil {
		return s, err
	}
	s.Behind, s.refused, s.current = v.behind, v.refused, v.current
	if s.Behind != "" && r.Mode == InPlaceMode {
		change, why, err := r.Judge.inPlace(ctx, object, ns, v)
		if err != nil {
			return s, err
		}
		s.Free = len(change.Sidecars) == 0
		if why != "" {
			s.Cannot = "not in place: " + why
		}
	}
	return s, nil
}

func (r *run) namespace(ctx context.Context, name string) (templates.Namespace, error) {
	ns, ok := r.namespaces[name]
	if !ok {
		var err error
		if ns, err = r.Cluster.Namespace(ctx, name); err != nil {
			return ns, err
		}
		r.namespaces[name] = ns
	}
	return ns, nil
}

// ownerOf returns the workload of a pod, or says why nothing makes a new pod in its place.
func (r *run) ownerOf(ctx context.Context, s seen) (Owner, string, error) {
	switch {
	case !s.owned:
		return Owner{}, "no controller replaces it: delete it and create it again", nil
	case s.owner.Kind == "Job":
		return Owner{}, "the Job's work would start again: its next run gets the templates in force", nil
	case s.owner.Kind == "Node":
		return Owner{}, "the node runs it by itself", nil
	case s.owner.Kind != "ReplicaSet":
		return s.owner, "", nil
	}
	if parent, ok := r.parents[s.owner]; ok {
		return parent, "", nil
	}
	object, err := r.Cluster.Object(ctx, s.owner)
	if apierrors.IsNotFound(err) {
		return Owner{}, "its " + s.owner.String() + " is gone, so the pod will be deleted, too", nil
	}
	if err != nil {
		return Owner{}, "", err
	}
	parent, ok := controllerOf(object)
	if !ok {
		parent = s.owner
	}
	r.parents[s.owner] = parent
	return parent, "", nil
}

// measure reads how many pods a workload wants. Of owners of other kinds nothing is known but
// how many pods they have at first.
func (r *run) measure(ctx context.Context, w *Workload) error {
	if _, known := w.resource(); known {
		object, err := r.Cluster.Object(ctx, w.Owner)
		if err != nil {
			return err
		}
		w.Desired, w.MaxUnavailable = Size(w.Kind, object)
		return nil
	}
	if _, ok := r.desired[w.Owner]; !ok {
		r.desired[w.Owner] = w.there()
	}
	w.Desired, w.MaxUnavailable = r.desired[w.Owner], 1
	return nil
}

// String says what of a pod or owner stays as it is, and why.
func (l left) String() string {
	if l.pods > 1 {
		return fmt.Sprintf("%d pods of %s: %s", l.pods, l.what, l.why)
	}
	return fmt.Sprintf("%s: %s", l.what, l.why)
}

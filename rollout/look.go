package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// looker reads views. It remembers what does not change.
type looker struct {
	cluster    Cluster
	judge      Judge
	mode       Mode
	selector   labels.Selector
	namespaces map[string]templates.Namespace
	// parents are the owners of ReplicaSets.
	parents map[Owner]Owner
	// judged has the pods that were judged, by UID and resourceVersion.
	judged map[[2]string]seen
	// desired has, of owners of unknown kinds, how many pods they had at first.
	desired map[Owner]int
	// except are the keys of workloads that nobody wants, and stays the workloads that cannot be
	// brought up to date now, with the reason.
	except []string
	stays  map[Owner]string
}

// seen is a pod that was judged.
type seen struct {
	Pod
	refused string
	current bool
}

// found is a pod on the way into a view.
type found struct {
	seen
	owner Owner
	owned bool
}

// look reads the pods of namespaces. Owners of which the caller waits are in the view, even
// if all their pods are up to date.
func (l *looker) look(ctx context.Context, namespaces []string, asked ...Owner) (view, error) {
	var pods []found
	interesting := map[string]bool{}
	for _, o := range asked {
		interesting[o.Namespace] = true
	}
	judged := map[[2]string]seen{}
	for _, namespace := range namespaces {
		err := l.cluster.Pods(ctx, namespace, func(object map[string]any) error {
			if ended(object) {
				return nil
			}
			s, err := l.see(ctx, object)
			if err != nil {
				return err
			}
			judged[[2]string{s.UID, text(object, "metadata", "resourceVersion")}] = s
			f := found{seen: s}
			f.owner, f.owned = controllerOf(object)
			pods = append(pods, f)
			if s.Behind != "" || s.refused != "" {
				interesting[s.Namespace] = true
			}
			return nil
		})
		if err != nil {
			return view{}, err
		}
	}
	l.judged = judged
	var v view
	byOwner := map[Owner]*Workload{}
	for _, o := range asked {
		byOwner[o] = &Workload{Owner: o} // it may have no pod at the moment
	}
	refused := map[Owner]string{}
	for _, f := range pods {
		switch {
		case f.Behind != "" || f.refused != "":
			v.behind++
		case f.current:
			v.current++
		}
		if !interesting[f.Namespace] {
			continue
		}
		owner, why, err := l.ownerOf(ctx, f)
		if err != nil {
			return view{}, err
		}
		if why != "" {
			if f.Behind != "" {
				what := "pod/" + f.Name
				if f.owned {
					what = f.owner.String()
				}
				v.leave(what+" in namespace "+f.Namespace, f.Behind+"; "+why, false)
			}
			continue
		}
		w := byOwner[owner]
		if w == nil {
			w = &Workload{Owner: owner}
			byOwner[owner] = w
		}
		w.Pods = append(w.Pods, f.Pod)
		if f.refused != "" && refused[owner] == "" {
			refused[owner] = f.refused
		}
	}
	for owner, w := range byOwner {
		l.take(&v, w, refused[owner], slices.Contains(asked, owner))
	}
	slices.SortFunc(v.workloads, func(a, b Workload) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	byWhat := func(a, b left) int { return strings.Compare(a.what, b.what) }
	slices.SortFunc(v.left, byWhat)
	slices.SortFunc(v.refused, byWhat)
	there := v.workloads[:0]
	for _, w := range v.workloads {
		switch err := l.size(ctx, &w); {
		case err == nil:
			there = append(there, w)
		case !apierrors.IsNotFound(err): // else it was deleted, and its pods will be
			return view{}, err
		}
	}
	v.workloads = there
	return v, nil
}

// take puts a workload into the view, if there is something to say of it.
func (l *looker) take(v *view, w *Workload, refused string, asked bool) {
	slices.SortFunc(w.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	why, stays := l.stays[w.Owner]
	excepted := slices.Contains(l.except, w.key())
	if excepted {
		why, refused = "left out by --except", ""
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if stays || excepted {
			p.Cannot = why
		}
		if p.Behind != "" && p.Cannot != "" && !p.Going {
			v.leave(w.Owner.String()+" in namespace "+p.Namespace, p.Behind+"; "+p.Cannot, !excepted)
		}
	}
	if refused != "" {
		v.refused = append(v.refused, left{what: w.Owner.String() + " in namespace " + w.Namespace, why: refused})
	}
	if len(w.behind()) > 0 || asked {
		v.workloads = append(v.workloads, *w)
	}
}

// see judges a pod, unless it was judged as it is.
func (l *looker) see(ctx context.Context, object map[string]any) (seen, error) {
	s := seen{Pod: podOf(object)}
	if known, ok := l.judged[[2]string{s.UID, text(object, "metadata", "resourceVersion")}]; ok {
		return known, nil
	}
	set, _ := at(object, "metadata", "labels").(map[string]any)
	own := labels.Set{}
	for key, value := range set {
		own[key], _ = value.(string)
	}
	if s.Going || !l.selector.Matches(own) {
		return s, nil
	}
	ns, err := l.namespace(ctx, s.Namespace)
	if apierrors.IsNotFound(err) {
		return s, nil // it is being deleted with all that is in it
	}
	if err != nil {
		return s, err
	}
	v, err := l.judge.judge(ctx, object, ns)
	if err != nil {
		return s, err
	}
	s.Behind, s.refused, s.current = v.behind, v.refused, v.current
	if s.Behind != "" && l.mode == InPlaceMode {
		change, why, err := l.judge.inPlace(ctx, object, ns, v)
		if err != nil {
			return s, err
		}
		if s.Cannot, s.Free = why, len(change.Sidecars) == 0; why != "" {
			s.Cannot = "not in place: " + why
		}
	}
	return s, nil
}

func (l *looker) namespace(ctx context.Context, name string) (templates.Namespace, error) {
	ns, ok := l.namespaces[name]
	if !ok {
		var err error
		if ns, err = l.cluster.Namespace(ctx, name); err != nil {
			return ns, err
		}
		l.namespaces[name] = ns
	}
	return ns, nil
}

// ownerOf returns the workload of a pod, or says why nothing makes a new pod in its place.
func (l *looker) ownerOf(ctx context.Context, f found) (Owner, string, error) {
	switch {
	case !f.owned:
		return Owner{}, "nothing makes a new pod in its place: delete it and create it again", nil
	case f.owner.Kind == "Job":
		return Owner{}, "the work of a Job would begin again: its next run gets what is in force then", nil
	case f.owner.Kind == "Node":
		return Owner{}, "the node runs it by itself", nil
	case f.owner.Kind != "ReplicaSet":
		return f.owner, "", nil
	}
	if parent, ok := l.parents[f.owner]; ok {
		return parent, "", nil
	}
	object, err := l.cluster.Object(ctx, f.owner)
	if apierrors.IsNotFound(err) {
		return Owner{}, "its " + f.owner.String() + " is gone, and so will it be", nil
	}
	if err != nil {
		return Owner{}, "", err
	}
	parent, ok := controllerOf(object)
	if !ok {
		parent = f.owner
	}
	l.parents[f.owner] = parent
	return parent, "", nil
}

// size reads how many pods a workload wants. Of owners of other kinds nothing is known but
// how many pods they have at first.
func (l *looker) size(ctx context.Context, w *Workload) error {
	if _, _, _, known := w.resource(); known {
		object, err := l.cluster.Object(ctx, w.Owner)
		if err != nil {
			return err
		}
		w.Desired, w.MaxUnavailable = Size(w.Kind, object)
		return nil
	}
	if _, ok := l.desired[w.Owner]; !ok {
		l.desired[w.Owner] = len(slices.DeleteFunc(slices.Clone(w.Pods), func(p Pod) bool { return p.Going }))
	}
	w.Desired, w.MaxUnavailable = l.desired[w.Owner], 1
	return nil
}

// String says what of a pod or owner stays as it is, and why.
func (l left) String() string {
	if l.pods > 1 {
		return fmt.Sprintf("%d pods of %s: %s", l.pods, l.what, l.why)
	}
	return fmt.Sprintf("%s: %s", l.what, l.why)
}

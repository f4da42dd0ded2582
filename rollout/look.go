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

	"github.com/pillion-dev/pillion/injector/owner"
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
	// neither. Superseded are those behind that their Deployments are replacing.
	current, behind, cannot, superseded int
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

// workload returns the workload of an owner, zero for none.
func (v view) workload(o Owner) Workload {
	i := slices.IndexFunc(v.workloads, func(w Workload) bool { return w.Owner == o })
	if i < 0 {
		return Workload{}
	}
	return v.workloads[i]
}

// judgedPod is a pod that was judged.
type judgedPod struct {
	Pod
	owned   bool
	refused string
	current bool
}

// look reads the pods of namespaces. Owners of which the caller waits are in the view, even
// if all their pods are up to date.
func (r *run) look(ctx context.Context, namespaces []string, asked ...Owner) (view, error) {
	var pods []judgedPod
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
		of, why, err := r.ownerOf(ctx, s)
		if err != nil {
			return view{}, err
		}
		if why != "" {
			if s.Behind != "" {
				what := "pod/" + s.Name
				if s.owned {
					what = s.controller.String()
				}
				v.leave(what+" in namespace "+s.Namespace, s.Behind+"; "+why, false)
			}
			continue
		}
		if byOwner[of] == nil {
			byOwner[of] = &Workload{Owner: of}
		}
		s.owner = of
		byOwner[of].Pods = append(byOwner[of].Pods, s.Pod)
		refused[of] = cmp.Or(refused[of], s.refused)
	}
	for of, w := range byOwner {
		r.exclude(w)
		waits := slices.Contains(asked, of)
		if waits || len(w.behind()) > 0 {
			switch err := r.measure(ctx, w); {
			case apierrors.IsNotFound(err):
				continue // it was deleted, and its pods will be
			case err != nil:
				return view{}, err
			}
		}
		r.take(&v, w, refused[of])
		if waits || len(w.behind()) > 0 {
			v.workloads = append(v.workloads, *w)
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

// exclude marks the pods of a workload that stays as it is.
func (r *run) exclude(w *Workload) {
	why := r.stays[w.Owner]
	if r.excepted(w) {
		why = "left out by --except"
	}
	for i := range w.Pods {
		w.Pods[i].Cannot = cmp.Or(why, w.Pods[i].Cannot)
	}
}

func (r *run) excepted(w *Workload) bool { return slices.Contains(r.Except, w.key()) }

// take notes which pods of a workload stay as they are, and why no new one can be created.
func (r *run) take(v *view, w *Workload, refused string) {
	slices.SortFunc(w.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range w.Pods {
		if p.Behind == "" || p.Cannot == "" || p.Going {
			continue
		}
		if p.superseded {
			v.superseded++
		}
		v.leave(w.Owner.String()+" in namespace "+p.Namespace, p.Behind+"; "+p.Cannot, !r.excepted(w) && !p.superseded)
	}
	if refused != "" && !r.excepted(w) {
		v.refused = append(v.refused, left{what: w.Owner.String() + " in namespace " + w.Namespace, why: refused})
	}
}

// see judges a pod.
func (r *run) see(ctx context.Context, object map[string]any) (judgedPod, error) {
	s := judgedPod{Pod: podOf(object)}
	s.controller, s.owned = controllerOf(object)
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
		change, why := InPlace(object, r.Judge.statusKey(), v.now)
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
func (r *run) ownerOf(ctx context.Context, s judgedPod) (Owner, string, error) {
	switch {
	case !s.owned:
		return Owner{}, "no controller replaces it: delete it and create it again", nil
	case s.controller.Kind == "Job":
		return Owner{}, "the Job's work would start again: its next run gets the templates in force", nil
	case s.controller.Kind == "Node":
		return Owner{}, "the node runs it by itself", nil
	case s.controller.Kind != "ReplicaSet":
		return s.controller, "", nil
	}
	set, ok := r.replicaSets[s.controller]
	if !ok {
		var err error
		if set, err = r.Cluster.Object(ctx, s.controller); apierrors.IsNotFound(err) {
			return Owner{}, "its " + s.controller.String() + " is gone, so the pod will be deleted, too", nil
		} else if err != nil {
			return Owner{}, "", err
		}
		r.replicaSets[s.controller] = set
	}
	if parent, ok := controllerOf(set); ok {
		return parent, "", nil
	}
	return s.controller, "", nil
}

// measure reads how many pods a workload wants, and marks those that it is replacing. Of owners of
// other kinds nothing is known but how many pods they have at first.
func (r *run) measure(ctx context.Context, w *Workload) error {
	if _, known := w.resource(); known {
		object, err := r.Cluster.Object(ctx, w.Owner)
		if err != nil {
			return err
		}
		w.Desired, w.MaxUnavailable = Size(w.Kind, object)
		if replacing(w.Kind, object) {
			for i := range w.Pods {
				p := &w.Pods[i]
				if set := r.replicaSets[p.controller]; p.Cannot == "" && set != nil && owner.Superseded(object, set) {
					p.superseded, p.Cannot = true, fmt.Sprintf("its Deployment is replacing it: kubectl -n %s rollout status %s", w.Namespace, w)
				}
			}
		}
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

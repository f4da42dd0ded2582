package rollout

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector/drift"
)

// plan is the result of comparing the pods of a cluster.
type plan struct {
	// workloads are the workloads with outdated pods that the mode can update.
	workloads []workload
	// rest are the outdated pods that the mode cannot update.
	rest []remainder
	// current and outdated count the pods.
	current, outdated int
}

// workload is an owner with its outdated pods.
type workload struct {
	Owner
	pods []Pod
	// state formats how the first pod differs from a new one.
	state string
}

// Pod identifies a pod.
type Pod struct{ Namespace, Name, UID string }

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

func podOf(from map[string]any) Pod {
	u := &unstructured.Unstructured{Object: from}
	return Pod{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
}

// remainder are the pods of an owner that are not updated for one reason.
type remainder struct {
	Owner
	why  string
	pods int
	// permanent means that no workload replaces the pods.
	permanent bool
}

// add counts pods that are not updated.
func (p *plan) add(l remainder) {
	i := slices.IndexFunc(p.rest, func(other remainder) bool { return other.Owner == l.Owner && other.why == l.why })
	if i < 0 {
		p.rest = append(p.rest, l)
		return
	}
	p.rest[i].pods += l.pods
}

// err returns [ErrIncomplete] if pods of a workload are not updated.
func (p plan) err() error {
	if slices.ContainsFunc(p.rest, func(l remainder) bool { return !l.permanent }) {
		return ErrIncomplete
	}
	return nil
}

// observe compares the pods of a namespace, or of all namespaces for "", with new ones.
func (r *run) observe(ctx context.Context, namespace string) (p plan, err error) {
	places := map[Owner]int{}
	err = r.Cluster.Pods(ctx, namespace, func(object map[string]any) error {
		now, err := r.compare(ctx, object)
		if err != nil {
			return err
		}
		of, state := ownerOf(object), r.stateOf(now)
		switch {
		case state == "" && len(r.templatesIn(now, drift.Refused)) > 0:
			p.outdated++
			p.add(remainder{Owner: of, why: "a new pod would be refused: " + now.Message, pods: 1})
			return nil
		case state == "":
			if len(r.templatesIn(now, drift.Current)) > 0 {
				p.current++
			}
			return nil
		}
		p.outdated++
		if why, lasting := r.unreachableReason(of, object, now); why != "" {
			p.add(remainder{Owner: of, why: state + "; " + why, pods: 1, permanent: lasting})
			return nil
		}
		i, found := places[of]
		if !found {
			i, p.workloads = len(p.workloads), append(p.workloads, workload{Owner: of, state: state})
			places[of] = i
		}
		p.workloads[i].pods = append(p.workloads[i].pods, podOf(object))
		return nil
	})
	slices.SortFunc(p.workloads, func(a, b workload) int { return a.compare(b.Owner) })
	slices.SortFunc(p.rest, func(a, b remainder) int { return cmp.Or(a.compare(b.Owner), strings.Compare(a.why, b.why)) })
	return p, err
}

// compare compares a pod with a new one. The result is empty if the namespace does not exist any
// more.
func (r *run) compare(ctx context.Context, pod map[string]any) (drift.Comparison, error) {
	name := podOf(pod).Namespace
	ns, ok := r.namespaces[name]
	if !ok {
		var err error
		if ns, err = r.Cluster.Namespace(ctx, name); apierrors.IsNotFound(err) {
			return drift.Comparison{}, nil
		} else if err != nil {
			return drift.Comparison{}, err
		}
		r.namespaces[name] = ns
	}
	return r.Comparer.Compare(ctx, pod, ns, r.Templates)
}

// stateOf formats the templates that a pod lacks or has in another version. It returns "" if there are none.
func (r *run) stateOf(s drift.Comparison) string {
	var parts []string
	for _, state := range []drift.State{drift.Missing, drift.Outdated} {
		if names := r.templatesIn(s, state); len(names) > 0 {
			parts = append(parts, string(state)+": "+strings.Join(names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// templatesIn returns the templates in a state, limited to the run's template.
func (r *run) templatesIn(s drift.Comparison, in drift.State) []string {
	return slices.DeleteFunc(drift.Named(s.Templates, in), func(name string) bool { return r.Template != "" && name != r.Template })
}

// unreachableReason returns the reason why the mode cannot update a pod, or "".
func (r *run) unreachableReason(of Owner, pod map[string]any, now drift.Comparison) (why string, lasting bool) {
	if r.Mode == Restart {
		return of.unreachableReason()
	}
	if _, why = InPlace(pod, now); why != "" {
		why = "not in place: " + why
	}
	return why, false
}

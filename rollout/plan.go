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

// plan says how the pods of a cluster stand at one moment.
type plan struct {
	// workloads have pods that are behind and that the mode reaches.
	workloads []workload
	// rest are the pods that are behind and that the mode does not reach.
	rest []remainder
	// current and behind count the pods.
	current, behind int
}

// workload is an owner with its pods that are behind.
type workload struct {
	Owner
	pods []Pod
	// state says how the first of the pods differs from a new one.
	state string
}

// Pod names a pod that is behind.
type Pod struct{ Namespace, Name, UID string }

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

func podOf(from map[string]any) Pod {
	u := &unstructured.Unstructured{Object: from}
	return Pod{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
}

// remainder are the pods of an owner that stay as they are for one reason.
type remainder struct {
	Owner
	why  string
	pods int
	// lasting: no workload replaces the pods.
	lasting bool
}

// add counts pods that stay as they are.
func (p *plan) add(l remainder) {
	i := slices.IndexFunc(p.rest, func(other remainder) bool { return other.Owner == l.Owner && other.why == l.why })
	if i < 0 {
		p.rest = append(p.rest, l)
		return
	}
	p.rest[i].pods += l.pods
}

// err is [ErrLeft] if a workload has pods that stay as they are.
func (p plan) err() error {
	if slices.ContainsFunc(p.rest, func(l remainder) bool { return !l.lasting }) {
		return ErrLeft
	}
	return nil
}

// observe compares the pods of a namespace, of all for "", with new ones.
func (r *run) observe(ctx context.Context, namespace string) (p plan, err error) {
	places := map[Owner]int{}
	err = r.Cluster.Pods(ctx, namespace, func(object map[string]any) error {
		now, err := r.compare(ctx, object)
		if err != nil {
			return err
		}
		of, state := ownerOf(object), r.stateOf(now)
		switch {
		case state == "" && len(r.named(now, drift.Refused)) > 0:
			p.behind++
			p.add(remainder{Owner: of, why: "a new pod would be refused: " + now.Message, pods: 1})
			return nil
		case state == "":
			if len(r.named(now, drift.Current)) > 0 {
				p.current++
			}
			return nil
		}
		p.behind++
		if why, lasting := r.unreachable(of, object, now); why != "" {
			p.add(remainder{Owner: of, why: state + "; " + why, pods: 1, lasting: lasting})
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

// compare compares a pod with the pod that would be created in its place. A pod of a namespace
// that is gone is not compared.
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

// stateOf says which templates a pod lacks or has in another version, "" for none.
func (r *run) stateOf(s drift.Comparison) string {
	var parts []string
	for _, state := range []drift.State{drift.Missing, drift.Outdated} {
		if names := r.named(s, state); len(names) > 0 {
			parts = append(parts, string(state)+": "+strings.Join(names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// named returns the templates in a state, as far as the run is about them.
func (r *run) named(s drift.Comparison, in drift.State) []string {
	return slices.DeleteFunc(drift.Named(s.Templates, in), func(name string) bool { return r.Template != "" && name != r.Template })
}

// unreachable says why the mode does not bring a pod up to date, "" if it does.
func (r *run) unreachable(of Owner, pod map[string]any, now drift.Comparison) (why string, lasting bool) {
	if r.Mode == Restart {
		return of.unreachable()
	}
	if _, why = InPlace(pod, now); why != "" {
		why = "not in place: " + why
	}
	return why, false
}

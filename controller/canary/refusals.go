package canary

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

const (
	// remembered is how long a workload counts as refused after its last refused pod. A controller
	// tries again after 17 minutes at the latest.
	// Source: DefaultControllerRateLimiter in k8s.io/client-go/util/workqueue.
	remembered = 20 * time.Minute
	// mostRefused bounds the workloads of one namespace that are remembered for one version, and
	// mostNamespaces the namespaces: a tenant can make up as many workloads as they like.
	mostRefused, mostNamespaces = 20, 512
)

// Version is a version of a template: the name of the stable template, and a hash.
type Version struct{ Template, Hash string }

// Refusals remembers which workloads' pods this replica refused. Make one with [NewRefusals].
type Refusals struct {
	now func() time.Time

	mu sync.Mutex
	in map[refusedIn]map[Workload]refused
}

type refusedIn struct {
	version   Version
	namespace string
}

type refused struct {
	at   time.Time
	says string
}

// NewRefusals returns no refusals.
func NewRefusals(now func() time.Time) *Refusals {
	return &Refusals{now: now, in: map[refusedIn]map[Workload]refused{}}
}

// Note takes in what became of a new pod of a namespace: by the versions of templates that have
// canaries in the set, it was refused, or it got them. A canary's refusal is to be in the outcome only
// where the stable version takes the pod.
func (r *Refusals) Note(set *templates.Set, namespace string, pod map[string]any, out injector.Outcome) {
	if len(set.Canaries()) == 0 {
		return
	}
	about := out.Refusals
	if out.Allowed {
		about = out.Templates
	}
	for _, t := range about {
		if t.Hash == "" || len(set.CanariesOf(t.Name)) == 0 {
			continue
		}
		v, w := Version{t.Name, t.Hash}, Workload{namespace, owner.Topmost(pod)}
		if !out.Allowed {
			r.refused(v, w, strings.Clone(show.Plain(t.Sentence())))
		} else if t.Code == reason.Injected {
			r.admitted(v, w)
		}
	}
}

func (r *Refusals) refused(v Version, w Workload, says string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, now := refusedIn{v, w.Namespace}, r.now()
	if len(r.in) >= mostNamespaces && r.in[key] == nil {
		r.forget(now)
		if len(r.in) >= mostNamespaces {
			return
		}
	}
	if r.in[key] == nil {
		r.in[key] = map[Workload]refused{}
	}
	if _, known := r.in[key][w]; known || len(r.in[key]) < mostRefused {
		r.in[key][w] = refused{now, says}
	}
}

func (r *Refusals) admitted(v Version, w Workload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusedIn{v, w.Namespace}
	if delete(r.in[key], w); len(r.in[key]) == 0 {
		delete(r.in, key)
	}
}

// Add notes in the health of a version what is remembered of it.
func (r *Refusals) Add(h Health, v Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(r.now())
	for key, workloads := range r.in {
		if key.version != v {
			continue
		}
		for w, refused := range workloads {
			h.Note(w, Failure{PodsRefused, "its pods are refused: " + refused.says})
		}
	}
}

func (r *Refusals) forget(now time.Time) {
	for key, workloads := range r.in {
		maps.DeleteFunc(workloads, func(_ Workload, refused refused) bool { return now.Sub(refused.at) >= remembered })
		if len(workloads) == 0 {
			delete(r.in, key)
		}
	}
}

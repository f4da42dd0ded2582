package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/templates"
)

// What a pod that is refused may take to be judged again. Whoever may create pods can have pods
// refused, and say in their records what they like.
const (
	// mostBefore bounds the versions of before that a pod is compared with: so many of the
	// templates, and so many of the namespace with each. API servers have two versions at most.
	mostBefore = 3
	// mostBehind is how many pods this replica tries at once to catch up for, and
	// behindPerSecond how many in each second after that. Others are refused as they are.
	mostBehind, behindPerSecond = 20, 10
	// catchUp bounds the wait for templates. A change of them is in force on every replica
	// within a second. Where another replica can be asked instead, askOther bounds it.
	catchUp, askOther = time.Second, 200 * time.Millisecond
	// endedAgo bounds the time from the mutation of a pod to its verification: a request takes an
	// API server a minute at most, and the clocks of two replicas differ by less than that.
	endedAgo = time.Minute
	// catchUpPause is how often is looked whether they came.
	catchUpPause = 20 * time.Millisecond
)

type verify struct {
	pods    Pods
	through entries.Entry
	behind  *rate.Limiter
}

// NewVerify returns the webhook that sees the pods of an entry when every mutating webhook is
// done, and refuses pods that are not what the required templates make of them.
func NewVerify(p Pods, through entries.Entry) Webhook {
	return verify{p, through, rate.NewLimiter(behindPerSecond, mostBehind)}
}

func (verify) Name() string { return "verify" }

func (v verify) Review(ctx context.Context, r *Review) (Response, error) {
	if err := r.aboutPod(); err != nil {
		return Response{}, err
	}
	required := len(v.pods.Templates().Required())
	if required == 0 {
		return Allowed(), nil
	}
	request, err := v.pods.request(ctx, r, v.through)
	if err != nil || !request.RequiredHere() {
		return Allowed(), err
	}
	if request.Pod, err = r.Pod(ctx, required); err != nil {
		return Response{}, err
	}
	if r.Operation == "UPDATE" {
		if request.Old, err = r.OldPod(); err != nil {
			return Response{}, err
		}
	}
	out, err := v.pods.Pipeline.Verify(ctx, request)
	if err == nil && !out.Allowed && r.Operation == "CREATE" {
		out, err = v.again(ctx, request, out)
	}
	if err != nil {
		return Response{}, err
	}
	if !out.Allowed {
		response := Denied(out.Code, out.Message)
		response.Events = eventsOf(request.Pod, out)
		return response, nil
	}
	return Allowed(), nil
}

// again judges a new pod that is refused once more. Between its mutation and now a template or the
// namespace may have changed, or another replica that is ahead of this one, or behind it, has
// injected. So the pod passes if it is as what was in force a moment ago makes it. Its record says
// which templates those were. It can be forged, and so it only chooses among versions that this
// replica had in force, or has it wait for a newer one.
//
// While an upgrade replaces a template of a file, replicas of both versions run, and neither ever
// has the other's. At an entry that fails closed, a replica that does not know the version asks the
// API server to try again, which reaches another replica. At others the refusal stands.
//
// Only what allows the pod takes the refusal back: a version that cannot be judged by is passed
// over, since an error here would let the pod through where the entry's failure policy is Ignore.
func (v verify) again(ctx context.Context, request injector.Request, refused injector.Outcome) (injector.Outcome, error) {
	if before := request.Now.Add(-endedAgo); request.Templates.EndedBetween(before, request.Now) {
		// A replica whose clock is behind, or an earlier call, excepted the pod.
		request.Now = before
		if out, err := v.pods.Pipeline.Verify(ctx, request); err == nil && out.Allowed {
			return out, nil
		}
	}
	hashes := v.pods.Pipeline.Injected(request.Pod)
	if v.asBefore(ctx, request, hashes) {
		return injector.Outcome{Allowed: true}, nil
	}
	if !v.behind.Allow() {
		return refused, nil
	}
	newer := v.caughtUp(ctx, request, hashes)
	if name := v.unknown(newer.Templates, hashes); name != "" && v.through.Closed {
		return injector.Outcome{}, &unavailableError{fmt.Errorf("the pod has a version of the template %s that this replica does not know", name)}
	}
	if newer.Templates == request.Templates && maps.Equal(newer.Namespace.Labels, request.Namespace.Labels) && maps.Equal(newer.Namespace.Annotations, request.Namespace.Annotations) {
		return refused, nil
	}
	out, err := v.pods.Pipeline.Verify(ctx, newer)
	switch {
	case err == nil && out.Allowed:
		return out, nil
	case v.asBefore(ctx, newer, hashes):
		return injector.Outcome{Allowed: true}, nil
	case err != nil:
		return refused, nil
	}
	return out, nil
}

// unknown returns the name of a required template of a set that no version known here has the
// hash of, the first by name. It returns "" if there is none.
func (v verify) unknown(now *templates.Set, hashes map[string]string) string {
	sets := append([]*templates.Set{now}, v.pods.TemplatesBefore()...)
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		e, _ := now.Get(name)
		required := e.Template != nil && e.Required()
		hash := map[string]string{name: hashes[name]}
		if required && !slices.ContainsFunc(sets, func(set *templates.Set) bool { return set.Has(hash) }) {
			return name
		}
	}
	return ""
}

// asBefore tells whether a pod is as what was in force a moment ago makes it: sets that have the
// templates of the hashes, and the versions of the namespace.
func (v verify) asBefore(ctx context.Context, request injector.Request, hashes map[string]string) bool {
	name, sets := request.Namespace.Name, []*templates.Set{request.Templates}
	for _, set := range v.pods.TemplatesBefore() {
		set = set.In(name)
		if len(sets) <= mostBefore && set.Has(hashes) && !slices.ContainsFunc(sets, set.SameRequired) {
			sets = append(sets, set)
		}
	}
	for i, set := range sets {
		now := request.Namespace
		if i > 0 { // which may read other keys
			var err error
			if now, err = v.pods.Namespaces.Get(ctx, name, set.NamespaceReads(), v.through.Selects); err != nil {
				continue
			}
		}
		before := v.pods.NamespaceBefore(name, set.NamespaceReads())
		for j, ns := range append([]templates.Namespace{now}, before[:min(len(before), mostBefore)]...) {
			if i == 0 && j == 0 {
				continue // that has refused the pod
			}
			request.Templates, request.Namespace = set, ns
			if out, err := v.pods.Pipeline.Verify(ctx, request); err == nil && out.Allowed {
				return true
			}
		}
	}
	return false
}

// caughtUp returns the request with the namespace as the API server has it, once this replica has
// the templates of the hashes. It waits for them no longer than catchUp or askOther, and half of the
// time that is left for the review.
func (v verify) caughtUp(ctx context.Context, request injector.Request, hashes map[string]string) injector.Request {
	left := catchUp
	if v.through.Closed {
		left = askOther
	}
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline)/2)
	}
	wait, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	had := func(set *templates.Set) bool { return set.In(request.Namespace.Name).Has(hashes) }
	for {
		request.Templates = v.pods.Templates().In(request.Namespace.Name)
		if had(request.Templates) || slices.ContainsFunc(v.pods.TemplatesBefore(), had) || !waiting.For(wait, catchUpPause) {
			break
		}
	}
	ns, err := v.pods.Namespaces.Get(ctx, request.Namespace.Name, request.Templates.NamespaceReads(), func(templates.Namespace) bool { return false })
	if err == nil {
		request.Namespace = ns
	}
	return request
}

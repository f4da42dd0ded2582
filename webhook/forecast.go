package webhook

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Bounds of forecasts. They are advice, and what is beyond them goes without: the controller
// tries again, or the next rollout does.
const (
	// forecastsPerSecond is how many a replica makes, one at a time.
	forecastsPerSecond = 10
	// forecastTime bounds one.
	forecastTime = time.Second
	// forecastEvery is how long a controller's pods are not looked at again, forecastAgain the
	// same where nothing was found: the limits of a namespace may not have been read in time.
	forecastEvery = 10 * time.Minute
	forecastAgain = 5 * time.Second
	// forecastOwners bounds the controllers that are remembered.
	forecastOwners = 4096
	// forecastBody bounds the pod as JSON: one is in memory longer than its review.
	forecastBody = 64 << 10
)

// Forecasts say on a pod's owner what refuses the pod because of its injection, or keeps its Job
// from finishing. Controllers show nobody the API server's answer but in an event of their own,
// which names no template. A forecast is made after the answer, and nothing waits for it.
type Forecasts struct {
	// foretell returns the events about a pod.
	foretell func(ctx context.Context, p Injection) []events.Event
	rate     *rate.Limiter
	slot     chan struct{}
	// known are the controllers whose pods are not looked at again for a while, by their UID.
	known *cache.LRUExpireCache
}

// NewForecasts returns forecasts by a function that returns the events about a pod. It ends soon,
// also where it cannot find out.
func NewForecasts(foretell func(ctx context.Context, p Injection) []events.Event) *Forecasts {
	return &Forecasts{foretell: foretell, rate: rate.NewLimiter(forecastsPerSecond, forecastsPerSecond), slot: make(chan struct{}, 1), known: cache.NewLRUExpireCache(forecastOwners)}
}

// of returns what is to be done about an injected pod once it is answered, nil for nothing. It
// works on nil.
func (f *Forecasts) of(p Pods, r *Review, request injector.Request, out injector.Outcome) func(record func(events.Event)) {
	if f == nil || r.DryRun || out.Code != reason.Injected || len(r.Object) > forecastBody {
		return nil
	}
	owner := controllerUID(request.Pod)
	if owner == "" || !f.due(owner) {
		return nil
	}
	namespace := r.Namespace
	return func(record func(events.Event)) {
		select {
		case f.slot <- struct{}{}:
		default:
			f.known.Remove(owner)
			return
		}
		go func() {
			defer func() { <-f.slot }()
			ctx, cancel := context.WithTimeout(context.Background(), forecastTime)
			defer cancel()
			injection := Injection{Before: p.Pipeline.Base(request.Pod), After: out.Pod, Namespace: request.Namespace, Injected: injectedOf(out)}
			found := f.foretell(ctx, injection)
			if len(found) == 0 {
				f.known.Add(owner, nil, forecastAgain)
			}
			for _, e := range found {
				e.Pod, e.Namespace, e.Message, e.Told = request.Pod, namespace, printable(e.Message), true
				record(e)
			}
		}()
	}
}

// due reports whether a controller's pods are to be looked at, and remembers that they are.
func (f *Forecasts) due(owner string) bool {
	if _, ok := f.known.Get(owner); ok || !f.rate.Allow() {
		return false
	}
	f.known.Add(owner, nil, forecastEvery)
	return true
}

// controllerUID returns the UID of the controller that a pod names as its owner, "" for none.
func controllerUID(pod map[string]any) string {
	of, _ := owner.Controller(pod)
	if len(of.UID) > 64 {
		return ""
	}
	return of.UID
}

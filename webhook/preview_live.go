package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

const (
	// liveTime is how long the workloads of a namespace are looked at. What else is said of the
	// namespace comes in the same answer.
	liveTime = previewTime * 3 / 5
	// liveAgain is after how long the same write has the workloads looked at again, and mostLooked
	// how many writes are remembered.
	liveAgain, mostLooked = 5 * time.Second, 1024
)

// looked are the writes for which the workloads were looked at a moment ago. API servers make a write
// again, with all its calls, when somebody else wrote in between: one that takes long each time never
// gets through where others write all the time. The warnings of each call reach the client.
type looked struct{ *cache.LRUExpireCache }

func newLooked() looked { return looked{cache.NewLRUExpireCache(mostLooked)} }

// first reports whether a write was not looked at a moment ago, and remembers it.
func (l looked) first(write string) bool {
	_, known := l.Get(write)
	if !known {
		l.Add(write, nil, liveAgain)
	}
	return !known
}

// writeOf says which write of a namespace a review is about, by what it asks for; "" if it asks for
// nothing.
func writeOf(r *Review, ns templates.Namespace) string {
	var asks strings.Builder
	for _, key := range slices.Sorted(maps.Keys(ns.Annotations)) {
		if _, _, ok := keys.Under(key); ok {
			fmt.Fprintf(&asks, " %q %q", key, ns.Annotations[key])
		}
	}
	if asks.Len() == 0 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %t %s%s", ns.Name, r.DryRun, r.UserInfo, &asks))
	return string(sum[:])
}

// workloads adds how many workloads of a namespace could create no pod once it is as somebody writes
// it. It gives numbers and no names: anybody who reaches the port can send a review. A write that asks
// for nothing is not about them.
func (p preview) workloads(ctx context.Context, t *telling, ns templates.Namespace, set *templates.Set) {
	if p.options.Workloads == nil || t.review.Operation != "UPDATE" {
		return
	}
	if write := writeOf(t.review, ns); write == "" || !p.looked.first(write) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	total, refused, left := 0, 0, 0
	unlooked := p.options.Workloads(ctx, ns.Name, func(apiVersion, kind string, workload json.RawMessage) {
		pod := p.podOf(ctx, t.review, apiVersion, kind, part(workload))
		if pod == nil {
			left++
			return
		}
		out, err := p.options.Pods.Pipeline.Inject(ctx, injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set, Now: p.options.Pods.now()})
		if err != nil || ctx.Err() != nil {
			left++
			return
		}
		if total++; !out.Allowed {
			refused++
		}
	})
	if refused > 0 {
		text := fmt.Sprintf("%s: %d of %d workloads cannot create new pods", t.about, refused, total)
		if !t.review.DryRun {
			text += "; pillion status " + ns.Name + " names them"
		}
		t.say(text)
	}
	if left > 0 {
		unlooked = append(unlooked, fmt.Sprintf("%d more workloads (there was no time left, or they are too large)", left))
	}
	if len(unlooked) > 0 {
		t.say(t.about + ": not looked at, and their next pods may be refused: " + strings.Join(unlooked, ", "))
	}
}

// podOf returns the pod that the controller of a workload would create. It is nil where there is no time or
// no memory to find it out, or where the workload has no pod that can be read.
func (p preview) podOf(ctx context.Context, r *Review, apiVersion, kind string, workload part) map[string]any {
	if ctx.Err() != nil || !p.hold(ctx, r) || rawjson.Exceeds(workload, slotMemory/previewCopies) {
		return nil
	}
	object, err := podschema.DecodeObject(workload, "metadata", "managedFields")
	if err != nil {
		return nil
	}
	object["apiVersion"], object["kind"] = apiVersion, kind // a list leaves them out
	_, pod, err := p.options.Created(object, r.Name)
	if err != nil {
		return nil
	}
	return pod
}

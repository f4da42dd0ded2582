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
	// liveTime bounds the check of a namespace's workloads. The rest of previewTime is for the other
	// warnings.
	liveTime = previewTime * 3 / 5
	// recentTime is how long a write is remembered, and maxRecentWrites how many writes are.
	recentTime, maxRecentWrites = 5 * time.Second, 1024
)

// recentWrites are the writes whose workloads were checked within recentTime. An API server repeats a
// write, with all its webhooks, if another client wrote in between. A write with a slow webhook might
// never succeed, so the repetition skips the check. The client gets the warnings of every call.
type recentWrites struct{ *cache.LRUExpireCache }

func newRecentWrites() recentWrites { return recentWrites{cache.NewLRUExpireCache(maxRecentWrites)} }

// addNew adds a write, and reports whether it was new.
func (l recentWrites) addNew(write string) bool {
	_, known := l.Get(write)
	if !known {
		l.Add(write, nil, recentTime)
	}
	return !known
}

// writeKey identifies a write of a namespace by the namespace, the user and Pillion's annotations. It
// is "" without such annotations.
func writeKey(r *Review, ns templates.Namespace) string {
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

// workloads warns of workloads in the namespace that could not create pods after this write. It gives
// numbers and no names, because every client that reaches the port can send a review.
func (p preview) workloads(ctx context.Context, w *warningList, ns templates.Namespace, set *templates.Set) {
	if p.options.Workloads == nil || w.review.Operation != "UPDATE" {
		return
	}
	if write := writeKey(w.review, ns); write == "" || !p.recent.addNew(write) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	checked, refused, skipped := 0, 0, 0
	unchecked := p.options.Workloads(ctx, ns.Name, func(apiVersion, kind string, workload json.RawMessage) {
		pod := p.podOf(ctx, w.review, apiVersion, kind, part(workload))
		if pod == nil {
			skipped++
			return
		}
		out, err := p.options.Pods.Pipeline.Inject(ctx, injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set, Now: p.options.Pods.now()})
		if err != nil || ctx.Err() != nil {
			skipped++
			return
		}
		if checked++; !out.Allowed {
			refused++
		}
	})
	if refused > 0 {
		text := fmt.Sprintf("%s: %d of %d workloads cannot create new pods", w.subject, refused, checked)
		if !w.review.DryRun {
			text += "; pillion status " + ns.Name + " names them"
		}
		w.add(text)
	}
	if skipped > 0 {
		unchecked = append(unchecked, fmt.Sprintf("%d more workloads (there was no time left, or they are too large)", skipped))
	}
	if len(unchecked) > 0 {
		w.add(w.subject + ": not checked; their next pods may be refused: " + strings.Join(unchecked, ", "))
	}
}

// podOf returns the pod that the controller of a workload would create. It is nil if there is no time or no
// memory for it, or if the workload's pod cannot be read.
func (p preview) podOf(ctx context.Context, r *Review, apiVersion, kind string, workload part) map[string]any {
	if ctx.Err() != nil || !p.acquireSlot(ctx, r) || rawjson.Exceeds(workload, slotMemory/previewCopies) {
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

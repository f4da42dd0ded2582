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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

const (
	// liveTime is how long the workloads of a namespace are looked at. What else is said of the
	// namespace comes in the same answer.
	liveTime = previewTime * 3 / 5
	// mostWhy is of how many workloads it is said why.
	mostWhy = 3
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
func writeOf(prefix string, r *Review, ns templates.Namespace) string {
	var asks strings.Builder
	for _, key := range slices.Sorted(maps.Keys(ns.Annotations)) {
		if _, _, ok := keys.Under(prefix, key); ok {
			fmt.Fprintf(&asks, " %q %q", key, ns.Annotations[key])
		}
	}
	if asks.Len() == 0 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %t %s%s", ns.Name, r.DryRun, r.UserInfo, &asks))
	return string(sum[:])
}

// outlook is what a namespace's workloads will meet once it is as somebody writes it.
type outlook struct {
	looked int
	// met are the workloads whose next pods meet something, in the order of their names.
	met []met
	// unlooked says what was not looked at.
	unlooked []string
}

// met is a workload, as in a sentence and as in a command, and what its next pods meet.
type met struct{ name, ref, why string }

// outlook looks at the workloads that a namespace has. A write that asks for nothing is not about them.
func (p preview) outlook(ctx context.Context, r *Review, ns templates.Namespace, set *templates.Set) outlook {
	var l outlook
	if p.options.Workloads == nil || r.Operation != "UPDATE" {
		return l
	}
	if write := writeOf(p.options.Prefix, r, ns); write == "" || !p.looked.first(write) {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	left := 0
	l.unlooked = p.options.Workloads(ctx, ns.Name, func(apiVersion, kind string, workload json.RawMessage) {
		created, name := p.createdOf(ctx, r, ns, apiVersion, kind, part(workload))
		why, ok := "", created != nil
		if ok {
			why, ok = p.meets(ctx, ns, set, created)
		}
		if !ok {
			left++
			return
		}
		l.looked++
		if why != "" {
			l.met = append(l.met, met{kind + " " + name, strings.ToLower(kind) + "/" + name, why})
		}
	})
	slices.SortFunc(l.met, func(a, b met) int { return strings.Compare(a.name, b.name) })
	if left > 0 {
		l.unlooked = append(l.unlooked, fmt.Sprintf("%d more workloads (there was no time left, or they are too large)", left))
	}
	return l
}

// createdOf returns the pod that a workload's controller would create, and the workload's name. The
// pod is nil where there is no time, or no memory, to find it out.
func (p preview) createdOf(ctx context.Context, r *Review, ns templates.Namespace, apiVersion, kind string, workload part) (created map[string]any, name string) {
	if ctx.Err() != nil || !p.hold(ctx, r, workload) {
		return nil, ""
	}
	object, err := podschema.DecodeObject(workload, "metadata", "managedFields")
	if err != nil {
		return nil, ""
	}
	object["apiVersion"], object["kind"] = apiVersion, kind // a list leaves them out
	if _, created, err = p.options.Created(object, ns.Name); err != nil {
		return nil, ""
	}
	return created, nameOf(unstructured.Unstructured{Object: object})
}

// meets returns what keeps a new pod from running, as the end of a sentence; "" if nothing does. It
// reports whether there was time to find out.
func (p preview) meets(ctx context.Context, ns templates.Namespace, set *templates.Set, pod map[string]any) (why string, ok bool) {
	out, err := p.options.Pods.Pipeline.Inject(ctx, injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set, Now: p.options.Pods.now()})
	if err != nil || ctx.Err() != nil {
		return "", false
	}
	if len(out.Refusals) > 0 {
		return "are refused: " + out.Refusals[0].Sentence() + " (" + string(out.Refusals[0].Code) + ")", true
	}
	if injected := injectedOf(out); len(injected) > 0 && p.options.Refused != nil {
		for _, says := range p.options.Refused(ctx, Injection{Before: p.options.Pods.Pipeline.Base(pod), After: out.Pod, Namespace: ns, Injected: injected}) {
			return "have a problem: " + says, true
		}
	}
	return "", true
}

// say adds what the workloads meet.
func (l outlook) say(t *telling, explain func(namespace, object string) string) {
	if len(l.met) > 0 {
		var names []string
		for _, m := range l.met {
			names = append(names, m.name)
		}
		t.say(fmt.Sprintf("%s: %d of %d workloads cannot create new pods: %s. Running pods stay until they are evicted or replaced", t.about, len(names), l.looked, show.Some(names, mostListed)))
		for _, m := range l.met[:min(mostWhy, len(l.met))] {
			t.say("new pods of " + m.name + " " + m.why)
		}
		if !t.review.DryRun {
			t.say("for details run: " + explain(t.name, l.met[0].ref))
		}
	}
	if len(l.unlooked) > 0 {
		t.say(t.about + ": not looked at, and their next pods may be refused: " + strings.Join(l.unlooked, ", "))
	}
}

package injector

import (
	"context"
	"slices"
	"time"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// choose decides which templates a pod gets, by its base pod. Templates see labels, required
// ones see requiredLabels.
func (p *Pipeline) choose(r Request, base map[string]any, labels, requiredLabels map[string]string) policy.Decision {
	metadata, _ := base["metadata"].(map[string]any)
	return policy.Decide(policy.Request{
		InjectKey: p.injectKey, InjectionKey: p.injectionKey, Operation: r.Operation, Subresource: r.Subresource, FromNode: r.FromNode,
		PodAnnotations: stringMap(metadata["annotations"]), PodLabels: labels, RequiredPodLabels: requiredLabels,
		Namespace: r.Namespace.Name, NamespaceLabels: r.Namespace.Labels, NamespaceAnnotations: r.Namespace.Annotations,
		Excluded: slices.Contains(p.config.ExcludedNamespaces, r.Namespace.Name), Disabled: p.disabled(r.Namespace), Now: p.timeOf(r), Explain: r.Explain,
	}, catalog{r.Templates})
}

// decide returns the decision by the metadata, if there is one, and else makes it.
func (p *Pipeline) decide(r Request, base, requiredBase map[string]any) policy.Decision {
	if r.decided != nil {
		return r.decided.decision
	}
	return p.choose(r, base, podLabels(base), podLabels(requiredBase))
}

// timeOf returns the time of a request's review.
func (p *Pipeline) timeOf(r Request) time.Time {
	if r.Now.IsZero() {
		return p.config.Now()
	}
	return r.Now
}

// disabled reports whether the namespace's label has Pillion keep out. API servers do not call
// it then; offline and in the moment of a change the label has the same meaning.
func (p *Pipeline) disabled(ns templates.Namespace) bool {
	return ns.Labels[p.injectionKey] == templates.InjectionDisabled
}

// catalog is the set in force as the decision sees it.
type catalog struct{ *templates.Set }

func (c catalog) At(place int) policy.Template {
	e := c.Set.At(place)
	t := policy.Template{Name: e.Name, Namespaced: e.Namespace != "", Suspended: e.Suspended(), Required: e.Required(), Exceptions: e.Exceptions()}
	if e.Template == nil {
		t.Broken = e.Err
	}
	if known := e.Known(); known != nil {
		t.Audience, t.SkipBroken = known, known.Spec().OnError == v1alpha1.ErrorSkip && !t.Required
	}
	return t
}

func (c catalog) CanaryOf(name string) (string, bool) {
	canary, ok := c.Canary(name)
	return canary.Of, ok
}

// Decided is a decision by the metadata of a pod that may be injected. It goes on to
// [Pipeline.InjectDecided], once.
type Decided struct {
	// Templates is how many templates may be injected, at least 1.
	Templates  int
	record     record.Record
	unreadable error
	decision   policy.Decision
}

// DecideByMetadata answers a request by the pod's metadata alone where they suffice: where
// nothing is injected, or the pod is refused for what it asks. Then the outcome is that of
// [Pipeline.Inject] for the whole pod, and the decision is nil. Otherwise the outcome is
// empty. A pod that nobody wants anything in costs no more than its metadata.
func (p *Pipeline) DecideByMetadata(r Request) (Outcome, *Decided) {
	r = r.inNamespace()
	rec, unreadable := record.ParseMetadata(r.Pod, p.statusKey)
	base := rec.Base(r.Pod)
	labels := podLabels(base)
	decision := p.choose(r, base, labels, labels)
	if n := len(decision.Inject); n > 0 || !rec.Empty() && r.RequiredHere() {
		// The plan says how far a record is believed.
		return Outcome{}, &Decided{Templates: max(n, 1), record: rec, unreadable: unreadable, decision: decision}
	}
	w := p.newInjection(r, decision, false)
	w.priorRecord, w.record = rec, rec
	w.warnOfRecord(unreadable)
	w.warnOfLabels()
	return w.conclude(), nil
}

// InjectDecided is [Pipeline.Inject] for the whole pod of a request that was decided by the
// metadata: it parses no record and decides nothing once more, as long as the record holds.
func (p *Pipeline) InjectDecided(ctx context.Context, r Request, d *Decided) (Outcome, error) {
	r.decided = d
	return p.Inject(ctx, r)
}

// record returns the record of the whole pod.
func (p *Pipeline) record(r Request) (record.Record, error) {
	if d := r.decided; d != nil {
		d.record.Complete(r.Pod)
		return d.record, d.unreadable
	}
	return record.Parse(r.Pod, p.statusKey)
}

// RequiredHere reports whether a required template selects the pod's namespace, whatever
// the pod's labels are.
func (r Request) RequiredHere() bool { return r.Templates.RequiredIn(r.Namespace.Labels) }

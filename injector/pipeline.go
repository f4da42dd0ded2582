package injector

import (
	"context"
	"slices"
	"time"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
)

// Config is what the admin sets, the same for every request.
type Config struct {
	// Prefix is the annotation prefix. Default: pillion.dev.
	Prefix string
	// ExcludedNamespaces are those that Pillion keeps out of.
	ExcludedNamespaces []string
	// Namespace is Pillion's own. Default: [DefaultNamespace].
	Namespace string
	// Explain is the command with which refusals end. Default: the one for the pod's workload
	// in the cluster, or for the pod.
	Explain string
	// Now is the clock for requests without a time, and for a refusal for want of time, which
	// says how long was allowed. Default: [time.Now].
	Now func() time.Time
}

// Pipeline injects pods. Its only state is a cache.
type Pipeline struct {
	config                             Config
	injectKey, statusKey, injectionKey string
	cache                              *templates.Cache
}

// NewPipeline returns the pipeline for a configuration.
func NewPipeline(c Config) *Pipeline {
	if c.Prefix == "" {
		c.Prefix = templates.DefaultPrefix
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Pipeline{config: c, injectKey: templates.InjectKey(c.Prefix), statusKey: templates.StatusKey(c.Prefix), injectionKey: templates.InjectionLabel(c.Prefix), cache: &templates.Cache{}}
}

// At returns a pipeline whose clock stands at a time. Exceptions that end later are in force.
func (p *Pipeline) At(now time.Time) *Pipeline {
	c := p.config
	c.Now = func() time.Time { return now }
	return NewPipeline(c)
}

// Request is one pod, and what is known about its admission.
type Request struct {
	// Operation and Subresource are the admission request's.
	Operation, Subresource string
	// FromNode reports whether a node sent the request.
	FromNode bool
	// Pod is the pod's JSON, decoded with numbers kept as json.Number. It is not
	// modified.
	Pod map[string]any
	// Old is the pod before an update, nil for other operations.
	Old       map[string]any
	Namespace templates.Namespace
	// Templates is the set in force. Of the templates of namespaces only those of Namespace count.
	Templates *templates.Set
	// PodTemplate is the pod template that Pod would be created of, where there is no pod yet:
	// the outcome then has the template with the same changes. It is not modified.
	PodTemplate map[string]any
	// Now is the time of the review, by which exceptions of required templates end. Default: that
	// of the configuration's clock.
	Now time.Time
	// Explain asks for the outcome's Steps, Effects and Kept, and for an outcome for each template.
	Explain bool
	// Attribute asks for [Outcome.Wanting].
	Attribute bool

	// decided is the decision by the metadata, nil if there is none.
	decided *Decided
}

// TemplateOutcome says for one template whether it was injected, and why.
type TemplateOutcome struct {
	// Name is the template's, "" for a refusal of the whole pod.
	Name, Hash string
	// Canary is the name of the canary that the pod gets in place of the stable template, "" for
	// none.
	Canary string
	Code   reason.Code
	// Why is a sentence for people.
	Why string
	// Exception names the template's exception by which the pod goes without it, "" for none.
	Exception string
	// Asked reports whether an annotation asked for the template, or the template
	// is required here.
	Asked bool
	// Recorded reports whether the record that the pod came with names the template: an
	// earlier call injected it.
	Recorded bool
	// Namespaced reports whether the template is the namespace's own.
	Namespaced bool
	// Params are the parameters it was rendered with, and Origins says where each
	// came from. Both are nil unless it was rendered.
	Params  map[string]any
	Origins map[string]templates.Origin

	named bool // Why names the template
	files *templates.Files
	// template is the version, nil where it was not looked for.
	template *templates.Template
}

// Outcome is the answer to one [Request].
type Outcome struct {
	Allowed bool
	// Code is the one reason that stands for the request in metrics.
	Code reason.Code
	// Message says why the pod is refused, ending in the reason code. It is empty
	// for an allowed pod.
	Message string
	// Command is the command that explains a refusal, rule by rule.
	Command string
	// Pod is the intended pod, the one that Operations give.
	Pod        map[string]any
	Operations []patch.Operation
	// PodTemplate is the request's with what the plan wants, and PodTemplateOperations are the
	// patch to it. Both are nil unless the request has one, and the pod is allowed.
	PodTemplate           map[string]any
	PodTemplateOperations []patch.Operation
	// Warnings are for the person who created the pod.
	Warnings []string
	// Templates are those that something concerns: they are injected, asked for, match, or
	// are taken off one by one. A request that says Explain gets all.
	Templates []TemplateOutcome
	// Refusals are the reasons why the pod is refused, in the order in which they
	// were found. None for an allowed pod.
	Refusals []TemplateOutcome
	// Recorded reports whether the pod came with a record: an earlier call changed it, or
	// it is a copy of such a pod.
	Recorded bool
	// Steps is nil unless the request says Explain.
	Steps []policy.Step
	// Effects and Kept are what the templates do in the base pod, place by place, and which
	// of its values stay. Both are nil unless the request says Explain, and the pod is allowed.
	Effects []merge.PlaceEffect
	Kept    []merge.Kept

	changes *merge.Change // nil unless the request says Attribute
}

// Wanting returns the templates that want something in the place of a keyed path, or that
// put there the whole of what surrounds it. The request must say Attribute.
func (o Outcome) Wanting(path []string) []string {
	var whole []string
	c := o.changes
	for _, segment := range path {
		if c.Writes() {
			whole = c.Templates
		}
		c = c.Child(segment)
	}
	if c != nil && len(c.Templates) > 0 {
		return slices.Clone(c.Templates)
	}
	return slices.Clone(whole)
}

// Inject answers one request. An error is Pillion's own fault, never the pod's
// or a template's: the caller answers so that the failurePolicy decides.
//
// Where the context's deadline passes before the answer is there, the pod is refused
// ([reason.TemplateTooExpensive]). Where the context is cancelled, nobody waits for the
// answer, and the error is [context.Canceled].
func (p *Pipeline) Inject(ctx context.Context, r Request) (Outcome, error) {
	r = r.inNamespace()
	k := p.begin(ctx)
	out, err := p.inject(k, r)
	return k.end(r, out, err)
}

// inNamespace returns the request with the set that counts in its namespace.
func (r Request) inNamespace() Request {
	r.Templates = r.Templates.In(r.Namespace.Name)
	return r
}

func (p *Pipeline) inject(k *progress, r Request) (Outcome, error) {
	if err := k.next("reading the record of an earlier call"); err != nil {
		return Outcome{}, err
	}
	rec, unreadable := p.record(r)
	w, rec, err := p.plan(k, r, rec, false)
	if err != nil {
		return Outcome{}, err
	}
	w.warnOfRecord(unreadable)
	w.priorRecord, w.record = rec, rec
	if len(w.out.Refusals) == 0 && len(w.fragments) > 0 {
		if err := w.apply(rec); err != nil {
			return Outcome{}, err
		}
	}
	w.warnOfLabels()
	return w.conclude(), nil
}

// plan takes a request from the base pod to the plan: base, decide, render, plan.
//
// Templates that are not required see the base pod that the record gives. A
// record can be forged, so required templates see a base pod that hides only
// places that the plan confirms. Where the plan does not confirm the whole
// record, it is made once more, for the part of the record that it wants. If that
// plan in turn does not want this part, the record contradicts itself, as only a
// forged one does: then it counts as none. The part that counts is returned, too.
func (p *Pipeline) plan(k *progress, r Request, rec record.Record, verifying bool) (*injection, record.Record, error) {
	r.Now = p.timeOf(r) // the same for each plan that is made
	base := rec.Base(r.Pod)
	w, err := p.walk(k, r, base, base, verifying)
	r.decided = nil // that was for the record as it is
	if err != nil || rec.Empty() || len(w.out.Refusals) > 0 || !r.RequiredHere() {
		return w, rec, err
	}
	if err := k.next("comparing the record of an earlier call with the pod"); err != nil {
		return nil, rec, err
	}
	proof := apply.Prove(rec, w.planned, r.Pod)
	if proof.AllConfirmed {
		return w, rec, nil
	}
	rec = proof.Wanted
	w, err = p.walk(k, r, rec.Base(r.Pod), proof.Confirmed.Base(r.Pod), verifying)
	if err != nil || apply.Prove(rec, w.planned, r.Pod).AllWanted {
		return w, rec, err
	}
	rec = record.New(p.statusKey)
	base = rec.Base(r.Pod)
	w, err = p.walk(k, r, base, base, verifying)
	return w, rec, err
}

// walk decides, renders and plans for a base pod. Required templates see requiredBase.
func (p *Pipeline) walk(k *progress, r Request, base, requiredBase map[string]any, verifying bool) (*injection, error) {
	if err := k.next("choosing the templates"); err != nil {
		return nil, err
	}
	w := p.newInjection(r, p.decide(r, base, requiredBase), verifying)
	w.progress, w.base, w.requiredBase = k, base, requiredBase
	if err := w.render(); err != nil {
		return nil, err
	}
	if err := w.plan(); err != nil {
		return nil, err
	}
	return w, w.byHand()
}

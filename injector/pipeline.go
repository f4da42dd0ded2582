package injector

import (
	"context"
	"time"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Config is what the admin sets, the same for every request.
type Config struct {
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

// Pipeline injects pods. It has no state.
type Pipeline struct {
	config Config
}

// NewPipeline returns the pipeline for a configuration.
func NewPipeline(c Config) *Pipeline {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Pipeline{config: c}
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
	// Pod is the pod's JSON, decoded with numbers kept as json.Number. It is not modified.
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
	// PodTemplate is the pod template of the request with the values of the templates, and
	// PodTemplateOperations are the patch to it. Both are nil unless the request has one, and the pod is
	// allowed.
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
	// Effects has a change of the templates for each place. Kept has the values of the pod that stay. Both are
	// nil unless the request says Explain, and the pod is allowed.
	Effects []Effect
	Kept    []Kept

	writers *merge.Writers
}

// Effect is what templates do in one place of the base pod, for people and for machines.
type Effect struct {
	// Path is the keyed path, as people write it.
	Path   string       `json:"path"`
	Effect merge.Effect `json:"effect"`
	// Templates want it, in their order.
	Templates []string `json:"templates"`
	// Was is the base pod's value, Now the one that the pod has then. Nil is none.
	Was any `json:"was,omitempty"`
	Now any `json:"now,omitempty"`
}

// Kept is a value of the pod that stays, where a template wants another one.
type Kept struct {
	// Path is the keyed path, as people write it.
	Path     string       `json:"path"`
	Template string       `json:"template"`
	Why      merge.KeptBy `json:"why"`
	// Has is the pod's value. Wants is the template's, nil if it wants none there.
	Has   any `json:"has"`
	Wants any `json:"wants,omitempty"`
}

// Writer returns the template that wrote the place of a keyed path, or the whole around it; "" for none.
func (o Outcome) Writer(path *podschema.Path) string { return o.writers.By(path.Segments()) }

// Inject answers one request. An error is Pillion's own fault, never the pod's
// or a template's: the caller answers so that the failurePolicy decides.
//
// Where the context's deadline passes before the answer is there, the pod is refused
// ([reason.TemplateTooExpensive]). Where the context is cancelled, nobody waits for the
// answer, and the error is [context.Canceled].
func (p *Pipeline) Inject(ctx context.Context, r Request) (Outcome, error) {
	c := p.begin(ctx, r)
	if err := c.next("choosing the templates"); err != nil {
		return c.end(Outcome{}, err)
	}
	a := c.decided()
	out, err := c.inject(a)
	return c.end(out, err)
}

// decided returns the answer as far as the pod's metadata say it.
func (c *call) decided() (a answer) {
	a.record, a.unreadable = record.Parse(c.request.Pod)
	a.decision = c.decide(a.record.Base(c.request.Pod), podLabels(c.request.Pod))
	return a
}

// Decided is a request that may inject a pod, as far as the pod's metadata say. It goes on to
// [Pipeline.InjectDecided].
type Decided struct {
	// Templates is how many templates may be injected, at least 1.
	Templates int

	answer answer
}

// DecideByMetadata answers a request by the pod's metadata alone where they suffice: where
// nothing is injected, or the pod is refused for what it asks. Then the outcome is that of
// [Pipeline.Inject] for the whole pod, and the decision is nil. Otherwise the outcome is
// empty. A pod that nobody wants anything in costs no more than its metadata.
func (p *Pipeline) DecideByMetadata(r Request) (Outcome, *Decided) {
	c := p.begin(context.Background(), r)
	a := c.decided()
	if n := a.decision.Count(); n > 0 || !a.record.Empty() && c.request.RequiredHere() {
		return Outcome{}, &Decided{Templates: max(n, 1), answer: a}
	}
	return c.conclude(a), nil
}

// InjectDecided goes on with a request: r is the one that was decided, with the whole pod. Errors and the
// end of the context are as with [Pipeline.Inject].
func (p *Pipeline) InjectDecided(ctx context.Context, r Request, d *Decided) (Outcome, error) {
	c := p.begin(ctx, r)
	out, err := c.inject(d.answer)
	return c.end(out, err)
}

// RequiredHere reports whether a required template selects the pod's namespace, whatever
// the pod's labels are.
func (r Request) RequiredHere() bool { return r.Templates.VerifiedIn(r.Namespace) }

// Asked returns what a namespace's annotation means by itself, for pods that say nothing:
// refusals and warnings, as far as they need no pod. It injects nothing.
func (p *Pipeline) Asked(ns templates.Namespace, set *templates.Set) Outcome {
	c := p.begin(context.Background(), Request{Operation: "CREATE", Pod: map[string]any{}, Namespace: ns, Templates: set})
	return c.conclude(answer{record: record.New(), decision: c.decide(c.request.Pod, nil)})
}

// Base returns a pod as its author wrote it, without what its record says is Pillion's. A
// record that cannot be read hides nothing. The pod is not modified.
func (p *Pipeline) Base(pod map[string]any) map[string]any {
	rec, err := record.Parse(pod)
	if err != nil {
		return pod
	}
	return rec.Base(pod)
}

// Injected returns the hash of each template that the pod's record says it was injected with. A
// record can be forged.
func (p *Pipeline) Injected(pod map[string]any) map[string]string {
	rec, _ := record.Parse(pod) // a record that cannot be read counts as none
	return rec.Templates
}

// call is one request on its way.
type call struct {
	*progress
	pipeline *Pipeline
	request  Request
	// updates is set for a running pod that is compared as if it was created: a validation that is false
	// hides nothing of it.
	updates bool
	// budget is what the expressions of all templates may cost together.
	budget *templates.Budget
}

func (p *Pipeline) begin(ctx context.Context, r Request) *call {
	r.Templates = r.Templates.In(r.Namespace.Name)
	if r.Now.IsZero() {
		r.Now = p.config.Now()
	}
	return &call{progress: p.progress(ctx), pipeline: p, request: r, budget: &templates.Budget{}}
}

// answer has what the steps say of a request. conclude combines them.
type answer struct {
	record     record.Record
	unreadable error
	decision   policy.Decision
	applied    applied
	required   requiredResult
	// pod, operations and written are nil for a pod that stays as it is.
	pod        map[string]any
	operations []patch.Operation
	written    *record.Record
	// failure is a refusal that no single step has: the record or the files are too large.
	failure            []TemplateOutcome
	warnings           []string
	podTemplate        map[string]any
	templateOperations []patch.Operation
}

// inject takes a pod from its base to the patch. Each step is a function of its own.
func (c *call) inject(a answer) (Outcome, error) {
	base := a.record.Base(c.request.Pod)
	var err error
	if a.applied, err = c.apply(base, a.decision); err != nil {
		return Outcome{}, err
	}
	if !a.decision.Deny && !a.applied.refuses() && len(denied(a.decision)) == 0 {
		if err := c.write(base, &a); err != nil {
			return Outcome{}, err
		}
	}
	return c.conclude(a), nil
}

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

// Config has the admin's settings. They are the same for every request.
type Config struct {
	// ExcludedNamespaces are never injected into.
	ExcludedNamespaces []string
	// Namespace is Pillion's own. Default: [DefaultNamespace].
	Namespace string
	// Explain is the command at the end of each refusal. Default: `kubectl pillion explain` with the pod's
	// workload, or with the pod.
	Explain string
	// Now is the clock for requests without a time and for the duration in [reason.TemplateTooExpensive].
	// Default: [time.Now].
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

// At returns a pipeline with a fixed clock. Exceptions that end later are in force.
func (p *Pipeline) At(now time.Time) *Pipeline {
	c := p.config
	c.Now = func() time.Time { return now }
	return NewPipeline(c)
}

// Request is one pod with the facts of its admission.
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
	// Templates is the set in force. The pipeline ignores templates of other namespaces.
	Templates *templates.Set
	// PodTemplate is the pod template of a workload whose pod does not exist yet. The outcome has it with the
	// pod's changes. It is not modified.
	PodTemplate map[string]any
	// Now is the time of the review. It decides which exceptions have ended. Default: the configuration's clock.
	Now time.Time
	// Explain requests the outcome's [Explanation], and an outcome for each template.
	Explain bool
}

// TemplateOutcome says for one template whether it was injected, and why.
type TemplateOutcome struct {
	// Name is empty for a refusal of the whole pod.
	Name string
	Version
	Code reason.Code
	// Why is a sentence for people.
	Why string
	// Exception names the exception that exempts the pod from the template, "" for none.
	Exception string
	// Requested is set if an annotation requests the template, or it is required here.
	Requested bool
	// Recorded is set if the pod came with a record that names the template: an earlier call injected it.
	Recorded bool
	// Namespaced is set for a template of the pod's namespace.
	Namespaced bool
	Parameters

	named bool // Why names the template
}

// Parameters are the values that a template was rendered with. They are nil if it was not rendered.
type Parameters struct {
	Params map[string]any
	// Origins has the source of each of Params.
	Origins map[string]templates.Origin
}

// Outcome is the answer to one [Request].
type Outcome struct {
	Allowed bool
	// Code is the reason of the whole request, for metrics.
	Code reason.Code
	// Message says why the pod is refused, and ends in the reason code. It is empty for an allowed pod.
	Message string
	// Command is the command that explains a refusal, rule by rule.
	Command string
	// Warnings are for the person who created the pod.
	Warnings []string
	// Templates are the templates that are injected, requested, match, or are removed by the pod's
	// annotation. It has all templates if the request says Explain.
	Templates []TemplateOutcome
	// Refusals are the reasons for a refusal, in the order of the steps. It is empty for an allowed pod.
	Refusals []TemplateOutcome
	// Recorded is set if the pod came with a record: an earlier call changed it, or it is a copy of an injected
	// pod.
	Recorded bool
	Change
	Explanation
}

// Change is the pod as the outcome changes it.
type Change struct {
	// Pod is the intended pod. Operations is the JSON patch that leads to it.
	Pod        map[string]any
	Operations []patch.Operation
	// PodTemplate is the pod template of the request with the templates' values, and PodTemplateOperations the
	// patch that leads to it. Both are nil if the request has no pod template, or the pod is refused.
	PodTemplate           map[string]any
	PodTemplateOperations []patch.Operation

	writers *merge.Writers
}

// Explanation is the part of an outcome that only a request with Explain gets.
type Explanation struct {
	Steps []policy.Step
	// Effects has one effect for each place that templates write. It is nil for a refused pod.
	Effects []Effect
	// PodValues has the values of the pod that win over a template's. It is nil for a refused pod.
	PodValues []PodValue
}

// Effect is the effect of all templates on one place of the base pod.
type Effect struct {
	// Path is the keyed path, as people write it.
	Path   string       `json:"path"`
	Effect merge.Effect `json:"effect"`
	// Templates are the templates that write the value, in their order.
	Templates []string `json:"templates"`
	// Was is the base pod's value, Now the injected pod's. Nil means none.
	Was any `json:"was,omitempty"`
	Now any `json:"now,omitempty"`
}

// PodValue is a value of the pod that wins over a template's.
type PodValue struct {
	// Path is the keyed path, as people write it.
	Path     string       `json:"path"`
	Template string       `json:"template"`
	Why      merge.KeptBy `json:"why"`
	// Has is the pod's value. Wants is the template's, nil if the template removes the value.
	Has   any `json:"has"`
	Wants any `json:"wants,omitempty"`
}

// Writer returns the template that wrote the value at a keyed path, or an object or list around it. It returns
// "" if no template did.
func (c Change) Writer(path *podschema.Path) string { return c.writers.By(path.Segments()) }

// Inject answers one request. It returns an error only for Pillion's own faults, never for the pod's or a
// template's, so the caller lets the failurePolicy decide.
//
// Inject refuses the pod with [reason.TemplateTooExpensive] if the context's deadline passes first. It returns
// [context.Canceled] if the context is cancelled.
func (p *Pipeline) Inject(ctx context.Context, r Request) (Outcome, error) {
	c := p.begin(ctx, r)
	if err := c.next("choosing the templates"); err != nil {
		return c.end(Outcome{}, err)
	}
	out, err := c.inject(c.decided())
	return c.end(out, err)
}

// decided returns the part of the answer that follows from the pod's metadata.
func (c *call) decided() (a answer) {
	a.record, a.unreadable = record.Parse(c.request.Pod)
	a.decision = c.decide(a.record.Base(c.request.Pod), podLabels(c.request.Pod))
	return a
}

// Continuation is a request that needs the whole pod. [Pipeline.Continue] answers it.
type Continuation struct {
	// Templates is the number of templates that may be injected, at least 1.
	Templates int

	answer answer
}

// DecideByMetadata answers a request from the pod's metadata if nothing is injected, or if the pod's
// annotations are refused. It then returns the outcome that [Pipeline.Inject] returns for the whole pod, and no
// continuation. Otherwise it returns an empty outcome. So a pod without templates costs only its metadata.
func (p *Pipeline) DecideByMetadata(r Request) (Outcome, *Continuation) {
	c := p.begin(context.Background(), r)
	a := c.decided()
	if n := a.decision.Count(); n > 0 || !a.record.Empty() && c.request.RequiredHere() {
		return Outcome{}, &Continuation{Templates: max(n, 1), answer: a}
	}
	return c.conclude(a), nil
}

// Continue answers the request of a continuation; r now has the whole pod. Its errors are those of
// [Pipeline.Inject].
func (p *Pipeline) Continue(ctx context.Context, r Request, d *Continuation) (Outcome, error) {
	c := p.begin(ctx, r)
	out, err := c.inject(d.answer)
	return c.end(out, err)
}

// RequiredHere reports whether a required template selects the pod's namespace. It ignores the pod's labels.
func (r Request) RequiredHere() bool { return r.Templates.VerifiedIn(r.Namespace) }

// DecideForNamespace returns the refusals and warnings that a namespace's annotation causes for pods without
// annotations. It injects nothing.
func (p *Pipeline) DecideForNamespace(ns templates.Namespace, set *templates.Set) Outcome {
	c := p.begin(context.Background(), Request{Operation: "CREATE", Pod: map[string]any{}, Namespace: ns, Templates: set})
	return c.conclude(answer{record: record.New(), decision: c.decide(c.request.Pod, nil)})
}

// Base returns a pod without the values that its record lists. It returns the pod itself if the record is
// malformed. It does not modify the pod.
func (p *Pipeline) Base(pod map[string]any) map[string]any {
	rec, err := record.Parse(pod)
	if err != nil {
		return pod
	}
	return rec.Base(pod)
}

// Injected returns the hash of each template that the pod's record lists. Records can be forged.
func (p *Pipeline) Injected(pod map[string]any) map[string]string {
	rec, _ := record.Parse(pod) // a record that cannot be read counts as none
	return rec.Templates
}

// call is one request in progress.
type call struct {
	*progress
	pipeline *Pipeline
	request  Request
	// updates is set for the comparison of a running pod. Failed validations then do not end the rendering.
	updates bool
	// budget bounds the cost of all templates' expressions together.
	budget *templates.Budget
}

func (p *Pipeline) begin(ctx context.Context, r Request) *call {
	r.Templates = r.Templates.In(r.Namespace.Name)
	if r.Now.IsZero() {
		r.Now = p.config.Now()
	}
	return &call{progress: p.progress(ctx), pipeline: p, request: r, budget: &templates.Budget{}}
}

// answer has the result of each step. conclude combines them.
type answer struct {
	record     record.Record
	unreadable error
	decision   policy.Decision
	applied    applied
	written    written
}

// inject runs the steps from the base pod to the patch.
func (c *call) inject(a answer) (Outcome, error) {
	base := a.record.Base(c.request.Pod)
	var err error
	if a.applied, err = c.apply(base, a.decision); err != nil {
		return Outcome{}, err
	}
	if !a.decision.Deny && !a.applied.refuses() && len(denied(a.decision)) == 0 {
		if a.written, err = c.write(base, a); err != nil {
			return Outcome{}, err
		}
	}
	return c.conclude(a), nil
}

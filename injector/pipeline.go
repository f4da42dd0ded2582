package injector

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Config is what the admin sets, the same for every request.
type Config struct {
	// Prefix is the annotation prefix. Default: pillion.dev.
	Prefix string
	// ExcludedNamespaces are those that Pillion keeps out of.
	ExcludedNamespaces []string
}

// Pipeline decides, renders, merges and makes the patch. It holds no state.
type Pipeline struct {
	config               Config
	injectKey, statusKey string
}

// NewPipeline returns the pipeline for a configuration.
func NewPipeline(c Config) *Pipeline {
	if c.Prefix == "" {
		c.Prefix = templates.DefaultPrefix
	}
	return &Pipeline{config: c, injectKey: c.Prefix + "/inject", statusKey: c.Prefix + "/status"}
}

// Request is one pod, and what is known about its way into the cluster.
type Request struct {
	// Operation and Subresource are the admission request's.
	Operation, Subresource string
	// FromNode reports whether a node sent the request.
	FromNode bool
	// Old is the pod's JSON before an update, and nil otherwise. It is not modified.
	Old map[string]any
	// Pod is the pod's JSON, decoded with numbers kept as json.Number. It is not
	// modified.
	Pod       map[string]any
	Namespace templates.Namespace
	// Templates is the set in force.
	Templates *templates.Set
}

// TemplateOutcome is what became of one template.
type TemplateOutcome struct {
	Name, Hash string
	Code       reason.Code
	// Why is a sentence for people.
	Why string
	// Asked reports whether somebody asked for the template.
	Asked bool
	// Params are the parameters it was rendered with, and Origins where each
	// came from. Both are nil unless it was rendered.
	Params  map[string]any
	Origins map[string]templates.Origin
}

// Outcome is the answer to one [Request].
type Outcome struct {
	Allowed bool
	// Code is the one reason that stands for the request in metrics.
	Code reason.Code
	// Message says why the pod is refused, ending in the reason code. It is empty
	// for an allowed pod.
	Message string
	// Pod is the intended pod, the one that Operations give.
	Pod        map[string]any
	Operations []patch.Operation
	// Warnings are for the person who created the pod.
	Warnings  []string
	Templates []TemplateOutcome
	Steps     []policy.Step
}

// Inject answers one request. An error is Pillion's own fault, never the pod's
// or a template's: the caller answers so that the failurePolicy decides.
func (p *Pipeline) Inject(r Request) (Outcome, error) {
	run := run{pipeline: p, request: r}
	run.decide()
	if run.out.Code == "" || len(run.decision.Inject) > 0 {
		if err := run.inject(); err != nil {
			return Outcome{}, err
		}
	}
	run.conclude()
	return run.out, nil
}

// run is one request on its way through the pipeline.
type run struct {
	pipeline  *Pipeline
	request   Request
	decision  policy.Decision
	out       Outcome
	fragments []merge.Fragment
	// refusals are the reasons to refuse the pod, in the order they were met.
	refusals []TemplateOutcome
}

func (r *run) decide() {
	req := r.request
	meta, _ := req.Pod["metadata"].(map[string]any)
	entries := req.Templates.All()
	choices := make([]policy.Template, len(entries))
	for i, e := range entries {
		choices[i] = choice(e)
	}
	r.decision = policy.Decide(policy.Request{
		InjectKey: r.pipeline.injectKey, Operation: req.Operation, Subresource: req.Subresource, FromNode: req.FromNode,
		PodAnnotations: stringMap(meta["annotations"]), PodLabels: stringMap(meta["labels"]),
		Namespace: req.Namespace.Name, NamespaceLabels: req.Namespace.Labels, NamespaceAnnotations: req.Namespace.Annotations,
		Excluded: slices.Contains(r.pipeline.config.ExcludedNamespaces, req.Namespace.Name),
	}, choices)
	r.out = Outcome{Allowed: true, Code: r.decision.Code, Pod: req.Pod, Warnings: r.decision.Warnings, Steps: r.decision.Steps}
	if r.decision.Deny {
		r.refusals = append(r.refusals, TemplateOutcome{Code: r.decision.Code, Why: r.decision.Why})
	}
	for _, o := range r.decision.Outcomes {
		t := TemplateOutcome{Name: o.Template, Code: o.Code, Why: o.Why, Asked: o.Asked}
		r.outcome(t)
		switch {
		case o.Deny:
			r.refusals = append(r.refusals, t)
		case o.Asked:
			r.warn(t)
		}
	}
}

func choice(e templates.Entry) policy.Template {
	if e.Template == nil {
		return brokenChoice(e)
	}
	t := e.Template
	spec := t.Spec()
	c := policy.Template{Name: t.Name(), InjectByDefault: spec.InjectByDefault, Suspended: spec.Suspend, Required: spec.Required, AvailableTo: t.AvailableTo}
	if ns, pod, ok := t.Match(); ok {
		c.Match = &policy.Match{Namespace: ns, Pod: pod}
	}
	return c
}

func brokenChoice(e templates.Entry) policy.Template {
	c := policy.Template{Name: e.Name, Broken: e.Err}
	b := e.Broken()
	if b == nil {
		return c
	}
	c.InjectByDefault, c.Suspended, c.Required, c.AvailableTo = b.InjectByDefault, b.Suspend, b.Required, b.AvailableTo
	c.SkipBroken = b.OnError == v1alpha1.ErrorSkip && !b.Required
	if ns, pod, ok := b.Match(); ok {
		c.Match = &policy.Match{Namespace: ns, Pod: pod}
	}
	return c
}

// inject renders and merges what was decided: again, when the result shows that a
// required template was not shown what it has to see.
func (r *run) inject() error {
	status, err := merge.ParseStatus(r.request.Pod, r.pipeline.statusKey)
	if err != nil {
		r.out.Warnings = append(r.out.Warnings, err.Error())
	}
	v := r.views(status)
	for {
		before := *r
		rendered, err := r.renderAll(v)
		if err != nil {
			return err
		}
		fragments := slices.Clone(r.fragments)
		result, err := r.merge(status, rendered)
		if err != nil || len(r.refusals) > 0 {
			return err
		}
		if !v.reveal(fragments, result.Pod) {
			return r.complete(v, result, rendered)
		}
		*r = before
	}
}

// complete refuses a pod in which a forged status keeps a required template from doing
// its work, as the verification of the final pod would. Where there is no such
// verification, as on the command line, nothing else would tell.
func (r *run) complete(v *views, result merge.Result, rendered map[string]TemplateOutcome) error {
	missing, err := r.missing(v, result.Pod)
	if err != nil {
		return err
	}
	for _, out := range missing {
		r.failed(out, v1alpha1.ErrorDeny)
	}
	if len(missing) > 0 {
		return nil
	}
	return r.finish(result, rendered)
}

func (r *run) renderAll(v *views) (map[string]TemplateOutcome, error) {
	rendered := map[string]TemplateOutcome{}
	for _, name := range r.decision.Inject {
		if err := r.render(name, v, rendered); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// merge merges what was rendered. A template that fails and says onError: Skip is
// left out; when it is the merge that fails, the others are merged again without it.
// There is no result if the pod is refused.
func (r *run) merge(status merge.Status, rendered map[string]TemplateOutcome) (merge.Result, error) {
	for len(r.refusals) == 0 {
		result, err := merge.Merge(r.request.Pod, status, r.fragments, merge.Options{StatusKey: r.pipeline.statusKey})
		if err == nil {
			return result, nil
		}
		if err := r.mergeFailed(err, rendered); err != nil {
			return merge.Result{}, err
		}
	}
	return merge.Result{}, nil
}

// template returns one that was decided to be injected.
func (r *run) template(name string) *templates.Template {
	entry, _ := r.request.Templates.Get(name)
	return entry.Template
}

func (r *run) render(name string, v *views, rendered map[string]TemplateOutcome) error {
	t := r.template(name)
	out := TemplateOutcome{Name: name, Hash: t.Hash(), Asked: true}
	result, err := v.render(name)
	if err != nil {
		out.Code = renderCode(err)
		if out.Code == reason.InternalError {
			return fmt.Errorf("rendering template %s: %w", name, err)
		}
		out.Why = err.Error()
		r.failed(out, t.Spec().OnError)
		return nil
	}
	out.Params, out.Origins = result.Params, result.Origins
	r.out.Warnings = append(r.out.Warnings, result.Warnings...)
	if c := result.Unmet; c != nil {
		out.Code, out.Why = reason.ConditionFalse, conditionSentence(c.Name, c.Message)
		r.warn(out)
		r.outcome(out)
		r.step("template "+name, "matchCondition "+c.Name, string(out.Code)+": "+c.Message)
		return nil
	}
	out.Code = reason.NothingToInject
	rendered[name] = out
	r.fragments = append(r.fragments, fragmentOf(t, result))
	return nil
}

func conditionSentence(name, message string) string {
	if message == "" {
		return fmt.Sprintf("its matchCondition %q is false for this pod", name)
	}
	return fmt.Sprintf("its matchCondition %q is false for this pod: %s", name, message)
}

func renderCode(err error) reason.Code {
	var parameter *templates.ParameterError
	var expensive *templates.TooExpensiveError
	var render *templates.RenderError
	switch {
	case errors.As(err, &parameter):
		return reason.BadParameter
	case errors.As(err, &expensive):
		return reason.TemplateTooExpensive
	case errors.As(err, &render):
		return reason.RenderFailed
	default:
		return reason.InternalError
	}
}

// mergeFailed records whose fault a failed merge is, and takes that template's
// fragment away.
func (r *run) mergeFailed(err error, rendered map[string]TemplateOutcome) error {
	name, code := faultOf(err)
	out, ok := rendered[name]
	if !ok {
		return fmt.Errorf("merging into the pod: %w", err)
	}
	delete(rendered, name)
	r.fragments = slices.DeleteFunc(r.fragments, func(f merge.Fragment) bool { return f.Template == name })
	out.Code, out.Why = code, err.Error()
	r.failed(out, r.template(name).Spec().OnError)
	return nil
}

// faultOf returns the template whose fault a failed merge is.
func faultOf(err error) (template string, code reason.Code) {
	var conflict *merge.ConflictError
	var fragment *merge.FragmentError
	var pod *merge.PodError
	switch {
	case errors.As(err, &conflict):
		return conflict.Template, reason.Conflict
	case errors.Is(err, merge.ErrStatusTooLarge) && errors.As(err, &fragment):
		return fragment.Template, reason.TemplateTooExpensive
	case errors.As(err, &fragment):
		return fragment.Template, reason.RenderFailed
	case errors.As(err, &pod):
		return pod.Template, reason.RenderFailed
	}
	return "", reason.RenderFailed
}

// failed applies a template's onError.
func (r *run) failed(out TemplateOutcome, onError v1alpha1.ErrorPolicy) {
	r.outcome(out)
	r.step("template "+out.Name, out.Why, string(out.Code))
	if onError == v1alpha1.ErrorSkip {
		r.warn(out)
		return
	}
	r.refusals = append(r.refusals, out)
}

func (r *run) finish(result merge.Result, rendered map[string]TemplateOutcome) error {
	operations := make([]patch.Operation, len(result.Edits))
	for i, e := range result.Edits {
		op, err := patch.New(e.Op, e.Path, e.Value)
		if err != nil {
			return fmt.Errorf("making the patch: %w", err)
		}
		operations[i] = op
	}
	if err := patch.Check(r.request.Pod, operations, result.Pod); err != nil {
		return fmt.Errorf("checking the patch: %w", err)
	}
	r.out.Pod, r.out.Operations = result.Pod, operations
	r.out.Warnings = append(r.out.Warnings, result.Warnings...)
	for _, name := range r.decision.Inject {
		out, ok := rendered[name]
		if !ok {
			continue
		}
		if slices.Contains(result.Templates, name) {
			out.Code = reason.Injected
		}
		out.Why = out.Code.Sentence()
		if r.decision.Asked[name] && !slices.ContainsFunc(r.fragments, func(f merge.Fragment) bool { return f.Template == name && f.Object != nil }) {
			r.warn(out)
		}
		r.outcome(out)
		r.step("template "+name, "its matchConditions hold, its parameters are good", string(out.Code))
	}
	return nil
}

// conclude sums the request up: one code, and a message if it is refused.
func (r *run) conclude() {
	if len(r.refusals) > 0 {
		r.refuse()
		return
	}
	if slices.ContainsFunc(r.out.Templates, func(t TemplateOutcome) bool { return t.Code == reason.Injected }) {
		r.out.Code = reason.Injected
	}
	if r.out.Code == "" {
		r.out.Code = reason.NotRequested
		for _, t := range r.out.Templates {
			if t.Asked {
				r.out.Code = t.Code
			}
		}
	}
}

func (r *run) refuse() {
	r.out.Allowed = false
	r.out.Pod, r.out.Operations = r.request.Pod, nil
	r.out.Code = r.refusals[0].Code
	var whys []string
	for _, t := range r.refusals {
		why := t.Why
		if t.Name != "" && !strings.Contains(why, t.Name) {
			why = "template " + t.Name + ": " + why
		}
		whys = append(whys, why)
	}
	r.out.Message = fmt.Sprintf("%s (%s; why, rule by rule: pillion explain -f POD.yaml --namespace-file NAMESPACE.yaml --templates TEMPLATES.yaml)",
		strings.Join(whys, "; "), r.out.Code)
}

func (r *run) outcome(t TemplateOutcome) { r.out.Templates = append(r.out.Templates, t) }

func (r *run) warn(t TemplateOutcome) {
	r.out.Warnings = append(r.out.Warnings, fmt.Sprintf("%s: without %s: %s", t.Code, t.Name, t.Why))
}

func (r *run) step(rule, input, result string) {
	r.out.Steps = append(r.out.Steps, policy.Step{Rule: rule, Input: input, Result: result})
}

// stringMap returns a JSON object's string values. The API server has checked
// that all are strings; offline, workload.CheckMetadata has.
func stringMap(v any) map[string]string {
	object, _ := v.(map[string]any)
	if len(object) == 0 {
		return nil
	}
	m := make(map[string]string, len(object))
	for k, v := range object {
		if s, ok := v.(string); ok {
			m[k] = s
		}
	}
	return m
}

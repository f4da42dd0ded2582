package injector

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/clash"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// injection is one request between the base pod and the patch.
type injection struct {
	pipeline *Pipeline
	progress *progress
	request  Request
	// base is the pod that templates see, requiredBase the one that required templates do.
	base, requiredBase map[string]any
	// priorRecord is the trusted part of the incoming record, and record is that of the pod
	// as it leaves.
	priorRecord, record record.Record
	// verifying: a template that is not required and fails is left out.
	verifying bool

	decision  policy.Decision
	versions  map[string]chosen           // by template: those that were asked for
	rendered  map[string]*TemplateOutcome // by template: those that rendered
	required  []requiredResult            // of the templates that are required of the pod
	fragments []merge.Fragment
	planned   merge.Plan
	out       Outcome
}

// newInjection returns an injection by a decision, with the outcome as far as the decision
// says it.
func (p *Pipeline) newInjection(r Request, decision policy.Decision, verifying bool) *injection {
	w := &injection{pipeline: p, request: r, verifying: verifying, decision: decision, rendered: map[string]*TemplateOutcome{}}
	w.out = Outcome{Allowed: true, Code: decision.Code, Pod: r.Pod, Warnings: slices.Clone(decision.Warnings), Steps: slices.Clone(decision.Steps)}
	// A final pod is compared with what is required of it, whatever its annotations say.
	if decision.Deny && !verifying {
		w.out.Refusals = append(w.out.Refusals, TemplateOutcome{Code: decision.Code, Why: decision.Why})
	}
	for _, o := range decision.Exclusions {
		t := TemplateOutcome{Name: o.Template, Code: o.Code, Why: o.Why, Exception: o.Exception, Asked: o.Asked, named: o.Code == reason.UnknownTemplate}
		w.out.Templates = append(w.out.Templates, t)
		switch {
		case o.Deny && !w.spares(o.Template):
			w.out.Refusals = append(w.out.Refusals, t)
		case o.Asked:
			w.warn(t)
		}
	}
	return w
}

// warnOfRecord puts a record that cannot be read before the other warnings.
func (w *injection) warnOfRecord(unreadable error) {
	if unreadable != nil {
		w.out.Warnings = append([]string{"ignoring " + unreadable.Error()}, w.out.Warnings...)
	}
}

// warnOfLabels warns of labels of Pillion's that say what is not so. They refuse nothing: whoever
// may change pods can label them at any time.
func (w *injection) warnOfLabels() {
	untrue := w.record.Untrue(w.out.Pod)
	if len(untrue) == 0 || len(w.out.Refusals) > 0 {
		return
	}
	shown := make([]string, len(untrue))
	for i, key := range untrue {
		shown[i] = podschema.Clip(key)
	}
	w.out.Warnings = append(w.out.Warnings, reason.UntrueLabel.Warning(fmt.Sprintf(
		"labels of the pod say that a sidecar is injected that is not: %s; remove them from metadata.labels, or from the pod template of the workload: Pillion sets them itself", strings.Join(shown, ", "))))
}

// spares reports whether a template's failure refuses nothing: the verification
// of a final pod is about required templates.
func (w *injection) spares(template string) bool {
	if !w.verifying {
		return false
	}
	entry, _ := w.request.Templates.Get(template)
	return !entry.Required() || w.decision.Excepted[template]
}

// requires reports whether what a template gives is required of the pod: a pod that is excepted may
// ask for it, as for any other.
func (w *injection) requires(t *templates.Template) bool {
	return t.Spec().Required && !w.decision.Excepted[t.Name()]
}

// template returns the version of one that was decided to be injected.
func (w *injection) template(name string) *templates.Template { return w.version(name).template }

// render renders each template that was decided.
func (w *injection) render() error {
	for _, name := range w.decision.Inject {
		if err := w.renderOne(w.version(name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *injection) renderOne(v chosen) error {
	t := v.template
	pod := w.base
	if w.requires(t) {
		pod = w.requiredBase
	}
	out := TemplateOutcome{Name: t.Name(), Hash: t.Hash(), Canary: v.canary, Asked: w.decision.Asked[t.Name()], template: t}
	if why := t.OtherSystem(pod); why != "" {
		w.otherSystem(out, why)
		return nil
	}
	if err := w.progress.render(out.Name); err != nil {
		return err
	}
	result, err := w.rendering(t, pod)
	if err != nil {
		if out.Code = renderCode(err); out.Code == reason.InternalError {
			return fmt.Errorf("rendering template %s: %w", t.Name(), err)
		}
		out.Why, out.named = err.Error(), true
		w.failed(out)
		return nil
	}
	if w.requires(t) {
		w.required = append(w.required, requiredResult{t, out, result})
	}
	out.Params, out.Origins = result.Params, result.Origins
	if c := result.Unmet; c != nil {
		out.Code, out.Why = reason.ConditionFalse, conditionSentence(c.Name, c.Message)
		if out.Asked {
			w.warn(out)
		}
		w.out.Templates = append(w.out.Templates, out)
		w.step(out.Name, "matchCondition "+c.Name, string(out.Code)+": "+c.Message)
		return nil
	}
	if len(result.Invalid) > 0 {
		w.invalid(out, result.Invalid)
		return nil
	}
	out.Code = reason.NothingToInject
	out.files = result.Files
	w.rendered[out.Name] = &out
	spec := t.Spec()
	w.fragments = append(w.fragments, merge.Fragment{
		Template: out.Name, Hash: out.Hash, Object: result.Fragment, Memo: result.Memo,
		OnConflict: string(spec.OnConflict), Overridable: spec.Overridable, Required: w.requires(t), KeepPodResources: spec.PodResources == v1alpha1.PodResourcesKeep,
	})
	return nil
}

// otherSystem leaves a template out of a pod for another operating system. Where the template is
// required, the pod is refused: what onError says is about failures of the template.
func (w *injection) otherSystem(out TemplateOutcome, why string) {
	out.Code, out.Why = reason.OtherSystem, why
	w.step(out.Name, "operating system", string(out.Code)+": "+why)
	switch {
	case w.decision.Required[out.Name]:
		out.Asked = true
		out.Why = why + "; it is required here: ask the cluster's admin for a template that serves this system or exempts it"
		w.out.Refusals = append(w.out.Refusals, out)
	case out.Asked:
		w.warn(out)
	}
	w.out.Templates = append(w.out.Templates, out)
}

// invalid refuses a pod for which validations of a template are false. A template's
// onError is about failures of the template, and says nothing of this.
func (w *injection) invalid(out TemplateOutcome, invalid []templates.Invalid) {
	messages := make([]string, len(invalid))
	for i, v := range invalid {
		messages[i] = v.Message
		w.step(out.Name, "validation "+v.Name, string(reason.ValidationFailed)+": "+v.Message)
	}
	out.Code, out.Why, out.Asked = reason.ValidationFailed, strings.Join(messages, "; "), true
	w.out.Templates = append(w.out.Templates, out)
	if !w.spares(out.Name) {
		w.out.Refusals = append(w.out.Refusals, out)
	}
}

func conditionSentence(name, message string) string {
	if message == "" {
		return fmt.Sprintf("its matchCondition %q is false for this pod", name)
	}
	return fmt.Sprintf("its matchCondition %q is false for this pod: %s", name, message)
}

func renderCode(err error) reason.Code {
	var parameter *templates.ParameterError
	var render *templates.RenderError
	switch {
	case errors.As(err, &parameter):
		return reason.BadParameter
	case errors.As(err, &render) && render.TooExpensive:
		return reason.TemplateTooExpensive
	case render != nil:
		return reason.RenderFailed
	default:
		return reason.InternalError
	}
}

// plan makes the plan of the fragments. A template that cannot be merged and says
// onError: Skip is left out, and the plan is made of the others.
func (w *injection) plan() error {
	for {
		if err := w.progress.next("merging the templates"); err != nil {
			return err
		}
		plan, err := merge.Merge(w.progress.ctx, w.base, w.fragments, w.pipeline.statusKey)
		if err == nil {
			err = w.clash(plan)
		}
		if err == nil {
			w.planned = plan
			return nil
		}
		name, code := faultOf(err)
		if !w.leaveOut(name, code, err) {
			return fmt.Errorf("planning the changes of the templates: %w", err)
		}
		if len(w.out.Refusals) > 0 {
			return nil
		}
	}
}

// clash returns an error if a template opens a port that another container of the pod has, too, with
// the annotation that changes it if a parameter decides it. Of two templates it is the later one's. A
// final pod is compared with what required templates want, and with nothing else.
func (w *injection) clash(plan merge.Plan) error {
	if w.verifying {
		return nil
	}
	for _, f := range slices.Backward(plan.Fragments) {
		found := clash.Find(plan.Base, plan.Pod, f)
		if found == nil {
			continue
		}
		if out, ok := w.rendered[f.Template]; ok {
			found.Advice = w.template(f.Template).PortAdvice(found.Port, out.Params)
		}
		return found
	}
	return nil
}

// faultOf returns the template whose fault a failed merge is.
func faultOf(err error) (template string, code reason.Code) {
	var conflict *merge.ConflictError
	var fragment *merge.FragmentError
	var pod *merge.PodError
	var resources *merge.ResourcesError
	var clashing *clash.Error
	var large *apply.TooLargeError
	var file *fileError
	switch {
	case errors.As(err, &file):
		return file.template, file.code
	case errors.As(err, &conflict):
		return conflict.Template, reason.Conflict
	case errors.As(err, &clashing):
		return clashing.Template, reason.Conflict
	case errors.As(err, &resources):
		return resources.Template, reason.Conflict
	case errors.As(err, &fragment):
		return fragment.Template, reason.RenderFailed
	case errors.As(err, &pod):
		return pod.Template, reason.RenderFailed
	case errors.As(err, &large):
		return large.Template, reason.TemplateTooExpensive
	}
	return "", ""
}

// leaveOut takes a template's fragment away and does what its onError says. It
// reports false if no template of that name was rendered.
func (w *injection) leaveOut(name string, code reason.Code, err error) bool {
	out, ok := w.rendered[name]
	if !ok {
		return false
	}
	delete(w.rendered, name)
	w.fragments = slices.DeleteFunc(w.fragments, func(f merge.Fragment) bool { return f.Template == name })
	out.Code, out.Why, out.named = code, err.Error(), code != reason.TemplateTooExpensive
	w.failed(*out)
	return true
}

// failed does what a template's onError says.
func (w *injection) failed(out TemplateOutcome) {
	out.Asked = true
	w.out.Templates = append(w.out.Templates, out)
	w.step(out.Name, out.Why, string(out.Code))
	if w.template(out.Name).Spec().OnError == v1alpha1.ErrorSkip || w.spares(out.Name) {
		w.warn(out)
		return
	}
	w.out.Refusals = append(w.out.Refusals, out)
}

// changed returns the pod with what the plan wants, and the patch that leads there.
func (w *injection) changed(rec record.Record) (apply.Result, error) {
	result, err := apply.Apply(w.progress.ctx, w.request.Pod, rec, w.planned, w.pipeline.statusKey)
	if err == nil {
		err = w.checkFiles(result.Pod)
	}
	return result, err
}

// apply brings the pod up to date, and refuses a pod in which a required template
// does not have what it wants. Where no webhook verifies the final pod, as on the
// command line, nothing else would tell.
func (w *injection) apply(rec record.Record) error {
	const doing = "changing the pod"
	if err := w.progress.next(doing); err != nil {
		return err
	}
	result, err := w.changed(rec)
	for err != nil {
		name, code := faultOf(err)
		if !w.leaveOut(name, code, err) {
			return fmt.Errorf("applying the plan to the pod: %w", err)
		}
		if len(w.out.Refusals) > 0 {
			return nil
		}
		if err := w.plan(); err != nil || len(w.out.Refusals) > 0 {
			return err
		}
		if err := w.progress.next(doing); err != nil {
			return err
		}
		result, err = w.changed(rec)
	}
	if err := w.requireAll(result.Pod, rec); err != nil || len(w.out.Refusals) > 0 {
		return err
	}
	if err := w.progress.next("checking the patch"); err != nil {
		return err
	}
	if err := patch.Check(w.progress.ctx, w.request.Pod, result.Operations, result.Pod); err != nil {
		return err
	}
	w.out.Pod, w.out.Operations, w.record = result.Pod, result.Operations, result.Record
	if err := w.applyToTemplate(rec); err != nil {
		return err
	}
	if w.request.Attribute {
		w.out.changes = w.planned.Root
	}
	if w.request.Explain {
		w.out.Effects, w.out.Kept = w.planned.Effects(), w.planned.Kept()
	}
	w.out.Warnings = append(append(w.out.Warnings, w.planned.Warnings...), result.Warnings...)
	w.warnOfJob()
	w.injected(result.Templates)
	return nil
}

// injected notes the outcome of each template that was rendered. Traced are those that the plan
// gives something to the pod of.
func (w *injection) injected(traced []string) {
	for _, name := range w.decision.Inject {
		out, ok := w.rendered[name]
		if !ok {
			continue
		}
		if slices.Contains(traced, name) {
			out.Code = reason.Injected
		}
		out.Why = out.Code.Sentence()
		empty := !slices.ContainsFunc(w.fragments, func(f merge.Fragment) bool { return f.Template == name && f.Object != nil })
		if w.decision.Asked[name] && empty {
			w.warn(*out)
		}
		w.out.Templates = append(w.out.Templates, *out)
		w.step(name, "conditions met, parameters valid", string(out.Code))
	}
}

// requireAll refuses a pod that is not what the required templates want.
func (w *injection) requireAll(pod map[string]any, rec record.Record) error {
	if !slices.ContainsFunc(w.fragments, func(f merge.Fragment) bool { return f.Required }) {
		return nil
	}
	if err := w.progress.next("comparing the pod with the required templates"); err != nil {
		return err
	}
	differences, err := required.Differences(w.progress.ctx, w.planned, pod, rec, func(template string) required.Allowed { return w.template(template).Verify() })
	if err != nil {
		return err
	}
	wrong, since := map[string][]string{}, map[string]bool{}
	for _, d := range differences {
		wrong[d.Template] = append(wrong[d.Template], d.String())
		since[d.Template] = since[d.Template] || d.Since
	}
	for _, name := range w.decision.Inject {
		if len(wrong[name]) == 0 {
			continue
		}
		out := *w.rendered[name]
		out.Code, out.Why = reason.RequiredMissing, strings.Join(wrong[name], "; ")
		if since[name] {
			out.Why += fmt.Sprintf(" (%s says that Pillion wrote it correctly. Either another webhook changed it, which spec.verify.allow of the template can allow, "+
				"or the annotation is another pod's: then remove it)", w.pipeline.statusKey)
		}
		w.out.Templates = append(w.out.Templates, out)
		w.step(name, out.Why, string(out.Code))
		w.out.Refusals = append(w.out.Refusals, out)
	}
	return nil
}

// conclude sums the request up: one code, and a message if the pod is refused.
func (w *injection) conclude() Outcome {
	out := &w.out
	switch {
	case len(out.Refusals) > 0:
		out.Allowed = false
		out.Pod, out.Operations = w.request.Pod, nil
		out.PodTemplate, out.PodTemplateOperations = nil, nil
		out.Code = out.Refusals[0].Code
		out.Command = w.pipeline.config.explainCommand(w.request)
		out.Message = refused(out.Refusals, out.Code, out.Command)
	case slices.ContainsFunc(out.Templates, func(t TemplateOutcome) bool { return t.Code == reason.Injected }):
		out.Code = reason.Injected
	case out.Code == "":
		out.Code = reason.NotRequested
		for _, t := range out.Templates {
			if t.Asked {
				out.Code = t.Code
			}
		}
	}
	// Whoever counts pods must not count one twice that an earlier call injected.
	out.Recorded = !w.priorRecord.Empty()
	for _, list := range [][]TemplateOutcome{out.Templates, out.Refusals} {
		for i := range list {
			entry, _ := w.request.Templates.Get(list[i].Name)
			list[i].Recorded, list[i].Namespaced = list[i].Name != "" && w.priorRecord.Hash(list[i].Name) != "", entry.Namespace != ""
		}
	}
	return *out
}

// Refusal says why the pod is refused, without the command that explains it: it is the same for
// all workloads that are refused for the same. It is empty for a pod that is admitted.
func (o Outcome) Refusal() string {
	if len(o.Refusals) == 0 {
		return o.Message
	}
	return fmt.Sprintf("%s (%s)", sentences(o.Refusals), o.Code)
}

// refused is the message for a pod that is refused. The command explains it.
func refused(refusals []TemplateOutcome, code reason.Code, command string) string {
	return fmt.Sprintf("%s (%s; for details run: %s)", sentences(refusals), code, command)
}

// sentences joins refusals, each with the name of its template.
func sentences(refusals []TemplateOutcome) string {
	whys := make([]string, len(refusals))
	for i, t := range refusals {
		whys[i] = t.Sentence()
	}
	return strings.Join(whys, "; ")
}

// Sentence says why, with the name of the template.
func (t TemplateOutcome) Sentence() string {
	if t.Name == "" || t.named {
		return t.Why
	}
	return "template " + t.Name + ": " + t.Why
}

// Warning is the warning of a pod that goes without the template.
func (t TemplateOutcome) Warning() string {
	return t.Code.Warning(fmt.Sprintf("without %s: %s", t.Name, t.Why))
}

func (w *injection) warn(t TemplateOutcome) { w.out.Warnings = append(w.out.Warnings, t.Warning()) }

func (w *injection) step(template, input, result string) {
	if !w.request.Explain {
		return
	}
	w.out.Steps = append(w.out.Steps, policy.Step{Rule: "template " + template, Template: template, Input: input, Result: result})
}

// stringMap returns a JSON object's string values. The API server has checked
// that all are strings; offline, workload.Decode has.
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

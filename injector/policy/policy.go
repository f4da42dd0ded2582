package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
)

// Request is one pod on its way into the cluster.
type Request struct {
	// InjectKey is the full name of the inject annotation.
	InjectKey string
	// InjectionKey is the full name of the namespaces' injection label.
	InjectionKey string
	// Operation and Subresource are the admission request's.
	Operation, Subresource string
	// FromNode reports whether a node (a kubelet) sent the request.
	FromNode bool

	// PodAnnotations and PodLabels are the base pod's.
	PodAnnotations, PodLabels map[string]string
	// RequiredPodLabels are the labels that required templates match. They may be
	// more than PodLabels: a pod's record can hide a label from PodLabels, and a
	// record can be forged.
	RequiredPodLabels map[string]string

	Namespace                             string
	NamespaceLabels, NamespaceAnnotations map[string]string
	// Excluded reports whether the admin keeps Pillion out of the namespace.
	Excluded bool
	// Disabled reports whether the namespace is switched off by its label.
	Disabled bool

	// Now is the time of the review, by which exceptions of required templates end.
	Now time.Time

	// Explain asks for Steps, and for an exclusion for each template that is not injected.
	Explain bool
}

// Exclusion says why a template is not injected.
type Exclusion struct {
	Template string
	Code     reason.Code
	// Why is a sentence that names the rule and its input.
	Why string
	// Exception names the exception of a required template by which the pod goes without it.
	Exception string
	// Asked reports whether somebody asked for the template, so that its
	// absence deserves a warning.
	Asked bool
	// Deny reports that the pod must be refused: the pod or its namespace asks for
	// a template that it cannot have. Where a controller creates the pod, nobody
	// would see a warning; a refusal shows in the workload's events.
	Deny bool
}

// Step is one rule of the decision, for `pillion explain`. Rule, Input and Result
// are sentences for people.
type Step struct {
	// Template is the template that the rule decides about, or "".
	Template string `json:"-"`
	// Level says whose annotation the rule reads, or "".
	Level  Level  `json:"-"`
	Rule   string `json:"rule"`
	Input  string `json:"input"`
	Result string `json:"result"`
}

// Decision says which templates are injected, which are not, and why.
type Decision struct {
	// Code is set when one rule decides for the whole pod: an excluded
	// namespace, a mirror pod, an unreadable annotation, an opt-out.
	Code reason.Code
	Why  string
	// Deny reports that the pod must be refused for an annotation.
	Deny bool
	// Inject names the templates to render, in the order they were given. Of a pod that must be
	// refused they are the required ones: a final pod is compared with them all the same.
	Inject []string
	// Late has the templates of Inject that nothing asks for, and whose match selects the namespace and not
	// the pod: they are injected only if another template gives the pod the label that they select.
	Late map[string]bool
	// Asked has the templates of Inject that an annotation asks for, by name or by
	// "true".
	Asked map[string]bool
	// Required has the templates of Inject that are required for this pod.
	Required map[string]bool
	// Excepted has the required templates that the pod is excepted from, whether or not an
	// annotation asks for them.
	Excepted map[string]bool
	// Exclusions are the templates that are not injected though something concerns them:
	// they are asked for, match, or are taken off one by one. They are in the catalog's
	// order, those that do not exist last. Of the rest there is none, unless the request
	// says Explain: nothing asks for them, or Code says why for all.
	Exclusions []Exclusion
	Warnings   []string
	// Steps is nil unless the request says Explain.
	Steps []Step
}

const mirrorAnnotation = "kubernetes.io/config.mirror"

// Decide chooses among the templates of a catalog.
//
//	pod says   namespace says   injected
//	-          -                those that match
//	-          names            those, and those that match
//	-          "true"           those injected by default, and those that match
//	-          "false"          nothing but required
//	"true"     names            the namespace's outcome
//	"true"     anything else    as if the namespace said "true"
//	names      anything         those, and required
//	"false"    anything         nothing but required
//	+a,-b      anything         the namespace's outcome, plus a, minus b
func Decide(r Request, catalog Catalog) Decision {
	d := decider{request: r, catalog: catalog}
	d.decide()
	return d.result
}

type decider struct {
	request Request
	catalog Catalog
	result  Decision
	// verdicts are the templates that something concerns, index finds them by name.
	verdicts []verdict
	index    map[string]int
	// off is why all templates are taken off, "" if they are not. offWhy is its sentence.
	off    reason.Code
	offWhy string
	// noDefaults: "true" asks for the templates injected by default, and there is none.
	noDefaults bool
	// matching has the places of the templates that match.
	matching []int
	// excepted are the required templates that would match, and that the pod is excepted from.
	excepted []exception
	// listed is what listTemplates returned, offered the names behind it.
	listed  string
	offered []string
	// hinted is for how many names the nearest was looked for.
	hinted int
}

func (d *decider) decide() {
	if d.decidedByRequest() {
		return
	}
	pod, podErr := d.ask(d.request.PodAnnotations, Pod)
	ns, nsErr := d.ask(d.request.NamespaceAnnotations, Namespace)
	d.matching = slices.DeleteFunc(d.catalog.Matching(d.request.NamespaceLabels, d.request.PodLabels, d.request.RequiredPodLabels), d.except)
	switch {
	case podErr != nil:
		d.deny(Pod, podErr)
		return
	case nsErr != nil && pod.Mode != Out && pod.Mode != Names:
		// A pod that says for itself does not depend on the namespace's annotation.
		d.deny(Namespace, nsErr)
		return
	}
	d.choose(pod, ns)
	d.require()
	for _, e := range d.excepted {
		f := d.verdict(e.template, e.place)
		f.exception, f.excepted = e.name, e.why
	}
	d.finish(pod)
}

// decidedByRequest makes the decisions that no annotation can change.
func (d *decider) decidedByRequest() bool {
	r := d.request
	whole := func(code reason.Code, why string) bool {
		if code != reason.NotAPodCreation {
			d.askInVain(code, why)
		}
		d.takeAllOff(code, why)
		d.step(Step{Rule: "request", Input: why, Result: string(code)})
		d.sortAll()
		for _, f := range d.verdicts {
			if f.inVain || f.place != nowhere && r.Explain {
				d.result.Exclusions = append(d.result.Exclusions, Exclusion{Template: f.name, Code: code, Why: why, Asked: f.inVain})
			}
		}
		return true
	}
	switch {
	case r.Operation != "CREATE" || r.Subresource != "":
		return whole(reason.NotAPodCreation, fmt.Sprintf("operation %s on pods%s", r.Operation, slashed(r.Subresource)))
	case r.Excluded:
		return whole(reason.NamespaceExcluded, fmt.Sprintf("namespace %q is excluded by the cluster's admin", r.Namespace))
	case r.Disabled:
		return whole(reason.NamespaceDisabled, fmt.Sprintf("namespace %q is switched off by its label %s=disabled", r.Namespace, r.InjectionKey))
	case d.isMirror() && (r.FromNode || len(d.catalog.Required()) == 0):
		return whole(reason.MirrorPod, "the pod mirrors a static pod of a node ("+mirrorAnnotation+"), which cannot be changed")
	}
	d.step(Step{Rule: "request", Input: "CREATE of a pod", Result: "goes on"})
	return false
}

// askInVain notes the templates that the annotations ask for where nothing is injected,
// and warns of an annotation that names no template.
func (d *decider) askInVain(code reason.Code, why string) {
	pod, podErr := d.ask(d.request.PodAnnotations, Pod)
	ns, nsErr := d.ask(d.request.NamespaceAnnotations, Namespace)
	if podErr != nil || nsErr != nil && pod.Mode != Out && pod.Mode != Names {
		d.result.Warnings = append(d.result.Warnings, code.Warning(fmt.Sprintf("nothing is injected: %s; %s is not valid either", why, d.request.InjectKey)))
		return
	}
	if !d.chooseInVain(pod, ns) && (pod.Mode == Default || pod.Mode == Absent && ns.Mode == Default) {
		d.result.Warnings = append(d.result.Warnings, code.Warning(fmt.Sprintf("%s is \"true\", and nothing is injected: %s", d.request.InjectKey, why)))
	}
}

// chooseInVain notes the templates that the annotations ask for, and chooses none. It
// reports whether there are any.
func (d *decider) chooseInVain(pod, ns Ask) bool {
	d.chooseAmong(pod, ns)
	any := false
	for i, f := range d.verdicts {
		inVain := f.wanted && f.asked
		d.verdicts[i] = verdict{name: f.name, place: f.place, inVain: inVain}
		any = any || inVain
	}
	d.off, d.offWhy, d.noDefaults, d.result.Warnings = "", "", false, nil
	return any
}

func (d *decider) isMirror() bool {
	_, ok := d.request.PodAnnotations[mirrorAnnotation]
	return ok
}

func slashed(subresource string) string {
	if subresource == "" {
		return ""
	}
	return "/" + subresource
}

func (d *decider) ask(annotations map[string]string, level Level) (Ask, error) {
	value, present := annotations[d.request.InjectKey]
	ask, err := ParseAsk(value, present, level)
	if !d.request.Explain {
		return ask, err
	}
	input := "no annotation " + d.request.InjectKey
	if present {
		input = fmt.Sprintf("%s: %q", d.request.InjectKey, clip(value))
	}
	result := ask.describe()
	if err != nil {
		result = string(reason.BadAnnotation) + ": " + err.Error()
	}
	d.step(Step{Level: level, Rule: string(level) + " says", Input: input, Result: result})
	return ask, err
}

func (a Ask) describe() string {
	switch a.Mode {
	case Absent:
		return "nothing"
	case Default:
		return "the defaults"
	case Out:
		return "nothing but what is required"
	case Names:
		return "these templates"
	default:
		return "changes to the namespace's outcome"
	}
}

// deny refuses the pod for an annotation. What is required of the pod does not depend on it.
func (d *decider) deny(level Level, err error) {
	value := d.request.PodAnnotations[d.request.InjectKey]
	where := "annotation " + d.request.InjectKey
	if level == Namespace {
		value = d.request.NamespaceAnnotations[d.request.InjectKey]
		where += fmt.Sprintf(" of namespace %q", d.request.Namespace)
	}
	d.result.Code = reason.BadAnnotation
	d.result.Why = fmt.Sprintf("%s: %q: %v", where, clip(value), err)
	d.result.Deny = true
	d.require()
	d.sort()
	for _, f := range d.verdicts {
		d.offer(f)
	}
}

// choose says which templates are wanted, by the table of [Decide].
func (d *decider) choose(pod, ns Ask) {
	if d.isMirror() {
		// No node sent the pod, so it mirrors nothing. The annotation alone must not
		// keep required templates out.
		why := "the pod says that it mirrors a static pod of a node (" + mirrorAnnotation + "), and no node sent it: it gets what is required, and nothing else"
		d.chooseInVain(pod, ns)
		d.takeAllOff(reason.MirrorPod, why)
		return
	}
	d.chooseAmong(pod, ns)
	if d.noDefaults {
		d.result.Warnings = append(d.result.Warnings, reason.NoDefaultTemplates.Warning(fmt.Sprintf(
			"%s is \"true\", and %s; name a template: %s", d.request.InjectKey, reason.NoDefaultTemplates.Sentence(), d.listTemplates())))
	}
}

func (d *decider) chooseAmong(pod, ns Ask) {
	switch pod.Mode {
	case Out:
		d.takeAllOff(reason.PodOptedOut, "the pod says "+d.request.InjectKey+`: "false"`)
		return
	case Names:
		d.namespaceOutcome(ns)
		d.replace(pod)
		return
	case Default:
		if ns.Mode != Names {
			ns = Ask{Mode: Default}
		}
	}
	d.namespaceOutcome(ns)
	for _, name := range pod.Plus {
		d.want(name, added)
	}
	for _, name := range pod.Minus {
		f := d.named(name)
		f.wanted, f.asked, f.late, f.off, f.why = false, false, false, reason.PodOptedOut, takenOff
	}
}

func (d *decider) namespaceOutcome(ns Ask) {
	if ns.Mode == Out {
		d.takeAllOff(reason.NamespaceOptedOut, fmt.Sprintf("namespace %q says %s: \"false\"", d.request.Namespace, d.request.InjectKey))
		return
	}
	for _, place := range d.matching {
		f := d.verdict(d.catalog.At(place).Name, place)
		f.wanted, f.why = true, matches
	}
	for _, place := range d.catalog.Selecting(d.request.NamespaceLabels) {
		if t := d.catalog.At(place); !t.Required {
			d.verdict(t.Name, place).late = true
		}
	}
	switch ns.Mode {
	case Names:
		for _, name := range ns.Names {
			d.want(name, ofNamespace)
		}
	case Default:
		defaults := d.catalog.Defaults()
		d.noDefaults = len(defaults) == 0
		for _, place := range defaults {
			d.want(d.catalog.At(place).Name, byDefault)
		}
	}
}

// replace puts the pod's list in the place of the namespace's outcome, and warns
// about the templates that the pod goes without.
func (d *decider) replace(pod Ask) {
	var lost []string
	d.sort()
	for i := range d.verdicts {
		f := &d.verdicts[i]
		matched := f.wanted
		f.wanted, f.asked, f.late = false, false, false
		if f.place == nowhere || !matched || slices.Contains(pod.Names, f.name) {
			continue
		}
		f.off, f.why = reason.Replaced, replaced
		if !d.catalog.At(f.place).Required {
			lost = append(lost, f.name)
		}
	}
	unknown := false
	for _, name := range pod.Names {
		d.want(name, ofPod)
		unknown = unknown || d.named(name).place == nowhere
	}
	d.result.Code, d.result.Why, d.noDefaults = "", "", false
	if len(lost) > 0 && !unknown { // a list that cannot be had is no advice
		d.result.Warnings = append(d.result.Warnings, fmt.Sprintf(
			"the pod's list replaces the namespace's, so the pod goes without %s; to add to the namespace's list: %s: %q",
			strings.Join(lost, ", "), d.request.InjectKey, "+"+strings.Join(pod.Names, ",+")))
	}
}

// takeAllOff records that one rule takes every template off that is not wanted later.
func (d *decider) takeAllOff(code reason.Code, why string) {
	d.off, d.offWhy = code, why
	d.result.Code, d.result.Why = code, why
}

// want records that an annotation asks for a template.
func (d *decider) want(name string, why cause) {
	f := d.named(name)
	f.wanted, f.asked, f.off, f.why = true, true, "", why
}

// require adds the required templates that match, whatever the annotations say.
func (d *decider) require() {
	for _, place := range d.matching {
		if t := d.catalog.At(place); t.Required {
			f := d.verdict(t.Name, place)
			f.wanted, f.required, f.off, f.why = true, true, "", requiredHere
		}
	}
}

// finish goes through the templates in order and looks at suspend, availableTo
// and broken. Names that no template has come last.
func (d *decider) finish(pod Ask) {
	if !d.isMirror() {
		d.warnOfTakenOff(pod.Minus)
	}
	d.sortAll()
	for _, f := range d.verdicts {
		switch {
		case f.wanted && f.place == nowhere:
			d.exclude(Exclusion{Template: f.name, Code: reason.UnknownTemplate, Asked: true, Deny: true,
				Why: fmt.Sprintf("%s (annotation %s), but %s", d.sentence(f), d.request.InjectKey, d.unknown(f.name))})
		case f.wanted:
			d.offer(f)
		case f.late && d.mayBeInjected(f):
			d.inject(d.catalog.At(f.place), f)
		case f.place == nowhere:
		case f.exception != "":
			d.exclude(Exclusion{Template: f.name, Code: reason.Excepted, Why: f.excepted, Exception: f.exception, Asked: true})
		case f.off != "":
			d.exclude(Exclusion{Template: f.name, Code: f.off, Why: d.sentence(f), Asked: f.inVain})
		case d.off != "" && (f.inVain || d.request.Explain):
			d.exclude(Exclusion{Template: f.name, Code: d.off, Why: d.offWhy, Asked: f.inVain})
		case d.request.Explain:
			d.exclude(Exclusion{Template: f.name, Code: reason.NotRequested, Why: reason.NotRequested.Sentence()})
		}
	}
}

// unknown says that no template has a name, and what to ask for.
func (d *decider) unknown(name string) string {
	if stable, ok := d.catalog.CanaryOf(name); ok {
		return fmt.Sprintf("%q is a canary, which cannot be asked for; ask for %q, and the canary's share and selectors choose the version", clip(name), stable)
	}
	return fmt.Sprintf("there is no template %q%s; there are: %s", clip(name), d.meant(name), d.listTemplates())
}

// warnOfTakenOff warns of names that the pod takes off in vain.
func (d *decider) warnOfTakenOff(names []string) {
	for _, name := range names {
		f := d.named(name)
		if f.place == nowhere {
			what := fmt.Sprintf("which does not exist; the templates are: %s", d.listTemplates())
			if stable, ok := d.catalog.CanaryOf(name); ok {
				what = fmt.Sprintf("a canary, which cannot be named; name %q", stable)
			}
			d.result.Warnings = append(d.result.Warnings, reason.UnknownTemplate.Warning(fmt.Sprintf("the pod removes %q, %s", name, what)))
		}
		if f.wanted {
			d.result.Warnings = append(d.result.Warnings, fmt.Sprintf("the pod removes %q, which is required here and is injected anyway", name))
		}
	}
}

func (d *decider) offer(f verdict) {
	t, asked := d.catalog.At(f.place), f.asked || f.required
	o := Exclusion{Template: t.Name, Asked: asked, Deny: asked}
	switch {
	case t.Suspended:
		o.Deny = false
		by := "the cluster's admin has suspended it"
		if t.Namespaced {
			by = fmt.Sprintf("the NamespacedSidecarTemplate %s/%s is suspended; its spec.suspend has to become false", d.request.Namespace, t.Name)
		}
		o.Code, o.Why = reason.Suspended, fmt.Sprintf("%s, but %s", d.sentence(f), by)
	case !d.available(t):
		o.Code, o.Why = reason.NotAllowedHere, fmt.Sprintf("%s, but it is not available to namespace %q (spec.availableTo)", d.sentence(f), d.request.Namespace)
	case t.Broken != nil:
		// A pod that the template matches counts like a pod that names the template.
		o.Asked, o.Deny = true, !t.SkipBroken
		o.Code, o.Why = reason.TemplateBroken, fmt.Sprintf("%s, but no good version of it is known: %v", d.sentence(f), t.Broken)
	default:
		d.inject(t, f)
		return
	}
	d.exclude(o)
}

// mayBeInjected reports whether a template is in force for the namespace.
func (d *decider) mayBeInjected(f verdict) bool {
	t := d.catalog.At(f.place)
	return !t.Suspended && t.Broken == nil && d.available(t)
}

func (d *decider) inject(t Template, f verdict) {
	if !f.wanted {
		d.result.Inject = append(d.result.Inject, t.Name)
		if d.result.Late == nil {
			d.result.Late = map[string]bool{}
		}
		d.result.Late[t.Name] = true
		return
	}
	if d.result.Code != "" && t.Required && !d.result.Deny {
		d.result.Code, d.result.Why = "", ""
	}
	d.result.Inject = append(d.result.Inject, t.Name)
	if f.asked {
		if d.result.Asked == nil {
			d.result.Asked = map[string]bool{}
		}
		d.result.Asked[t.Name] = true
	}
	if f.required {
		if d.result.Required == nil {
			d.result.Required = map[string]bool{}
		}
		d.result.Required[t.Name] = true
	}
	if d.request.Explain {
		input := d.sentence(f)
		if d.result.Excepted[t.Name] {
			input += "; it is not required of the pod, which is excepted"
		}
		d.step(Step{Template: t.Name, Rule: "template " + t.Name, Input: input, Result: "conditions and parameters are checked next"})
	}
}

func (d *decider) available(t Template) bool {
	return t.Audience == nil || t.Audience.AvailableTo(d.request.NamespaceLabels)
}

func (d *decider) exclude(o Exclusion) {
	d.result.Exclusions = append(d.result.Exclusions, o)
	if d.request.Explain {
		d.step(Step{Template: o.Template, Rule: "template " + o.Template, Input: o.Why, Result: string(o.Code)})
	}
}

// listTemplates names the templates that a team could ask for in this namespace.
func (d *decider) listTemplates() string {
	if d.listed == "" {
		d.listed = d.list()
	}
	return d.listed
}

func (d *decider) list() string {
	var names []string
	for place := range d.catalog.Len() {
		if t := d.catalog.At(place); !t.Suspended && d.available(t) {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	d.offered = names
	return show.Some(names, 8)
}

// maxHinted is for how many names of an annotation the nearest template is looked for: it takes
// time, and a tenant may write many.
const maxHinted = 5

// meant goes on in a message about a name that no template has: with the word or the template
// that was probably meant.
func (d *decider) meant(name string) string {
	near := wordMeant(name)
	if near == "" && d.hinted < maxHinted {
		d.hinted++
		d.listTemplates()
		near, _ = nearest.Name(name, d.offered)
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

// step notes a rule for a request that says Explain.
func (d *decider) step(s Step) {
	if d.request.Explain {
		d.result.Steps = append(d.result.Steps, s)
	}
}

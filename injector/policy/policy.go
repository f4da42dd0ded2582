package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/injector/reason"
)

// Template has the facts about a template that the decision needs.
type Template struct {
	Name            string
	InjectByDefault bool
	Suspended       bool
	// Required templates are injected whatever the annotations say.
	Required bool
	// Match is nil unless the template is injected without being asked for.
	Match *Match
	// AvailableTo reports whether a namespace with these labels may have it; nil
	// is every namespace.
	AvailableTo func(namespaceLabels map[string]string) bool
	// Broken says why there is no good version, and is nil if there is one. SkipBroken
	// admits pods without it, by its onError.
	Broken     error
	SkipBroken bool
}

// Match selects namespaces and pods by their labels.
type Match struct{ Namespace, Pod labels.Selector }

// Request is one pod on its way into the cluster.
type Request struct {
	// InjectKey is the full name of the inject annotation.
	InjectKey string
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
}

// Outcome is the decision about one template.
type Exclusion struct {
	Template string
	Code     reason.Code
	// Why is a sentence that names the rule and its input.
	Why string
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
	Template string
	// Level says whose annotation the rule reads, or "".
	Level               Level
	Rule, Input, Result string
}

// Decision says which templates are injected, which are not, and why.
type Decision struct {
	// Code is set when one rule decides for the whole pod: an excluded
	// namespace, a mirror pod, an unreadable annotation, an opt-out.
	Code reason.Code
	Why  string
	// Deny reports that the pod must be refused.
	Deny bool
	// Inject names the templates to render, in the order they were given.
	Inject []string
	// Asked has the templates of Inject that an annotation asks for, by name or by
	// "true".
	Asked map[string]bool
	// Exclusions are the templates that are not injected, in the order of Templates,
	// those that do not exist last.
	Exclusions []Exclusion
	Warnings   []string
	Steps      []Step
}

const mirrorAnnotation = "kubernetes.io/config.mirror"

// Decide chooses among templates, which are in the order in which they are
// injected.
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
func Decide(r Request, templates []Template) Decision {
	d := decider{request: r, templates: templates, wanted: map[string]bool{}, why: map[string]string{}}
	return d.decide()
}

type decider struct {
	request   Request
	templates []Template
	result    Decision
	// wanted maps a template to whether an annotation asked for it by name or
	// by "true" (true), or it matches or is required (false).
	wanted map[string]bool
	// why says for a template why it is wanted or taken off.
	why map[string]string
	// off maps a template that was taken off to its reason.
	off map[string]reason.Code
	// inVain has the templates that the annotations ask for where no annotation
	// counts.
	inVain map[string]bool
}

func (d *decider) decide() Decision {
	d.off = map[string]reason.Code{}
	if d.decidedByRequest() {
		return d.result
	}
	pod, podErr := d.ask(d.request.PodAnnotations, Pod)
	ns, nsErr := d.ask(d.request.NamespaceAnnotations, Namespace)
	// A pod that says for itself does not depend on the namespace's annotation.
	if podErr != nil {
		return d.deny(Pod, podErr)
	}
	if nsErr != nil && pod.Mode != Out && pod.Mode != Names {
		return d.deny(Namespace, nsErr)
	}
	d.choose(pod, ns)
	d.result.Asked = d.asked()
	d.require()
	d.finish(pod)
	return d.result
}

// decidedByRequest makes the decisions that no annotation can change.
func (d *decider) decidedByRequest() bool {
	r := d.request
	whole := func(code reason.Code, why string) bool {
		asked := map[string]bool{}
		if code != reason.NotAPodCreation {
			asked = d.askedInVain(code, why)
		}
		d.result.Code, d.result.Why = code, why
		d.step(Step{Rule: "request", Input: why, Result: string(code)})
		for _, t := range d.templates {
			d.result.Exclusions = append(d.result.Exclusions, Exclusion{Template: t.Name, Code: code, Why: why, Asked: asked[t.Name]})
			delete(asked, t.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(asked)) {
			d.result.Exclusions = append(d.result.Exclusions, Exclusion{Template: name, Code: code, Why: why, Asked: true})
		}
		return true
	}
	switch {
	case r.Operation != "CREATE" || r.Subresource != "":
		return whole(reason.NotAPodCreation, fmt.Sprintf("operation %s on pods%s", r.Operation, slashed(r.Subresource)))
	case r.Excluded:
		return whole(reason.NamespaceExcluded, fmt.Sprintf("namespace %q is excluded by the cluster's admin", r.Namespace))
	case d.isMirror() && (r.FromNode || !d.anyRequired()):
		return whole(reason.MirrorPod, "the pod mirrors a static pod of a node ("+mirrorAnnotation+"), which cannot be changed")
	}
	d.step(Step{Rule: "request", Input: "CREATE of a pod", Result: "goes on"})
	return false
}

// askedInVain returns the templates that the annotations ask for where nothing is
// injected, and warns of an annotation that names no template.
func (d *decider) askedInVain(code reason.Code, why string) map[string]bool {
	pod, podErr := d.ask(d.request.PodAnnotations, Pod)
	ns, nsErr := d.ask(d.request.NamespaceAnnotations, Namespace)
	if podErr != nil || nsErr != nil && pod.Mode != Out && pod.Mode != Names {
		d.result.Warnings = append(d.result.Warnings, code.Warning(fmt.Sprintf("nothing is injected: %s; %s cannot be understood either", why, d.request.InjectKey)))
		return map[string]bool{}
	}
	asked := d.chosenInVain(pod, ns)
	if len(asked) == 0 && (pod.Mode == Default || pod.Mode == Absent && ns.Mode == Default) {
		d.result.Warnings = append(d.result.Warnings, code.Warning(fmt.Sprintf("%s is \"true\", and nothing is injected: %s", d.request.InjectKey, why)))
	}
	return asked
}

// chosenInVain returns the templates that the annotations ask for, and chooses none.
func (d *decider) chosenInVain(pod, ns Ask) map[string]bool {
	d.chooseAmong(pod, ns)
	asked := d.asked()
	d.wanted, d.why, d.off = map[string]bool{}, map[string]string{}, map[string]reason.Code{}
	d.result.Warnings = nil
	return asked
}

// asked returns the chosen templates that an annotation asks for.
func (d *decider) asked() map[string]bool {
	asked := maps.Clone(d.wanted)
	maps.DeleteFunc(asked, func(_ string, asked bool) bool { return !asked })
	return asked
}

func (d *decider) isMirror() bool {
	_, ok := d.request.PodAnnotations[mirrorAnnotation]
	return ok
}

func (d *decider) anyRequired() bool {
	return slices.ContainsFunc(d.templates, func(t Template) bool { return t.Required })
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

func (d *decider) deny(level Level, err error) Decision {
	value := d.request.PodAnnotations[d.request.InjectKey]
	where := "annotation " + d.request.InjectKey
	if level == Namespace {
		value = d.request.NamespaceAnnotations[d.request.InjectKey]
		where += fmt.Sprintf(" of namespace %q", d.request.Namespace)
	}
	d.result.Code = reason.BadAnnotation
	d.result.Why = fmt.Sprintf("%s: %q: %v", where, clip(value), err)
	d.result.Deny = true
	return d.result
}

// choose fills wanted by the table of [Decide].
func (d *decider) choose(pod, ns Ask) {
	if d.isMirror() {
		// No node sent the pod, so it mirrors nothing. The annotation alone must not
		// keep required templates out.
		why := "the pod says that it mirrors a static pod of a node (" + mirrorAnnotation + "), and no node sent it: it gets what is required, and nothing else"
		d.inVain = d.chosenInVain(pod, ns)
		d.takeAllOff(reason.MirrorPod, why)
		d.result.Code, d.result.Why = reason.MirrorPod, why
		return
	}
	d.chooseAmong(pod, ns)
}

func (d *decider) chooseAmong(pod, ns Ask) {
	switch pod.Mode {
	case Out:
		d.takeAllOff(reason.PodOptedOut, fmt.Sprintf("the pod says %s: \"false\"", d.request.InjectKey))
		d.result.Code, d.result.Why = reason.PodOptedOut, "the pod's annotation "+d.request.InjectKey+` is "false"`
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
		d.want(name, true, "the pod adds it")
		delete(d.off, name)
	}
	for _, name := range pod.Minus {
		delete(d.wanted, name)
		d.off[name], d.why[name] = reason.PodOptedOut, fmt.Sprintf("the pod takes it off with \"-%s\"", name)
	}
}

func (d *decider) namespaceOutcome(ns Ask) {
	if ns.Mode == Out {
		d.takeAllOff(reason.NamespaceOptedOut, fmt.Sprintf("namespace %q says %s: \"false\"", d.request.Namespace, d.request.InjectKey))
		d.result.Code, d.result.Why = reason.NamespaceOptedOut, fmt.Sprintf("the annotation %s of namespace %q is \"false\"", d.request.InjectKey, d.request.Namespace)
		return
	}
	for _, t := range d.matching() {
		d.want(t, false, "it matches this pod by its labels and namespace")
	}
	switch ns.Mode {
	case Names:
		for _, name := range ns.Names {
			d.want(name, true, fmt.Sprintf("namespace %q asks for it", d.request.Namespace))
		}
	case Default:
		d.wantDefaults()
	}
}

func (d *decider) wantDefaults() {
	var any bool
	for _, t := range d.templates {
		if t.InjectByDefault {
			any = true
			d.want(t.Name, true, "it is injected by default")
		}
	}
	if any {
		return
	}
	d.result.Warnings = append(d.result.Warnings, reason.NoDefaultTemplates.Warning(fmt.Sprintf(
		"%s is \"true\", and %s; name what you want: %s", d.request.InjectKey, reason.NoDefaultTemplates.Sentence(), d.listTemplates())))
}

// replace puts the pod's list in the place of the namespace's outcome, and warns
// about the templates that the pod goes without.
func (d *decider) replace(pod Ask) {
	var lost []string
	for _, t := range d.templates {
		if _, wanted := d.wanted[t.Name]; wanted && !slices.Contains(pod.Names, t.Name) {
			d.off[t.Name], d.why[t.Name] = reason.Replaced, "the pod's own list does not name it"
			if !t.Required {
				lost = append(lost, t.Name)
			}
		}
	}
	d.wanted = map[string]bool{}
	for _, name := range pod.Names {
		d.want(name, true, "the pod asks for it")
		delete(d.off, name)
	}
	d.result.Code, d.result.Why = "", ""
	d.result.Warnings = nil
	if len(lost) > 0 {
		d.result.Warnings = append(d.result.Warnings, fmt.Sprintf(
			"the pod's list replaces the namespace's: without %s; to keep it and add yours: %s: %q",
			strings.Join(lost, ", "), d.request.InjectKey, "+"+strings.Join(pod.Names, ",+")))
	}
}

// takeAllOff records that an opt-out takes every template off.
func (d *decider) takeAllOff(code reason.Code, why string) {
	for _, t := range d.templates {
		d.off[t.Name], d.why[t.Name] = code, why
	}
}

func (d *decider) want(name string, asked bool, why string) {
	d.wanted[name] = d.wanted[name] || asked
	d.why[name] = why
}

func (d *decider) matching() []string {
	var names []string
	for _, t := range d.templates {
		if t.Match == nil {
			continue
		}
		if t.Match.Namespace.Matches(labels.Set(d.request.NamespaceLabels)) && t.Match.Pod.Matches(labels.Set(d.labelsFor(t))) {
			names = append(names, t.Name)
		}
	}
	return names
}

// labelsFor returns the pod's labels as a template sees them.
func (d *decider) labelsFor(t Template) map[string]string {
	if t.Required {
		return d.request.RequiredPodLabels
	}
	return d.request.PodLabels
}

// require adds the required templates that match, whatever the annotations say.
func (d *decider) require() {
	matching := d.matching()
	for _, t := range d.templates {
		if t.Required && slices.Contains(matching, t.Name) {
			d.want(t.Name, true, "it is required here")
			delete(d.off, t.Name)
		}
	}
}

// finish goes through the templates in order and looks at suspend, availableTo
// and broken. Names that no template has come last.
func (d *decider) finish(pod Ask) {
	for _, t := range d.templates {
		asked, wanted := d.wanted[t.Name]
		if !wanted {
			code, ok := d.off[t.Name]
			if !ok {
				code, d.why[t.Name] = reason.NotRequested, reason.NotRequested.Sentence()
			}
			d.exclude(Exclusion{Template: t.Name, Code: code, Why: d.why[t.Name], Asked: d.inVain[t.Name]})
			continue
		}
		d.offer(t, asked)
	}
	if d.isMirror() {
		return
	}
	for _, name := range d.unknown() {
		d.exclude(Exclusion{Template: name, Code: reason.UnknownTemplate, Asked: true, Deny: true,
			Why: fmt.Sprintf("%s, but there is no template %q; there are: %s", d.why[name], clip(name), d.listTemplates())})
	}
	for _, name := range pod.Minus {
		if !slices.ContainsFunc(d.templates, func(t Template) bool { return t.Name == name }) {
			d.result.Warnings = append(d.result.Warnings, reason.UnknownTemplate.Warning(fmt.Sprintf(
				"the pod takes off %q, which does not exist; there are: %s", name, d.listTemplates())))
		}
		if _, wanted := d.wanted[name]; wanted {
			d.result.Warnings = append(d.result.Warnings, fmt.Sprintf("the pod takes off %q, which is required here and stays", name))
		}
	}
}

func (d *decider) offer(t Template, asked bool) {
	o := Exclusion{Template: t.Name, Asked: asked, Deny: asked}
	switch {
	case t.Suspended:
		o.Deny = false
		o.Code, o.Why = reason.Suspended, fmt.Sprintf("%s, but the cluster's admin has suspended it", d.why[t.Name])
	case !d.available(t):
		o.Code, o.Why = reason.NotAllowedHere, fmt.Sprintf("%s, but it is not available to namespace %q (spec.availableTo)", d.why[t.Name], d.request.Namespace)
	case t.Broken != nil:
		// A pod that the template matches counts like a pod that names the template.
		o.Asked, o.Deny = true, !t.SkipBroken
		o.Code, o.Why = reason.TemplateBroken, fmt.Sprintf("%s, but no good version of it is known: %v", d.why[t.Name], t.Broken)
	default:
		if d.result.Code != "" && t.Required {
			d.result.Code, d.result.Why = "", ""
		}
		d.result.Inject = append(d.result.Inject, t.Name)
		d.step(Step{Template: t.Name, Rule: "template " + t.Name, Input: d.why[t.Name], Result: "goes on to its matchConditions and parameters"})
		return
	}
	d.exclude(o)
}

func (d *decider) available(t Template) bool {
	return t.AvailableTo == nil || t.AvailableTo(d.request.NamespaceLabels)
}

func (d *decider) exclude(o Exclusion) {
	d.result.Exclusions = append(d.result.Exclusions, o)
	d.step(Step{Template: o.Template, Rule: "template " + o.Template, Input: o.Why, Result: string(o.Code)})
}

func (d *decider) unknown() []string {
	var names []string
	for name := range d.wanted {
		if !slices.ContainsFunc(d.templates, func(t Template) bool { return t.Name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// listTemplates names the templates that a team could ask for in this namespace.
func (d *decider) listTemplates() string {
	var names []string
	for _, t := range d.templates {
		if !t.Suspended && d.available(t) {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func (d *decider) step(s Step) { d.result.Steps = append(d.result.Steps, s) }

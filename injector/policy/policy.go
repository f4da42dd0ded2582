package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

	// Canaries has the stable template of each canary, by the canary's name. Pods cannot ask for a canary.
	Canaries map[string]string

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

// Choice is a template to render.
type Choice struct {
	Template string
	// Place is its index among the templates that were given.
	Place int
	// Asked: an annotation asks for it, by name or by "true".
	Asked bool
	// Required: it is required of the pod.
	Required bool
	// Late: nothing asks for it, and its match selects the namespace and not the pod. It is injected only if
	// another template gives the pod the label that it selects.
	Late bool
}

// Decision says which templates are injected, which are not, and why.
type Decision struct {
	// Code is set when one rule decides for the whole pod: an excluded
	// namespace, a mirror pod, an unreadable annotation, an opt-out.
	Code reason.Code
	Why  string
	// Deny reports that the pod must be refused for an annotation.
	Deny bool
	// Inject has the templates to render, in the order they were given. Of a pod that must be
	// refused they are the required ones: a final pod is compared with them all the same.
	Inject []Choice
	// Exclusions are the templates that are not injected though something concerns them:
	// they are asked for, match, or are taken off one by one. They are in the templates'
	// order, those that do not exist last. Of the rest there is none, unless the request
	// says Explain: nothing asks for them, or Code says why for all.
	Exclusions []Exclusion
	Warnings   []string
	// Steps is nil unless the request says Explain.
	Steps []Step
}

// Count returns how many templates are injected whatever others do.
func (d Decision) Count() int {
	n := 0
	for _, choice := range d.Inject {
		if !choice.Late {
			n++
		}
	}
	return n
}

const mirrorAnnotation = "kubernetes.io/config.mirror"

// Decide chooses among templates, which are in the order in which they are injected.
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
	d := decider{request: r, templates: templates}
	d.off, d.ignores = d.ofRequest()
	d.step(Step{Rule: "request", Input: cmp.Or(d.off.why, "CREATE of a pod"), Result: cmp.Or(string(d.off.code), "goes on")})
	if d.off.code != reason.NotAPodCreation {
		d.readAnnotations()
	}
	if !d.result.Deny {
		d.result.Code, d.result.Why = d.off.code, d.off.why
	}
	verdicts := d.judgeAll()
	d.warn(verdicts)
	for _, v := range verdicts {
		d.conclude(v)
	}
	return d.result
}

// decider decides about one request.
type decider struct {
	request   Request
	templates []Template
	// pod and namespace are what the annotations say. The pod's "true" is in the namespace's.
	pod, namespace Ask
	// off is why all templates are taken off that nothing else asks for.
	off     rule
	ignores ignored
	result  Decision
	// offered are the names that the pod may ask for, and hints is for how many names the nearest was looked for.
	offered []string
	hints   int
}

// rule is a rule about all templates.
type rule struct {
	code reason.Code
	why  string
}

// ignored says what does not count for a request.
type ignored int

const (
	ignoresNothing ignored = iota
	ignoresAnnotations
	// ignoresAll: neither annotations nor required templates count.
	ignoresAll
)

// ofRequest returns the rule that no annotation can change.
func (d *decider) ofRequest() (rule, ignored) {
	r := d.request
	_, mirror := r.PodAnnotations[mirrorAnnotation]
	switch {
	case r.Operation != "CREATE" || r.Subresource != "":
		return rule{reason.NotAPodCreation, "operation " + r.Operation + " on " + strings.TrimSuffix("pods/"+r.Subresource, "/")}, ignoresAll
	case r.Excluded:
		return rule{reason.NamespaceExcluded, fmt.Sprintf("namespace %q is excluded by the cluster's admin", r.Namespace)}, ignoresAll
	case r.Disabled:
		return rule{reason.NamespaceDisabled, fmt.Sprintf("namespace %q is switched off by its label %s=disabled", r.Namespace, r.InjectionKey)}, ignoresAll
	case !mirror:
		return rule{}, ignoresNothing
	case r.FromNode || !slices.ContainsFunc(d.templates, func(t Template) bool { return t.Required }):
		return rule{reason.MirrorPod, "the pod mirrors a static pod of a node (" + mirrorAnnotation + "), which cannot be changed"}, ignoresAll
	}
	// No node sent the pod, so it mirrors nothing. The annotation alone must not keep required templates out.
	return rule{reason.MirrorPod, "the pod says that it mirrors a static pod of a node (" + mirrorAnnotation + "), and no node sent it: it gets what is required, and nothing else"}, ignoresAnnotations
}

// readAnnotations reads what the pod and its namespace ask for. A pod that says for itself does not depend on
// the namespace's annotation.
func (d *decider) readAnnotations() {
	pod, podErr := d.ask(d.request.PodAnnotations, Pod)
	ns, nsErr := d.ask(d.request.NamespaceAnnotations, Namespace)
	speaks := pod.Mode == Out || pod.Mode == Names
	switch {
	case d.ignores != ignoresNothing:
		if podErr != nil || nsErr != nil && !speaks || pod.asks() || pod.Mode != Out && ns.asks() {
			d.result.Warnings = append(d.result.Warnings, d.off.code.Warning(fmt.Sprintf("nothing is injected, whatever %s says: %s", d.request.InjectKey, d.off.why)))
		}
	case podErr != nil:
		d.refuse(Pod, podErr)
	case nsErr != nil && !speaks:
		d.refuse(Namespace, nsErr)
	case pod.Mode == Out:
		d.pod, d.off = pod, rule{reason.PodOptedOut, "the pod says " + d.request.InjectKey + `: "false"`}
	case pod.Mode == Default && ns.Mode != Names:
		d.namespace = pod
	default:
		d.pod, d.namespace = pod, ns
		if ns.Mode == Out && pod.Mode != Names {
			d.off = rule{reason.NamespaceOptedOut, fmt.Sprintf("namespace %q says %s: \"false\"", d.request.Namespace, d.request.InjectKey)}
		}
	}
}

func (d *decider) ask(annotations map[string]string, level Level) (Ask, error) {
	value, present := annotations[d.request.InjectKey]
	ask, err := ParseAsk(value, present, level)
	input, result := "no annotation "+d.request.InjectKey, ask.Mode.String()
	if present {
		input = fmt.Sprintf("%s: %s", d.request.InjectKey, show.Value(value))
	}
	if err != nil {
		result = string(reason.BadAnnotation) + ": " + err.Error()
	}
	d.step(Step{Level: level, Rule: string(level) + " says", Input: input, Result: result})
	return ask, err
}

// refuse refuses the pod for an annotation. What is required of the pod does not depend on it.
func (d *decider) refuse(level Level, err error) {
	value, of := d.request.PodAnnotations[d.request.InjectKey], ""
	if level == Namespace {
		value, of = d.request.NamespaceAnnotations[d.request.InjectKey], fmt.Sprintf(" of namespace %q", d.request.Namespace)
	}
	d.off, d.ignores = rule{}, ignoresAnnotations
	d.result.Code, d.result.Deny = reason.BadAnnotation, true
	d.result.Why = fmt.Sprintf("annotation %s%s: %s: %v", d.request.InjectKey, of, show.Value(value), err)
}

// judgeAll decides about each template that something concerns, and about the names behind them that no
// template has.
func (d *decider) judgeAll() []verdict {
	var verdicts []verdict
	for i := range d.templates {
		if v := d.judge(&d.templates[i]); d.request.Explain || v.cause != "" || v.late || v.excepted {
			v.place = i
			verdicts = append(verdicts, v)
		}
	}
	names := slices.Concat(d.namespace.Names, d.pod.Names, d.pod.Plus)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		known := slices.ContainsFunc(d.templates, func(t Template) bool { return t.Name == name })
		if v := d.judge(&Template{Name: name}); !known && v.isWanted() {
			v.unknown = true
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

// warn warns of annotations that probably do not mean what they do.
func (d *decider) warn(verdicts []verdict) {
	key := d.request.InjectKey
	warn := func(text string) { d.result.Warnings = append(d.result.Warnings, text) }
	if d.namespace.Mode == Default && d.pod.Mode != Names && !slices.ContainsFunc(d.templates, func(t Template) bool { return t.InjectByDefault }) {
		warn(reason.NoDefaultTemplates.Warning(fmt.Sprintf("%s is \"true\", and %s; name a template: %s", key, reason.NoDefaultTemplates.Sentence(), d.listTemplates())))
	}
	var lost []string
	for _, v := range verdicts {
		if v.cause == replaced && !v.Required {
			lost = append(lost, v.Name)
		}
	}
	if len(lost) > 0 && !verdicts[len(verdicts)-1].unknown { // a list that cannot be had is no advice
		warn(fmt.Sprintf("the pod's list replaces the namespace's, so the pod goes without %s; to add to the namespace's list: %s: %q",
			strings.Join(lost, ", "), key, "+"+strings.Join(d.pod.Names, ",+")))
	}
	for _, name := range d.pod.Minus {
		i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.Name == name })
		switch {
		case i < 0:
			warn(reason.UnknownTemplate.Warning(fmt.Sprintf("the pod removes %q, but %s", name, d.unknown(name))))
		case verdicts[i].required:
			warn(fmt.Sprintf("the pod removes %q, which is required here and is injected anyway", name))
		}
	}
}

// conclude adds a template to the decision: as one to inject, or as an exclusion.
func (d *decider) conclude(v verdict) {
	why, asked := v.sentence(d.request), v.asked || v.required
	switch {
	case v.unknown:
		d.exclude(v, Exclusion{Code: reason.UnknownTemplate, Asked: true, Deny: true, Why: fmt.Sprintf("%s (annotation %s), but %s", why, d.request.InjectKey, d.unknown(v.Name))})
	case v.isWanted() && v.Suspended && v.Namespaced:
		d.exclude(v, Exclusion{Code: reason.Suspended, Asked: asked, Why: fmt.Sprintf("%s, but the NamespacedSidecarTemplate %s/%s is suspended; its spec.suspend has to become false", why, d.request.Namespace, v.Name)})
	case v.isWanted() && v.Suspended:
		d.exclude(v, Exclusion{Code: reason.Suspended, Asked: asked, Why: why + ", but the cluster's admin has suspended it"})
	case v.isWanted() && !v.Available:
		d.exclude(v, Exclusion{Code: reason.NotAllowedHere, Asked: asked, Deny: asked, Why: fmt.Sprintf("%s, but it is not available to namespace %q (spec.availableTo)", why, d.request.Namespace)})
	case v.isWanted() && v.Broken != nil: // a pod that the template matches counts like a pod that names the template
		d.exclude(v, Exclusion{Code: reason.TemplateBroken, Asked: true, Deny: !v.SkipBroken, Why: fmt.Sprintf("%s, but no good version of it is known: %v", why, v.Broken)})
	case v.isWanted():
		d.inject(v, why)
	case v.late && !v.Suspended && v.Broken == nil && v.Available:
		d.result.Inject = append(d.result.Inject, Choice{Template: v.Name, Place: v.place, Late: true})
	case v.excepted:
		d.exclude(v, Exclusion{Code: reason.Excepted, Why: v.Exception.Why, Exception: v.Exception.Name, Asked: true})
	case v.cause == takenOff:
		d.exclude(v, Exclusion{Code: reason.PodOptedOut, Why: why})
	case v.cause == replaced:
		d.exclude(v, Exclusion{Code: reason.Replaced, Why: why})
	case d.request.Explain && d.off.code != "":
		d.exclude(v, Exclusion{Code: d.off.code, Why: d.off.why})
	case d.request.Explain && !d.result.Deny:
		d.exclude(v, Exclusion{Code: reason.NotRequested, Why: reason.NotRequested.Sentence()})
	}
}

func (d *decider) exclude(v verdict, o Exclusion) {
	o.Template = v.Name
	d.result.Exclusions = append(d.result.Exclusions, o)
	d.step(Step{Template: o.Template, Rule: "template " + o.Template, Input: o.Why, Result: string(o.Code)})
}

func (d *decider) inject(v verdict, why string) {
	if v.Required && !d.result.Deny {
		d.result.Code, d.result.Why = "", ""
	}
	d.result.Inject = append(d.result.Inject, Choice{Template: v.Name, Place: v.place, Asked: v.asked, Required: v.required})
	if v.excepted {
		why += "; it is not required of the pod, which is excepted"
	}
	d.step(Step{Template: v.Name, Rule: "template " + v.Name, Input: why, Result: "conditions and parameters are checked next"})
}

// step adds a rule for a request that says Explain.
func (d *decider) step(s Step) {
	if d.request.Explain {
		d.result.Steps = append(d.result.Steps, s)
	}
}

// maxHints is for how many names of an annotation the nearest template is looked for: it takes
// time, and a tenant may write many.
const maxHints = 5

// unknown says that no template has a name, and what to ask for.
func (d *decider) unknown(name string) string {
	if stable, ok := d.request.Canaries[name]; ok {
		return fmt.Sprintf("%s is a canary, which cannot be asked for; ask for %q, and the canary's share and selectors choose the version", show.Value(name), stable)
	}
	list, near := d.listTemplates(), wordMeant(name)
	if near == "" && d.hints < maxHints {
		d.hints++
		near, _ = nearest.Name(name, d.offered)
	}
	if near != "" {
		near = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Sprintf("there is no template %s%s; there are: %s", show.Value(name), near, list)
}

// listTemplates names the templates that a team could ask for in this namespace.
func (d *decider) listTemplates() string {
	if d.offered == nil {
		d.offered = []string{}
		for _, t := range d.templates {
			if !t.Suspended && t.Available {
				d.offered = append(d.offered, t.Name)
			}
		}
		slices.Sort(d.offered)
	}
	if len(d.offered) == 0 {
		return "none"
	}
	return show.Some(d.offered, 8)
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Request is the creation of one pod, with the facts that decide about it.
type Request struct {
	// Operation and Subresource are the admission request's.
	Operation, Subresource string
	// FromNode is set if a node (a kubelet) sent the request.
	FromNode bool

	// PodAnnotations and PodLabels are the base pod's.
	PodAnnotations, PodLabels map[string]string
	// RequiredPodLabels are the labels that required templates match. They may be more than PodLabels: a pod's
	// record can hide a label from PodLabels, and a record can be forged.
	RequiredPodLabels map[string]string
	Namespace         NamespaceMetadata

	// Canaries has the stable template of each canary, by the canary's name. Pods cannot request a canary.
	Canaries map[string]string

	// Explain requests Steps, and an exclusion for each template that is not injected.
	Explain bool
}

// NamespaceMetadata is the part of a namespace that the decision reads.
type NamespaceMetadata struct {
	Name                string
	Labels, Annotations map[string]string
	// Excluded is set if the admin excludes the namespace from injection.
	Excluded bool
	// Disabled is set if the namespace's own label disables injection.
	Disabled bool
}

// Exclusion is a template that is not injected, with the reason.
type Exclusion struct {
	Template string
	Code     reason.Code
	// Why is a sentence with the rule and its input.
	Why string
	// Exception names the exception that exempts the pod, "" for none.
	Exception string
	// Requested is set if somebody requested the template. Its absence then causes a warning.
	Requested bool
	// Deny is set if the pod must be refused: it or its namespace requests a template that it cannot have. A
	// warning would be lost if a controller creates the pod; a refusal shows in the workload's events.
	Deny bool
}

// Step is one rule of the decision, for `pillion explain`. Rule, Input and Result
// are sentences for people.
type Step struct {
	// Template is the template that the rule decides about, or "".
	Template string `json:"-"`
	// Level is the object whose annotation the rule reads, or "".
	Level  Level  `json:"-"`
	Rule   string `json:"rule"`
	Input  string `json:"input"`
	Result string `json:"result"`
}

// Choice is a template to render.
type Choice struct {
	Template string
	// Place is its index among the templates passed to [Decide].
	Place int
	// Requested is set if an annotation requests it, by name or by "true".
	Requested bool
	// Required is set if it is required of the pod.
	Required bool
	// Late is set if nothing requests the template, and its match selects the namespace but not the pod. It is
	// injected only if another template sets the label that it selects.
	Late bool
}

// Decision has the templates to inject, and the reasons for the others.
type Decision struct {
	// Code is set if one rule decides about the whole pod: an excluded namespace, a mirror pod, an invalid
	// annotation, an opt-out.
	Code reason.Code
	Why  string
	// Deny is set if the pod must be refused because of an annotation.
	Deny bool
	// Inject has the templates to render, in the order of injection. For a refused pod it has the required
	// ones, because a final pod is still compared with them.
	Inject []Choice
	// Exclusions are the templates that are requested, match, or are removed by the pod's annotation, and that
	// are not injected. They are in the order of the templates, and unknown names come last. A request that
	// says Explain gets an exclusion for every template that is not injected.
	Exclusions []Exclusion
	Warnings   []string
	// Steps is nil unless the request says Explain.
	Steps []Step
}

// Count returns the number of templates that are injected whatever the other templates do.
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

// Decide chooses among templates, which are in the order of injection.
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
	verdicts := d.decideTemplates()
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
	// pod and namespace are the parsed annotations. A pod's "true" is stored in namespace.
	pod, namespace Annotation
	// off is the rule that excludes all templates that nothing else requests.
	off     rule
	ignores ignored
	result  Decision
	// offered are the names that the pod may request. hints is the number of names for which the nearest was
	// computed.
	offered []string
	hints   int
}

// rule is a rule about all templates.
type rule struct {
	code reason.Code
	why  string
}

// ignored is the part of the rules that a request ignores.
type ignored int

const (
	ignoresNothing ignored = iota
	ignoresAnnotations
	// ignoresAll: neither annotations nor required templates count.
	ignoresAll
)

// ofRequest returns the rule that no annotation can override.
func (d *decider) ofRequest() (rule, ignored) {
	r := d.request
	_, mirror := r.PodAnnotations[mirrorAnnotation]
	switch {
	case r.Operation != "CREATE" || r.Subresource != "":
		return rule{reason.NotAPodCreation, fmt.Sprintf(otherOperation, r.Operation, strings.TrimSuffix("pods/"+r.Subresource, "/"))}, ignoresAll
	case r.Namespace.Excluded:
		return rule{reason.NamespaceExcluded, fmt.Sprintf(excludedNamespace, r.Namespace.Name)}, ignoresAll
	case r.Namespace.Disabled:
		return rule{reason.NamespaceDisabled, fmt.Sprintf(disabledNamespace, r.Namespace.Name)}, ignoresAll
	case !mirror:
		return rule{}, ignoresNothing
	case r.FromNode || !slices.ContainsFunc(d.templates, func(t Template) bool { return t.Required }):
		return rule{reason.MirrorPod, mirrorPod}, ignoresAll
	}
	// No node sent the pod, so it mirrors nothing. The annotation alone must not exclude required templates.
	return rule{reason.MirrorPod, forgedMirrorPod}, ignoresAnnotations
}

// readAnnotations parses the annotations of the pod and its namespace. It ignores the namespace's annotation if
// the pod's annotation replaces it.
func (d *decider) readAnnotations() {
	pod, podErr := d.parseAnnotation(d.request.PodAnnotations, Pod)
	ns, nsErr := d.parseAnnotation(d.request.Namespace.Annotations, Namespace)
	speaks := pod.Mode == Out || pod.Mode == Names
	switch {
	case d.ignores != ignoresNothing:
		if podErr != nil || nsErr != nil && !speaks || pod.requestsAny() || pod.Mode != Out && ns.requestsAny() {
			d.result.Warnings = append(d.result.Warnings, d.off.code.Warning(fmt.Sprintf(nothingInjected, d.off.why)))
		}
	case podErr != nil:
		d.refuse(podErr)
	case nsErr != nil && !speaks:
		d.refuse(nsErr)
	case pod.Mode == Out:
		d.pod, d.off = pod, rule{reason.PodOptedOut, podOptedOut}
	case pod.Mode == Default && ns.Mode != Names:
		d.namespace = pod
	default:
		d.pod, d.namespace = pod, ns
		if ns.Mode == Out && pod.Mode != Names {
			d.off = rule{reason.NamespaceOptedOut, fmt.Sprintf(namespaceOptedOut, d.request.Namespace.Name)}
		}
	}
}

func (d *decider) parseAnnotation(annotations map[string]string, level Level) (Annotation, error) {
	value, present := annotations[v1alpha1.InjectKey]
	ask, err := ParseAnnotation(value, present, level)
	input, result := noAnnotation, ask.Mode.String()
	if present {
		input = v1alpha1.InjectKey + ": " + show.Value(value)
	}
	if err != nil {
		result = string(reason.BadAnnotation) + ": " + err.Error()
		err = invalidAnnotation(level, d.request.Namespace.Name, value, err)
	}
	d.step(Step{Level: level, Rule: string(level) + " says", Input: input, Result: result})
	return ask, err
}

// refuse refuses the pod because of an annotation. Required templates still apply.
func (d *decider) refuse(err error) {
	d.off, d.ignores = rule{}, ignoresAnnotations
	d.result.Code, d.result.Deny = reason.BadAnnotation, true
	d.result.Why = err.Error()
}

// decideTemplates decides about each template that is requested, matches or is excluded by name, and then about
// names without a template.
func (d *decider) decideTemplates() []verdict {
	var verdicts []verdict
	for i := range d.templates {
		if v := d.decideTemplate(&d.templates[i]); d.request.Explain || v.cause != "" || v.late || v.excepted {
			v.place = i
			verdicts = append(verdicts, v)
		}
	}
	names := slices.Concat(d.namespace.Names, d.pod.Names, d.pod.Plus)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		known := slices.ContainsFunc(d.templates, func(t Template) bool { return t.Name == name })
		if v := d.decideTemplate(&Template{Name: name}); !known && v.isWanted() {
			v.unknown = true
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

// warn adds warnings for annotations that are likely mistakes.
func (d *decider) warn(verdicts []verdict) {
	warn := func(text string) { d.result.Warnings = append(d.result.Warnings, text) }
	if d.namespace.Mode == Default && d.pod.Mode != Names && !slices.ContainsFunc(d.templates, func(t Template) bool { return t.InjectByDefault }) {
		warn(reason.NoDefaultTemplates.Warning(fmt.Sprintf(noDefaults, reason.NoDefaultTemplates.Sentence(), d.listTemplates())))
	}
	var lost []string
	for _, v := range verdicts {
		if v.cause == replaced && !v.Required {
			lost = append(lost, v.Name)
		}
	}
	if len(lost) > 0 && !verdicts[len(verdicts)-1].unknown { // a list with an unknown name is no advice
		warn(listReplaced(lost, d.pod.Names))
	}
	for _, name := range d.pod.Minus {
		i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.Name == name })
		switch {
		case i < 0:
			warn(reason.UnknownTemplate.Warning(fmt.Sprintf(removesUnknown, name, d.unknown(name))))
		case verdicts[i].required:
			warn(fmt.Sprintf(removesRequired, name))
		}
	}
}

// conclude adds a template to the decision: as one to inject, or as an exclusion.
func (d *decider) conclude(v verdict) {
	why, asked := v.sentence(d.request), v.requested || v.required
	switch {
	case v.unknown:
		d.exclude(v, Exclusion{Code: reason.UnknownTemplate, Requested: true, Deny: true, Why: fmt.Sprintf(unknownName, why, d.unknown(v.Name))})
	case v.isWanted() && v.Suspended && v.Namespaced:
		d.exclude(v, Exclusion{Code: reason.Suspended, Requested: asked, Why: fmt.Sprintf(suspendedHere, why, d.request.Namespace.Name, v.Name)})
	case v.isWanted() && v.Suspended:
		d.exclude(v, Exclusion{Code: reason.Suspended, Requested: asked, Why: fmt.Sprintf(suspendedByAdmin, why)})
	case v.isWanted() && !v.Available:
		d.exclude(v, Exclusion{Code: reason.NotAllowedHere, Requested: asked, Deny: asked, Why: fmt.Sprintf(notAvailable, why, d.request.Namespace.Name)})
	case v.isWanted() && v.Broken != nil: // a match counts as a request
		d.exclude(v, Exclusion{Code: reason.TemplateBroken, Requested: true, Deny: !v.SkipBroken, Why: fmt.Sprintf(brokenTemplate, why, v.Broken)})
	case v.isWanted():
		d.inject(v, why)
	case v.late && !v.Suspended && v.Broken == nil && v.Available:
		d.result.Inject = append(d.result.Inject, Choice{Template: v.Name, Place: v.place, Late: true})
	case v.excepted:
		d.exclude(v, Exclusion{Code: reason.Excepted, Why: v.Exception.Why, Exception: v.Exception.Name, Requested: true})
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
	d.result.Inject = append(d.result.Inject, Choice{Template: v.Name, Place: v.place, Requested: v.requested, Required: v.required})
	if v.excepted {
		why = fmt.Sprintf(exceptedPod, why)
	}
	d.step(Step{Template: v.Name, Rule: "template " + v.Name, Input: why, Result: checkedNext})
}

// step adds a step if the request says Explain.
func (d *decider) step(s Step) {
	if d.request.Explain {
		d.result.Steps = append(d.result.Steps, s)
	}
}

// maxHints bounds the names of an annotation for which the nearest template is computed: that takes time, and a
// tenant may write many.
const maxHints = 5

// unknown returns the message for a name without a template, with the names that can be requested.
func (d *decider) unknown(name string) string {
	if stable, ok := d.request.Canaries[name]; ok {
		return fmt.Sprintf(canaryName, show.Value(name), stable)
	}
	list, near := d.listTemplates(), wordMeant(name)
	if near == "" && d.hints < maxHints {
		d.hints++
		near, _ = nearest.Name(name, d.offered)
	}
	if near != "" {
		near = fmt.Sprintf(nearName, near)
	}
	return fmt.Sprintf(noTemplate, show.Value(name), near, list)
}

// listTemplates returns the names of the templates that can be requested in this namespace.
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

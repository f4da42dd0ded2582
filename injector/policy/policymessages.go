package policy

import (
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// The errors of an annotation's value. Each ends in a text of allowed, or in a remedy.
	emptyValue      = "must not be empty; %s"
	tooManyNames    = "it lists %d names; at most %d are allowed"
	addedAndRemoved = "it both adds and removes %q; use one of the two"
	relativeItem    = "%s is relative, which only a pod's annotation may be; %s"
	wordInList      = "%q cannot be part of a list; %s"
	notAName        = "%s is not a template name (a DNS label); %s%s"
	mixedNames      = "it mixes names with +names and -names; %s"

	// The rules about all templates.
	otherOperation    = "operation %s on %s"
	excludedNamespace = "namespace %q is excluded by the cluster's admin"
	disabledNamespace = "namespace %q is switched off by its label " + v1alpha1.InjectionLabel + "=disabled"
	mirrorPod         = "the pod mirrors a static pod of a node (" + mirrorAnnotation + "), which cannot be changed"
	forgedMirrorPod   = "the pod claims to mirror a static pod of a node (" + mirrorAnnotation + "), but no node sent it: only required templates are injected"
	podOptedOut       = "the pod says " + v1alpha1.InjectKey + `: "false"`
	namespaceOptedOut = "namespace %q says " + v1alpha1.InjectKey + `: "false"`

	// The rules about one template.
	matching    cause = "it matches this pod by its labels and namespace"
	ofNamespace cause = "the namespace asks for it"
	byDefault   cause = "it is injected by default"
	ofPod       cause = "the pod asks for it"
	added       cause = "the pod adds it"
	required    cause = "it is required here"
	takenOff    cause = "the pod removes it"
	replaced    cause = "the pod's own list does not name it"

	// The reasons why a wanted template is not injected. Each begins with the sentence of its cause.
	unknownName      = "%s (annotation " + v1alpha1.InjectKey + "), but %s"
	suspendedHere    = "%s, but the NamespacedSidecarTemplate %s/%s is suspended; set its spec.suspend to false"
	suspendedByAdmin = "%s, but the cluster's admin has suspended it"
	notAvailable     = "%s, but it is not available to namespace %q (spec.availableTo)"
	brokenTemplate   = "%s, but no good version of it is known: %v"

	// The answers to a name that no template has, or only a canary.
	canaryName = "%s is a canary, which cannot be requested; request %q: the canary's share and selectors choose the version"
	noTemplate = "there is no template %s%s; there are: %s"
	nearName   = " (did you mean %q?)"

	// The warnings.
	nothingInjected = "nothing is injected, whatever " + v1alpha1.InjectKey + " says: %s"
	noDefaults      = v1alpha1.InjectKey + ` is "true", and %s; name a template: %s`
	removesUnknown  = "the pod removes %q, but %s"
	removesRequired = "the pod removes %q, which is required here and is injected anyway"

	// The inputs and results of steps.
	noAnnotation   = "no annotation " + v1alpha1.InjectKey
	exceptionEnded = "ended: the template is required"
	exceptedPod    = "%s; it is not required of the pod, which is excepted"
	checkedNext    = "conditions and parameters are checked next"
)

// String describes the request of an annotation of this mode, for people.
func (m Mode) String() string {
	return [...]string{"nothing", "the defaults", "nothing but what is required", "these templates", "changes to the namespace's outcome"}[m]
}

// allowed describes the values that an annotation of the level may have.
func allowed(level Level) string {
	if level == Namespace {
		return `allowed are "true", "false" or template names separated by commas`
	}
	return `allowed are "true", "false", template names separated by commas, or changes to the namespace's list such as "+vault,-fluent-bit"`
}

// didYouMean completes notAName.
func didYouMean(text string) string {
	if word := wordMeant(text); word != "" {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

// invalidAnnotation is the refusal of a pod because of its own annotation, or its namespace's.
func invalidAnnotation(level Level, namespace, value string, err error) error {
	of := ""
	if level == Namespace {
		of = fmt.Sprintf(" of namespace %q", namespace)
	}
	return fmt.Errorf("annotation %s%s: %s: %w", v1alpha1.InjectKey, of, show.Value(value), err)
}

// cause is the rule that requests or excludes one template.
type cause string

// sentence describes the rule, with the namespace or the name that it read.
func (v verdict) sentence(r Request) string {
	switch v.cause {
	case ofNamespace:
		return fmt.Sprintf("namespace %q asks for it", r.Namespace.Name)
	case takenOff:
		return fmt.Sprintf("the pod removes it with \"-%s\"", v.Name)
	}
	return string(v.cause)
}

// listReplaced is the warning for a pod whose list loses templates of the namespace's.
func listReplaced(lost, names []string) string {
	return fmt.Sprintf("the pod's list replaces the namespace's, so the pod goes without %s; to add to the namespace's list: %s: %q",
		strings.Join(lost, ", "), v1alpha1.InjectKey, "+"+strings.Join(names, ",+"))
}

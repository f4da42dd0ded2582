package reason

// Code names the reason for an outcome. Codes are part of the product's
// contract: they are label values of metrics and do not change their meaning.
type Code string

// Choice begins the list of alternatives at the end of a sentence. The text before it does not depend on the
// list.
const Choice = "; there are: "

// The outcomes of one template, or of a whole pod.
const (
	// Injected: the template's items are in the pod.
	Injected Code = "Injected"
	// NothingToInject: the template applies, and renders to nothing for this pod.
	NothingToInject Code = "NothingToInject"
	// NotRequested: no annotation requests it, and it does not match.
	NotRequested Code = "NotRequested"
	// Replaced: the namespace requests it, and the pod's own list replaces the namespace's.
	Replaced Code = "Replaced"
	// PodOptedOut: the pod says "false", or removes the template with "-name".
	PodOptedOut Code = "PodOptedOut"
	// NamespaceOptedOut: the namespace says "false".
	NamespaceOptedOut Code = "NamespaceOptedOut"
	// NamespaceExcluded: the admin excludes the namespace.
	NamespaceExcluded Code = "NamespaceExcluded"
	// NamespaceDisabled: the namespace's label pillion.dev/injection is disabled.
	NamespaceDisabled Code = "NamespaceDisabled"
	// MirrorPod: the pod mirrors a static pod of a node and cannot be changed.
	MirrorPod Code = "MirrorPod"
	// NotAPodCreation: the request is not the creation of a pod.
	NotAPodCreation Code = "NotAPodCreation"
	// NoDefaultTemplates: an annotation says "true", and no template is injected by default.
	NoDefaultTemplates Code = "NoDefaultTemplates"
	// ConditionFalse: one of the template's matchConditions is false for this pod.
	ConditionFalse Code = "ConditionFalse"
	// OtherSystem: the template is not for the operating system of the pod.
	OtherSystem Code = "OtherSystem"
	// ValidationFailed: one of the template's validations is false for this pod.
	ValidationFailed Code = "ValidationFailed"
	// NotAllowedHere: the template is not available to this namespace.
	NotAllowedHere Code = "NotAllowedHere"
	// Suspended: the template is suspended, by the cluster's admin or in its namespace.
	Suspended Code = "Suspended"
	// UnknownTemplate: an annotation names a template that does not exist.
	UnknownTemplate Code = "UnknownTemplate"
	// TemplateBroken: there is no good version of the template.
	TemplateBroken Code = "TemplateBroken"
	// BadAnnotation: the inject annotation has an invalid value.
	BadAnnotation Code = "BadAnnotation"
	// BadParameter: a parameter's annotation has a value that the template does not allow, or the template has
	// no such parameter.
	BadParameter Code = "BadParameter"
	// Conflict: the pod and a template, or two templates, disagree on a field.
	Conflict Code = "Conflict"
	// TemplateTooExpensive: rendering exceeds the bound on cost, size or time.
	TemplateTooExpensive Code = "TemplateTooExpensive"
	// RenderFailed: an expression of the template fails for this pod.
	RenderFailed Code = "RenderFailed"
	// Excepted: the template is required, and an exception exempts the pod for a time.
	Excepted Code = "Excepted"
	// TemplateInvalid: a SidecarTemplate has mistakes and is refused.
	TemplateInvalid Code = "TemplateInvalid"
	// TemplateInUse: a SidecarTemplate that namespaces request may not be deleted.
	TemplateInUse Code = "TemplateInUse"
	// RequiredMissing: the final pod differs from a required template.
	RequiredMissing Code = "RequiredMissing"
	// LabelNotWritten: an API server keeps refusing a label of the namespace.
	LabelNotWritten Code = "LabelNotWritten"
	// JobNeverFinishes: an injected container keeps running after the Job's work.
	JobNeverFinishes Code = "JobNeverFinishes"
	// UntrueLabel: a label of the pod claims an injection that did not happen.
	UntrueLabel Code = "UntrueLabel"
	// InternalError: Pillion itself failed.
	InternalError Code = "InternalError"
)

// The types of events, as Kubernetes names them.
const (
	warning = "Warning"
	normal  = "Normal"
)

// table has the sentence of each code, and the type of its events. The type is Warning if a pod was refused or
// lacks a requested sidecar, or if something needs repair. It is empty for codes without events.
var table = map[Code]struct{ sentence, event string }{
	Injected:             {"the template's items are in the pod", ""},
	NothingToInject:      {"the template renders to nothing for this pod", normal},
	NotRequested:         {"nothing asks for it: neither the pod nor the namespace names it, and it does not match by itself", ""},
	Replaced:             {"the pod's own list replaces the namespace's", ""},
	PodOptedOut:          {"the pod opts out", ""},
	NamespaceOptedOut:    {"the namespace opts out", ""},
	NamespaceExcluded:    {"the cluster's admin excludes this namespace", warning},
	NamespaceDisabled:    {"the namespace is switched off by its label", warning},
	MirrorPod:            {"mirror pods of static pods cannot be changed", warning},
	NotAPodCreation:      {"only the creation of pods is changed", ""},
	NoDefaultTemplates:   {"no template is injected by default", warning},
	ConditionFalse:       {"a matchCondition of the template is false for this pod", warning},
	OtherSystem:          {"the template is not for the pod's operating system", warning},
	ValidationFailed:     {"a validation of the template is false for this pod", warning},
	NotAllowedHere:       {"the template is not available to this namespace", warning},
	Suspended:            {"the template is suspended", warning},
	UnknownTemplate:      {"no template has that name", warning},
	TemplateBroken:       {"the template is broken and no good version of it is known", warning},
	BadAnnotation:        {"the annotation is not valid", warning},
	BadParameter:         {"a parameter has a value that the template does not allow, or does not exist", warning},
	Conflict:             {"the pod and a template disagree on a field", warning},
	TemplateTooExpensive: {"rendering the template exceeds a limit", warning},
	RenderFailed:         {"an expression of the template fails for this pod", warning},
	Excepted:             {"the template is required, and an exception lets the pod go without it for a time", normal},
	TemplateInvalid:      {"the template has mistakes", ""},
	TemplateInUse:        {"the template is required, or namespaces name it", ""},
	RequiredMissing:      {"the pod differs from what a required template renders", warning},
	LabelNotWritten:      {"Pillion cannot write its label of the namespace: somebody else owns it, or the namespace is as large as API servers store", warning},
	JobNeverFinishes:     {"an injected container keeps running when the work of the Job is done, so the Job never finishes", warning},
	UntrueLabel:          {"a label of the pod says that a sidecar is injected that is not", warning},
	InternalError:        {"Pillion itself failed", ""},
}

// Sentence returns the code's meaning as half a sentence, without a full stop.
func (c Code) Sentence() string {
	if row, ok := table[c]; ok {
		return row.sentence
	}
	return string(c)
}

// EventType returns the type of the events with this reason, "" if the reason causes no events.
func (c Code) EventType() string { return table[c].event }

// Codes returns all codes, in no particular order.
func Codes() []Code {
	codes := make([]Code, 0, len(table))
	for c := range table {
		codes = append(codes, c)
	}
	return codes
}

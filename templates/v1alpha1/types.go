package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SidecarTemplate is something that Pillion can inject into pods: a fragment of a pod
// with CEL expressions in ${…}. It has the parameters that teams may set by annotation,
// and the rules that say which pods get it. It is cluster-scoped.
// Its name is a DNS label, because it names the parameter annotations.
type SidecarTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is injected, and where.
	Spec SidecarTemplateSpec `json:"spec"`
	// Status is what Pillion found when it compiled the spec. Absent in files.
	Status SidecarTemplateStatus `json:"status,omitzero"`
}

// SidecarTemplateSpec says what is injected, and where.
type SidecarTemplateSpec struct {
	// Description tells a team in one sentence what it gets.
	Description string `json:"description,omitempty"`
	// InjectByDefault makes the template part of what the annotation
	// pillion.dev/inject: "true" means. Default false.
	InjectByDefault bool `json:"injectByDefault,omitempty"`
	// Order places the template among others, the same for every pod: lower
	// first, ties by name. Default 0.
	Order int32 `json:"order,omitempty"`
	// Suspend stops injection everywhere: a pod that asks for the template is
	// admitted without it, with a warning. Default false.
	Suspend bool `json:"suspend,omitempty"`
	// AvailableTo limits who may ask for the template. Default: everyone.
	AvailableTo *AvailableTo `json:"availableTo,omitempty"`
	// Match injects the template into the pods it selects, without any
	// annotation. Default: only into pods that ask for it.
	Match *Match `json:"match,omitempty"`
	// Required, which needs match, means that pods cannot opt out, and that the
	// final pod is compared with what the template renders. Default false.
	Required bool `json:"required,omitempty"`
	// Verify says what the sidecars may have in the final pod, besides what the
	// template renders. Default: nothing. Only with required.
	Verify *Verify `json:"verify,omitempty"`
	// Exceptions let pods go without the template for a time, as if it were neither
	// required nor matching. A pod that asks for it still gets it. They change no hash. Only with
	// required.
	Exceptions []Exception `json:"exceptions,omitempty"`
	// Overridable lets a pod's author declare a container of the sidecar's name,
	// whose fields then win. Default false: such a pod conflicts.
	Overridable bool `json:"overridable,omitempty"`
	// MatchConditions must all be true for a pod to be injected.
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
	// Validations must all be true for a pod that gets the template. A pod for which
	// one is false is refused. They are not evaluated on the sample pods of lint.
	Validations []Validation `json:"validations,omitempty"`
	// Parameters are what teams may set by annotation.
	Parameters []Parameter `json:"parameters,omitempty"`
	// Variables are expressions that others read as variables.NAME. Each sees
	// those before it, and is evaluated at most once for a pod, when first read. One
	// that reads container, itself or through another, can be read only in an item with
	// $each. It is evaluated at most once for each container.
	Variables []Variable `json:"variables,omitempty"`
	// Files are texts with CEL in ${…}, by the name of the file. Pillion puts them into
	// annotations of the pod, and gives the pod the volume TEMPLATE-files that has them, for
	// containers to mount. Not for secrets: who reads pods, reads annotations. Not with
	// required.
	Files map[string]string `json:"files,omitempty"`
	// OnConflict says what happens where a pod and the template want different
	// values. Two templates that disagree are refused, whatever it says. Default
	// Deny.
	OnConflict ConflictPolicy `json:"onConflict,omitempty"`
	// PodResources says what happens to the pod's own spec.resources, if it has some.
	// Default Add.
	PodResources PodResourcesPolicy `json:"podResources,omitempty"`
	// ContainerSecurity is Restricted, or nothing. Restricted completes the securityContext of each
	// container that the template adds, for the Pod Security level restricted. It adds
	// allowPrivilegeEscalation: false, capabilities.drop: [ALL], runAsNonRoot: true and
	// seccompProfile RuntimeDefault. What the template or the pod's own securityContext says stays.
	ContainerSecurity ContainerSecurity `json:"containerSecurity,omitempty"`
	// OnError says what a failure of this template does to a pod. Default Deny.
	OnError ErrorPolicy `json:"onError,omitempty"`
	// AllowUnknownFields lets pod fields through that are newer than this build
	// of Pillion. Default false: they are errors.
	AllowUnknownFields bool `json:"allowUnknownFields,omitempty"`
	// OS lists the operating systems whose pods get the template: linux, windows. A pod's system
	// is spec.os.name, else its node selector kubernetes.io/os, else linux. Default [linux].
	OS []OperatingSystem `json:"os,omitempty"`
	// Canary makes the template a canary of another one. The pods that it selects get this
	// template in place of the other, under the other's name. It then has no match, availableTo,
	// required, injectByDefault, order, suspend or exceptions of its own: those of the other hold.
	Canary *Canary `json:"canary,omitempty"`
	// Inject is the fragment of a pod: metadata.labels, metadata.annotations and
	// spec, with CEL in ${…} and directives in keys that begin with $.
	Inject json.RawMessage `json:"inject"`
}

// AvailableTo selects the namespaces that may ask for a template.
type AvailableTo struct {
	// NamespaceSelector selects namespaces by label. Default: every namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// Match selects pods that get a template without asking. Both selectors must
// select; one that is absent selects everything.
type Match struct {
	// NamespaceSelector selects the pod's namespace by label.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects the pod by label.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// Canary names the template that a canary stands in for, and selects the pods. Both selectors must
// select; one that is absent selects everything.
type Canary struct {
	// Of is the name of the stable template. It is no canary itself.
	Of string `json:"of"`
	// Percent is the share of workloads that get the canary, 0 to 100, among the pods that the
	// selectors select. The names of the namespace and the workload decide, with its kind: its pods
	// agree. A larger percentage keeps the workloads of a smaller one.
	// Default 100 with a selector, 0 without one.
	Percent *int32 `json:"percent,omitempty"`
	// NamespaceSelector selects the pod's namespace by label.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects the pod by label.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// Exception lets pods go without a required template until a time. Both selectors must
// select, and at least one of them must require something.
type Exception struct {
	// Name tells exceptions of one template apart in warnings and metrics. It is a DNS
	// label.
	Name string `json:"name"`
	// NamespaceSelector selects the pod's namespace by label. Default: every namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects the pod by label. Default: every pod. The author
	// of a pod chooses its labels.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// Until is when the exception ends, as RFC 3339 has it: 2027-03-31T00:00:00Z. A pod that
	// is created at that time is no longer excepted.
	Until string `json:"until"`
	// Reason says why there is the exception. The warning about an excepted workload has it.
	Reason string `json:"reason"`
}

// Verify says what the sidecars of a required template may have in the final pod,
// besides what the template renders. It needs images or allow.
type Verify struct {
	// Images are patterns for the sidecars' images, in which * stands for any text
	// without /, and ** for any text. A sidecar has the image that the template
	// renders, or one that matches.
	Images []string `json:"images,omitempty"`
	// Allow says what other webhooks may add to the sidecars or change in them, and where
	// other containers may mount beside the template. Default: nothing.
	Allow *Allow `json:"allow,omitempty"`
}

// Allow lists what other webhooks may add to the sidecars of a required template
// or change in them, and where other containers may mount beside it.
type Allow struct {
	// Env are names of environment variables, in which * stands for any text.
	Env []string `json:"env,omitempty"`
	// VolumeMounts are the paths of volume mounts, in which * stands for any text
	// without /, and ** for any text. Other containers may mount there too, below a mount
	// of the template and from its volumes.
	VolumeMounts []string `json:"volumeMounts,omitempty"`
	// Resources lets them change requests and limits, LimitRanges and resizes
	// included. Default false.
	Resources bool `json:"resources,omitempty"`
	// Probes lets them change the three probes, but not to exec. Default false.
	Probes bool `json:"probes,omitempty"`
	// Exec lets kubectl exec and attach into the sidecars pass the policy that the command
	// policy prints. Default false.
	Exec bool `json:"exec,omitempty"`
}

// MatchCondition is a CEL expression that must be true for a pod to be injected.
type MatchCondition struct {
	// Name tells conditions of one template apart.
	Name string `json:"name"`
	// Expression is CEL over pod, namespaceObject, params, variables and values,
	// and gives a boolean.
	Expression string `json:"expression"`
	// Message says why pods for which it is false are not injected.
	Message string `json:"message,omitempty"`
}

// Validation is a CEL expression that must be true for a pod that gets the template.
type Validation struct {
	// Name tells validations of one template apart.
	Name string `json:"name"`
	// Expression is CEL over pod, namespaceObject, params, variables and values,
	// and gives a boolean.
	Expression string `json:"expression"`
	// Message says why pods for which it is false are refused, and what to do.
	Message string `json:"message,omitempty"`
	// MessageExpression is CEL that gives the message as text. Where it fails,
	// Message stands for it.
	MessageExpression string `json:"messageExpression,omitempty"`
}

// Parameter is a value that teams may set by the annotation
// TEMPLATE.pillion.dev/NAME, with the name in kebab-case.
type Parameter struct {
	// Name is lowerCamelCase; expressions read it as params.NAME.
	Name string `json:"name"`
	// Description tells a team what the parameter does.
	Description string `json:"description,omitempty"`
	// Type is what the annotation's text must be.
	Type ParameterType `json:"type"`
	// Items is the type of a list's items or a map's values: the name of a scalar
	// type, or a type with constraints. Only for list and map; there it is required.
	Items *Items `json:"items,omitempty"`
	// Default is the value when no annotation sets one. It may be text or of the
	// type's own JSON form.
	Default json.RawMessage `json:"default,omitempty"`
	// Example is a value for documentation, and for test renders where there is
	// no default.
	Example json.RawMessage `json:"example,omitempty"`
	// Required refuses pods for which nothing sets a value. Default false: the
	// parameter is absent then.
	Required bool `json:"required,omitempty"`
	// SetBy lists who may set it. Default Namespace and Pod, or nobody for a
	// required template; an empty list means nobody.
	SetBy       []Level `json:"setBy,omitzero"`
	Constraints `json:",inline"`
}

// Constraints narrow what a value may be. Which of them a type takes depends on it.
type Constraints struct {
	// Enum lists the values that are allowed.
	Enum []json.RawMessage `json:"enum,omitempty"`
	// Pattern is a regular expression (RE2) that the whole value must match.
	// For string and image.
	Pattern string `json:"pattern,omitempty"`
	// Minimum is the least value. For integer, number, quantity and duration.
	Minimum json.RawMessage `json:"minimum,omitempty"`
	// Maximum is the greatest value. For integer, number, quantity and duration.
	Maximum json.RawMessage `json:"maximum,omitempty"`
	// MaxLength is the greatest length in code points. For string, image and json.
	MaxLength *int64 `json:"maxLength,omitempty"`
}

// Items is the type of a list's items or of a map's values.
type Items struct {
	// Type is a scalar type.
	Type        ParameterType `json:"type"`
	Constraints `json:",inline"`
}

// UnmarshalJSON reads the name of a type, or an object with a type and constraints.
func (i *Items) UnmarshalJSON(data []byte) error {
	var name ParameterType
	if json.Unmarshal(data, &name) == nil {
		*i = Items{Type: name}
		return nil
	}
	type plain Items
	return json.Unmarshal(data, (*plain)(i))
}

// ParameterType is the type of a parameter.
type ParameterType string

// The types of parameters. All but list and map are scalar types.
const (
	// String is any text.
	String ParameterType = "string"
	// Integer is a whole number of 64 bits.
	Integer ParameterType = "integer"
	// Number is a decimal number.
	Number ParameterType = "number"
	// Boolean is true or false.
	Boolean ParameterType = "boolean"
	// Quantity is an amount as Kubernetes writes it, such as 64Mi or 100m.
	Quantity ParameterType = "quantity"
	// Duration is a time span such as 1h30m.
	Duration ParameterType = "duration"
	// Image is a reference to a container image.
	Image ParameterType = "image"
	// JSON is any JSON value.
	JSON ParameterType = "json"
	// List is comma separated text.
	List ParameterType = "list"
	// Map gathers the annotations TEMPLATE.pillion.dev/NAME.KEY.
	Map ParameterType = "map"
)

// Level is who may set a parameter.
type Level string

// Who may set a parameter.
const (
	// Namespace is the namespace's annotation.
	Namespace Level = "Namespace"
	// Pod is the pod's annotation, which wins over the namespace's.
	Pod Level = "Pod"
)

// Variable is a named CEL expression.
type Variable struct {
	// Name is how expressions read it: variables.NAME.
	Name string `json:"name"`
	// Expression is CEL of any type.
	Expression string `json:"expression"`
}

// ConflictPolicy says what a clash on one field does.
type ConflictPolicy string

// What a clash on one field does.
const (
	// ConflictDeny refuses the pod, naming template, path and both values.
	ConflictDeny ConflictPolicy = "Deny"
	// ConflictKeepPod keeps the pod's value.
	ConflictKeepPod ConflictPolicy = "KeepPod"
	// ConflictOverwrite takes the template's value.
	ConflictOverwrite ConflictPolicy = "Overwrite"
)

// PodResourcesPolicy says what happens to the resources that a pod has as a whole.
type PodResourcesPolicy string

// What happens to a pod's own spec.resources.
const (
	// PodResourcesAdd adds the sidecars' requests and limits to those that the pod has.
	PodResourcesAdd PodResourcesPolicy = "Add"
	// PodResourcesKeep leaves them. A pod that the API server would refuse then is
	// refused.
	PodResourcesKeep PodResourcesPolicy = "Keep"
)

// ContainerSecurity is a level of Pod Security that sidecars keep to.
type ContainerSecurity string

// SecurityRestricted is the level restricted.
const SecurityRestricted ContainerSecurity = "Restricted"

// ErrorPolicy says what a failure of a template does to a pod.
type ErrorPolicy string

// What a failure of a template does to a pod.
const (
	// ErrorDeny refuses the pod.
	ErrorDeny ErrorPolicy = "Deny"
	// ErrorSkip admits the pod without the template, with a warning.
	ErrorSkip ErrorPolicy = "Skip"
)

// OperatingSystem is the system that a pod's containers are for.
type OperatingSystem string

// The operating systems of Kubernetes' nodes.
const (
	Linux   OperatingSystem = "linux"
	Windows OperatingSystem = "windows"
)

// SidecarTemplateStatus is what Pillion found when it compiled a template.
type SidecarTemplateStatus struct {
	// ObservedGeneration is the metadata.generation that the rest is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Hash is of what rendering reads of the spec and the installer's values, 16 hex digits:
	// what pods carry and replicas report.
	Hash string `json:"hash,omitempty"`
	// Conditions tell whether the template is usable: the type Ready is True with
	// the reason Compiled, or False with what is wrong as its message. The type Accepted is False
	// if API servers call every sample pod that gets the template invalid.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

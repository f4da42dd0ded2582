package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SidecarTemplate is a fragment of a pod, with CEL expressions in ${…}, that Pillion injects. It declares the
// parameters that teams may set by annotation, and the pods that get it. It is cluster-scoped. Its name is a
// DNS label, because the parameter annotations contain it.
type SidecarTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec has the pod fragment to inject, and selects the pods.
	Spec SidecarTemplateSpec `json:"spec"`
	// Status has the result of compiling the spec. Absent in files.
	Status SidecarTemplateStatus `json:"status,omitzero"`
}

// SidecarTemplateSpec has the pod fragment to inject, its parameters, and the pods that get it.
type SidecarTemplateSpec struct {
	// Description tells a team in one sentence the purpose of the template.
	Description string `json:"description,omitempty"`
	// InjectByDefault adds the template to those that the annotation pillion.dev/inject: "true" injects.
	// Default false.
	InjectByDefault bool `json:"injectByDefault,omitempty"`
	// Order is the template's place among others, the same for every pod: lower first, ties by name. Default 0.
	Order int32 `json:"order,omitempty"`
	// Suspend stops injection everywhere: a pod that requests the template is admitted without it, with a
	// warning. Default false.
	Suspend bool `json:"suspend,omitempty"`
	// AvailableTo selects the namespaces that may request the template. Default: all.
	AvailableTo *AvailableTo `json:"availableTo,omitempty"`
	// Match injects the template into the pods that it selects, without any annotation. Default: only into pods
	// that request it.
	Match *Match `json:"match,omitempty"`
	// Required, which needs match, means that pods cannot opt out, and that the final pod is compared with the
	// rendered template. Default false.
	Required bool `json:"required,omitempty"`
	// Verify allows the final pod's sidecars to differ from the rendered template. Default: no difference. Only
	// with required.
	Verify *Verify `json:"verify,omitempty"`
	// Exceptions exempt pods from the template for a time, as if it were neither required nor matching. A pod
	// that requests it still gets it. Exceptions do not change the hash. Only with required.
	Exceptions []Exception `json:"exceptions,omitempty"`
	// Overridable lets a pod's author declare a container of the sidecar's name. The author's fields then win.
	// Default false: such a pod conflicts.
	Overridable bool `json:"overridable,omitempty"`
	// MatchConditions must all be true for a pod to get the template.
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
	// Validations must all be true for a pod that gets the template, or the pod is refused. Lint does not
	// evaluate them on its sample pods.
	Validations []Validation `json:"validations,omitempty"`
	// Parameters are values that teams may set by annotation.
	Parameters []Parameter `json:"parameters,omitempty"`
	// Variables are named expressions, read as variables.NAME. Each sees the variables before it, and is
	// evaluated at most once for a pod, when first read. A variable that reads container, itself or through
	// another variable, can be read only in an item with $each. It is evaluated at most once for each
	// container.
	Variables []Variable `json:"variables,omitempty"`
	// Files are texts with CEL in ${…}, by file name. Pillion writes them into annotations of the pod, and adds
	// the volume TEMPLATE-files with them for containers to mount. They are not for secrets: everyone who may
	// read pods can read annotations. Not with required.
	Files map[string]string `json:"files,omitempty"`
	// OnConflict decides between the pod's value of a field and the template's. Two templates that disagree are
	// always refused. Default Deny.
	OnConflict ConflictPolicy `json:"onConflict,omitempty"`
	// PodResources decides whether the sidecars' resources are added to the pod's own spec.resources. Default
	// Add.
	PodResources PodResourcesPolicy `json:"podResources,omitempty"`
	// ContainerSecurity is Restricted or empty. Restricted completes the securityContext of each container that
	// the template adds, for the Pod Security level restricted. It adds allowPrivilegeEscalation: false,
	// capabilities.drop: [ALL], runAsNonRoot: true and seccompProfile RuntimeDefault. Fields that the template
	// or the pod's own securityContext sets stay.
	ContainerSecurity ContainerSecurity `json:"containerSecurity,omitempty"`
	// OnError decides whether a pod is refused if this template fails. Default Deny.
	OnError ErrorPolicy `json:"onError,omitempty"`
	// AllowUnknownFields allows pod fields that are newer than this build of Pillion. Default false: they are
	// errors.
	AllowUnknownFields bool `json:"allowUnknownFields,omitempty"`
	// OS lists the operating systems whose pods get the template: linux, windows. A pod's system
	// is spec.os.name, else its node selector kubernetes.io/os, else linux. Default [linux].
	OS []OperatingSystem `json:"os,omitempty"`
	// Canary makes the template a canary of a stable one. The pods that it selects get this template in place
	// of the stable one, under the stable one's name. Its match, availableTo, required, injectByDefault, order,
	// suspend and exceptions are those of the stable template.
	Canary *Canary `json:"canary,omitempty"`
	// Inject is the fragment of a pod: metadata.labels, metadata.annotations and
	// spec, with CEL in ${…} and directives in keys that begin with $.
	Inject json.RawMessage `json:"inject"`
}

// AvailableTo selects the namespaces that may request a template.
type AvailableTo struct {
	// NamespaceSelector selects namespaces by label. Default: every namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// Match selects pods that get a template without a request. Both selectors must select; an absent selector
// selects everything.
type Match struct {
	// NamespaceSelector selects the pod's namespace by label.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects the pod by label.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// Canary names the stable template whose place a canary takes, and selects the pods. Both selectors must
// select; an absent selector selects everything.
type Canary struct {
	// Of is the name of the stable template, which is no canary itself.
	Of string `json:"of"`
	// Percent is the share of workloads that get the canary, 0 to 100, among the pods that the selectors
	// select. It depends on the names of the namespace and the workload and on the workload's kind, so all pods
	// of a workload agree. A larger percentage keeps the workloads of a smaller one. Default 100 with a
	// selector, 0 without one.
	Percent *int32 `json:"percent,omitempty"`
	// NamespaceSelector selects the pod's namespace by label.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects the pod by label.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// Exception exempts pods from a required template until a time. Both selectors must select, and at least one of
// them must have a requirement.
type Exception struct {
	// Name identifies the exception in warnings and metrics. It is a DNS label.
	Name string `json:"name"`
	// NamespaceSelector selects the pod's namespace by label. Default: every namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects the pod by label. Default: every pod. The author
	// of a pod chooses its labels.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// Until is the end of the exception in RFC 3339, such as 2027-03-31T00:00:00Z. A pod that is created at
	// that time is no longer exempt.
	Until string `json:"until"`
	// Reason is shown in the warning about an exempt workload.
	Reason string `json:"reason"`
}

// Verify allows the final pod's sidecars to differ from the rendered template. It needs images or allow.
type Verify struct {
	// Images are patterns for the sidecars' images, in which * matches any text without /, and ** any text. A
	// sidecar has the image of the rendered template, or an image that matches.
	Images []string `json:"images,omitempty"`
	// Allow lists the changes to the sidecars that other webhooks may make, and the paths where other
	// containers may mount beside the template. Default: none.
	Allow *Allow `json:"allow,omitempty"`
}

// Allow lists the changes to the sidecars of a required template that other webhooks may make, and the paths
// where other containers may mount beside it.
type Allow struct {
	// Env are names of environment variables, in which * matches any text.
	Env []string `json:"env,omitempty"`
	// VolumeMounts are the paths of volume mounts, in which * matches any text without /, and ** any text.
	// Other containers may mount there, too, below a mount of the template and from its volumes.
	VolumeMounts []string `json:"volumeMounts,omitempty"`
	// Resources allows changes of requests and limits, also by LimitRanges and resizes. Default false.
	Resources bool `json:"resources,omitempty"`
	// Probes allows changes of the three probes, but not to exec. Default false.
	Probes bool `json:"probes,omitempty"`
	// Exec allows kubectl exec and attach into the sidecars in the policy that the command policy prints.
	// Default false.
	Exec bool `json:"exec,omitempty"`
}

// MatchCondition is a CEL expression that must be true for a pod to be injected.
type MatchCondition struct {
	// Name identifies the condition within the template.
	Name string `json:"name"`
	// Expression is CEL over pod, namespaceObject, params, variables and values,
	// and gives a boolean.
	Expression string `json:"expression"`
	// Message tells why pods are not injected if the expression is false.
	Message string `json:"message,omitempty"`
}

// Validation is a CEL expression that must be true for a pod that gets the template.
type Validation struct {
	// Name identifies the validation within the template.
	Name string `json:"name"`
	// Expression is CEL over pod, namespaceObject, params, variables and values,
	// and gives a boolean.
	Expression string `json:"expression"`
	// Message tells why pods are refused if the expression is false, and what to do.
	Message string `json:"message,omitempty"`
	// MessageExpression is CEL that gives the message as text. If it fails, Message is used.
	MessageExpression string `json:"messageExpression,omitempty"`
}

// Parameter is a value that teams may set by the annotation
// TEMPLATE.pillion.dev/NAME, with the name in kebab-case.
type Parameter struct {
	// Name is lowerCamelCase; expressions read it as params.NAME.
	Name string `json:"name"`
	// Description tells a team the purpose of the parameter.
	Description string `json:"description,omitempty"`
	// Type is the type of the annotation's value.
	Type ParameterType `json:"type"`
	// SecondAnnotation names a second annotation that sets the parameter, such as one of another injector. On
	// an object with both, the first counts. For a map it ends in KEY, as in old.example.com/attribute.KEY.
	SecondAnnotation string `json:"annotation,omitempty"`
	// Items is the type of a list's items or a map's values: the name of a scalar type, or a type with
	// constraints. It is required for list and map, and allowed for no other type.
	Items *Items `json:"items,omitempty"`
	// Default is the value if no annotation sets one. It is a text, or the type's own JSON form.
	Default json.RawMessage `json:"default,omitempty"`
	// Example is a value for documentation, and for test renders without a default.
	Example json.RawMessage `json:"example,omitempty"`
	// Required refuses pods without a value. Default false: the parameter is absent then.
	Required bool `json:"required,omitempty"`
	// SetBy lists the levels at which the parameter may be set. Default Namespace and Pod, or none for a
	// required template; an empty list allows none.
	SetBy       []Level `json:"setBy,omitzero"`
	Constraints `json:",inline"`
}

// Constraints restrict the values of a parameter. Each type allows some of them.
type Constraints struct {
	// Enum lists the allowed values.
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
	// Map collects the annotations TEMPLATE.pillion.dev/NAME.KEY.
	Map ParameterType = "map"
)

// Level is a level of annotations that set parameters.
type Level string

// The levels of annotations.
const (
	// Namespace is the namespace's annotation.
	Namespace Level = "Namespace"
	// Pod is the pod's annotation, which wins over the namespace's.
	Pod Level = "Pod"
)

// Variable is a named CEL expression.
type Variable struct {
	// Name is the name in expressions: variables.NAME.
	Name string `json:"name"`
	// Expression is CEL of any type.
	Expression string `json:"expression"`
}

// ConflictPolicy decides between the pod's value of a field and the template's.
type ConflictPolicy string

// The policies for a conflict between the pod and a template.
const (
	// ConflictDeny refuses the pod, naming template, path and both values.
	ConflictDeny ConflictPolicy = "Deny"
	// ConflictKeepPod keeps the pod's value.
	ConflictKeepPod ConflictPolicy = "KeepPod"
	// ConflictOverwrite takes the template's value.
	ConflictOverwrite ConflictPolicy = "Overwrite"
)

// PodResourcesPolicy decides about the resources that a pod has as a whole.
type PodResourcesPolicy string

// The policies for a pod's own spec.resources.
const (
	// PodResourcesAdd adds the sidecars' requests and limits to those that the pod has.
	PodResourcesAdd PodResourcesPolicy = "Add"
	// PodResourcesKeep leaves them. A pod that the API server would then refuse is refused.
	PodResourcesKeep PodResourcesPolicy = "Keep"
)

// ContainerSecurity is a level of Pod Security for the template's containers.
type ContainerSecurity string

// SecurityRestricted is the level restricted.
const SecurityRestricted ContainerSecurity = "Restricted"

// ErrorPolicy decides about a pod for which a template fails.
type ErrorPolicy string

// The policies for a template that fails.
const (
	// ErrorDeny refuses the pod.
	ErrorDeny ErrorPolicy = "Deny"
	// ErrorSkip admits the pod without the template, with a warning.
	ErrorSkip ErrorPolicy = "Skip"
)

// OperatingSystem is the operating system of a pod's containers.
type OperatingSystem string

// The operating systems of Kubernetes' nodes.
const (
	Linux   OperatingSystem = "linux"
	Windows OperatingSystem = "windows"
)

// SidecarTemplateStatus has the result of compiling a template.
type SidecarTemplateStatus struct {
	// ObservedGeneration is the metadata.generation to which the other fields belong.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Hash is the digest, in 16 hex digits, of the fields of the spec and the installer's values that rendering
	// reads. Pods carry it, and replicas report it.
	Hash string `json:"hash,omitempty"`
	// Conditions tell whether the template is usable: the type Ready is True with the reason Compiled, or False
	// with the mistakes as its message. The type Accepted is False if API servers call every sample pod that
	// gets the template invalid.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

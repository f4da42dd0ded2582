package v1alpha1

// Every key of Pillion's in annotations and labels is one of these constants, or TEMPLATE.pillion.dev/ with the name of a
// parameter or a hash behind it.
const (
	// domain is the beginning of all keys.
	domain = Group + "/"
	// InjectKey is the annotation by which namespaces and pods ask for templates.
	InjectKey = domain + "inject"
	// StatusKey is the annotation with the record of the injection into a pod.
	StatusKey = domain + "status"
	// InjectedLabel is the label of each pod that got a sidecar.
	InjectedLabel = domain + "injected"
	// InjectionLabel says what API servers do for the pods of a namespace.
	InjectionLabel = domain + "injection"
	// RequiredLabel is kept on the namespaces that a required template selects. No namespace selector of a template may
	// name it.
	RequiredLabel = domain + "required"
	// ProofLabel is the label of the chart's proof namespace, which stays when there is no proof any more.
	ProofLabel = domain + "proof"
	// AllowDeleteKey is the annotation that lets a template in use be deleted.
	AllowDeleteKey = domain + "allow-delete"
	// RequiredTemplateLabel is the label of an admission policy and its binding, with the name of their required template.
	RequiredTemplateLabel = domain + "required-template"
	// VersionLabel is the label with the version of Pillion that a template is for.
	VersionLabel = domain + "version"
)

// The values of the label [InjectionLabel]. A namespace without the label is not
// Pillion's business, unless a pod itself asks.
const (
	// InjectionEnabled: API servers call Pillion for the namespace's pods, and a failure of
	// the call lets the pod through.
	InjectionEnabled = "enabled"
	// InjectionEnforced: the same, and a failure of the call refuses the pod.
	InjectionEnforced = "enforced"
	// InjectionDisabled: Pillion is never called, whatever anything asks.
	InjectionDisabled = "disabled"
)

// OfTemplate returns the beginning of a template's keys: TEMPLATE.pillion.dev/.
func OfTemplate(template string) string { return template + "." + domain }

// HashLabel returns the label of pods with the hash of a template that they have.
func HashLabel(template string) string { return OfTemplate(template) + "hash" }

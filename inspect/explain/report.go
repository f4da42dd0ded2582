package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Report is the result of explain.
type Report struct {
	// Namespaces are the namespaces in the arguments.
	Namespaces []Namespace `json:"namespaces,omitempty"`
	Pods       []Pod       `json:"pods"`
	// Notes are about the whole report: objects that could not be read, and commands that grant
	// the right.
	Notes []Note `json:"notes"`
}

// Note is a sentence, with commands that change what it is about.
type Note struct {
	Text string `json:"says"`
	// Remedy has commands that can be run as they are, in order.
	Remedy []string `json:"remedy,omitempty"`
}

// String returns the note on one line.
func (n Note) String() string {
	return strings.TrimSpace(n.Text + " " + strings.Join(n.Remedy, "; "))
}

// Namespace is a namespace, as Pillion sees it.
type Namespace struct {
	Name string `json:"name"`
	// Label is the value of the injection label. Called reports whether API servers call Pillion.
	Label  string `json:"label,omitempty"`
	Called string `json:"called"`
	// Annotations are the annotations under Pillion's prefix.
	Annotations map[string]string `json:"annotations"`
	// Keys are findings about meaningless labels and annotations under the prefix.
	Keys []string `json:"meaningless"`
}

// Pod is an existing pod, a pod of a file, or the pod that a workload would create. It has many
// fields because they are the schema of -o json.
type Pod struct {
	// Name is the object that has the pod, as KIND/NAME.
	Name      string      `json:"pod"`
	Namespace string      `json:"namespace"`
	Verdict   string      `json:"verdict"`
	Code      reason.Code `json:"code"`
	// Refused means that Pillion refuses the pod.
	Refused bool   `json:"refused"`
	Message string `json:"message,omitempty"`
	// Called reports whether API servers call Pillion for the pod. It is nil for files.
	Called *CallState `json:"called,omitempty"`
	// Rules are the steps of the decision. NotAsked are the templates without a request.
	Rules     []policy.Step `json:"rules"`
	NotAsked  []string      `json:"notAsked"`
	Templates []Template    `json:"templates"`
	// Standings compare an existing pod with a new one, by template. Differences are the fields
	// to which Pillion would write another value.
	Standings   []drift.Template `json:"standings"`
	Differences []string         `json:"differences"`
	// Effects are the changes by templates. KeptValues are the pod's values that templates do not
	// replace.
	Effects    []injector.Effect   `json:"effects"`
	KeptValues []injector.PodValue `json:"kept"`
	// Running are the present pods of a workload. It is nil for other objects.
	Running *Running `json:"running,omitempty"`
	// DryRun is the API server's answer to a dry run, or nil.
	DryRun *DryRun `json:"dryRun,omitempty"`

	// Keys are findings about meaningless labels and annotations under the prefix.
	Keys     []string `json:"meaningless"`
	Warnings []string `json:"warnings"`
	Notes    []Note   `json:"notes"`

	// noTemplates means that the user may not read the templates. exists means that the pod is there.
	noTemplates, exists bool
}

// CallState reports whether API servers call Pillion.
type CallState struct {
	// IsKnown is false if the user lacks a right to find out.
	IsKnown bool `json:"known"`
	Now     bool `json:"now"`
	// Why names the rule and its input.
	Why string `json:"why"`
	// Then explains whether Pillion was called when the pod was created. It is "" for a new pod.
	Then string `json:"then,omitempty"`
}

// Template is the outcome for one template.
type Template struct {
	Name string `json:"name"`
	// Canary is the canary that the pod gets in place of the stable template, or "".
	Canary     string      `json:"canary,omitempty"`
	Hash       string      `json:"hash,omitempty"`
	Code       reason.Code `json:"code"`
	Why        string      `json:"why,omitempty"`
	Parameters []Parameter `json:"parameters"`
}

// Parameter is a value with its level.
type Parameter struct {
	Name string `json:"name"`
	// Annotation is the key that sets it.
	Annotation string `json:"annotation"`
	Value      any    `json:"value"`
	// From is the level: Default, Namespace or Pod.
	From string `json:"from"`
}

// Running are a workload's pods.
type Running struct {
	Pods    int `json:"pods"`
	Current int `json:"current"`
	// OutdatedPods are the pods that differ from a new one, each with a sentence.
	OutdatedPods []RunningPod `json:"behind"`
	// Replace means that new pods would be up to date. Remedy is the command that replaces the pods.
	Replace bool   `json:"-"`
	Remedy  string `json:"remedy,omitempty"`
	// Failure is the newest failure to create a pod, or nil.
	Failure *Failure `json:"failure,omitempty"`
	// Unread is the reason why the pods are not known, or nil.
	Unread *Note `json:"unread,omitempty"`
}

// Failure is a controller's event about a pod that it could not create.
type Failure struct {
	At time.Time `json:"at"`
	// About is the controller's object, as KIND/NAME.
	About   string `json:"about"`
	Count   int    `json:"count"`
	Message string `json:"message"`
}

// RunningPod is a pod, with its difference from a new one.
type RunningPod struct {
	Name string `json:"name"`
	Text string `json:"says"`
}

// DryRun is the API server's answer to the creation of the pod by dry run.
type DryRun struct {
	Allowed bool `json:"allowed"`
	// Text is a sentence with the templates in the answer, or with the reason of the refusal.
	Text string `json:"says"`
	// Templates are the templates in the returned pod.
	Templates []string `json:"templates,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Refused reports whether one of the pods would be refused.
func (r Report) Refused() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.Refused })
}

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

// Report is all that one run of explain says.
type Report struct {
	// Namespaces are those that the run was asked about.
	Namespaces []Namespace `json:"namespaces,omitempty"`
	Pods       []Pod       `json:"pods"`
	// Notes are facts that hold for all of it: what could not be read, and what would let it.
	Notes []Note `json:"notes"`
}

// Note is a fact to know beside the rest, with the commands that change it.
type Note struct {
	Says string `json:"says"`
	// Remedy has commands that can be run as they are, in order.
	Remedy []string `json:"remedy,omitempty"`
}

// String returns the note on one line.
func (n Note) String() string {
	return strings.TrimSpace(n.Says + " " + strings.Join(n.Remedy, "; "))
}

// Namespace is a namespace, as Pillion sees it.
type Namespace struct {
	Name string `json:"name"`
	// Label is the value of the label of injection, and Called says what API servers do.
	Label  string `json:"label,omitempty"`
	Called string `json:"called"`
	// Annotations are those under Pillion's prefix.
	Annotations map[string]string `json:"annotations"`
	// Keys are findings about labels and annotations under the prefix that mean nothing.
	Keys []string `json:"meaningless"`
}

// Pod is one pod: one that exists, one of a file, or the one that a workload would create.
type Pod struct {
	// Name is the object that holds it, as KIND/NAME.
	Name      string      `json:"pod"`
	Namespace string      `json:"namespace"`
	Verdict   string      `json:"verdict"`
	Code      reason.Code `json:"code"`
	// Refused: Pillion refuses the pod.
	Refused bool   `json:"refused"`
	Message string `json:"message,omitempty"`
	// Called says whether API servers call Pillion for such a pod. It is nil for files.
	Called *Called `json:"called,omitempty"`
	// Rules are the steps of the decision. NotAsked are the templates that nothing asks for.
	Rules     []policy.Step `json:"rules"`
	NotAsked  []string      `json:"notAsked"`
	Templates []Template    `json:"templates"`
	// Standings compare a pod that exists with one that is created now, by template, and
	// Differences are the places in which Pillion would write something else.
	Standings   []drift.Template `json:"standings"`
	Differences []string         `json:"differences"`
	// Effects are what the templates do in the pod, Kept what stays the pod's.
	Effects []injector.Effect `json:"effects"`
	Kept    []injector.PodValue   `json:"kept"`
	// Running are the pods of a workload that run now. It is nil where nobody asked.
	Running *Running `json:"running,omitempty"`
	// DryRun is the API server's own answer, where it was asked.
	DryRun *DryRun `json:"dryRun,omitempty"`

	// Keys are findings about labels and annotations under the prefix that mean nothing.
	Keys     []string `json:"meaningless"`
	Warnings []string `json:"warnings"`
	Notes    []Note   `json:"notes"`
}

// Called says whether API servers call Pillion.
type Called struct {
	// Known is false where a right is missing to tell.
	Known bool `json:"known"`
	Now   bool `json:"now"`
	// Why names the rule and its input, Remedy has the commands by which it can be known.
	Why    string   `json:"why"`
	Remedy []string `json:"remedy,omitempty"`
	// Then says what is known of the moment when the pod was created, "" for a new pod.
	Then string `json:"then,omitempty"`
}

// Template is the outcome for one template.
type Template struct {
	Name string `json:"name"`
	// Canary is the canary that the pod gets in place of the stable template, "" for none.
	Canary     string      `json:"canary,omitempty"`
	Hash       string      `json:"hash,omitempty"`
	Code       reason.Code `json:"code"`
	Why        string      `json:"why,omitempty"`
	Parameters []Parameter `json:"parameters"`
}

// Parameter is a value with the level that it came from.
type Parameter struct {
	Name string `json:"name"`
	// Annotation is the key by which it is set.
	Annotation string `json:"annotation"`
	Value      any    `json:"value"`
	// From is the level: Default, Namespace or Pod.
	From string `json:"from"`
}

// Running are a workload's pods.
type Running struct {
	Pods    int `json:"pods"`
	Current int `json:"current"`
	// Behind are the pods that are not as a new one would be, each with a sentence.
	Behind []RunningPod `json:"behind"`
	// Replace: a new pod in place of one of them would be up to date. Remedy is the command for that.
	Replace bool   `json:"-"`
	Remedy  string `json:"remedy,omitempty"`
	// Failure is the newest one of their creation. It is nil if none is known.
	Failure *Failure `json:"failure,omitempty"`
	// Unread says why the pods are not known.
	Unread *Note `json:"unread,omitempty"`
}

// Failure is the event by which a controller tells that it could not create a pod.
type Failure struct {
	At time.Time `json:"at"`
	// About is the controller's object, as KIND/NAME.
	About   string `json:"about"`
	Count   int    `json:"count"`
	Message string `json:"message"`
}

// RunningPod is one pod and how it differs.
type RunningPod struct {
	Name string `json:"name"`
	Says string `json:"says"`
}

// DryRun is what the API server answered to the creation of the pod by dry run.
type DryRun struct {
	Allowed bool `json:"allowed"`
	// Says is a sentence: what the pod came back with, or why it was refused.
	Says string `json:"says"`
	// Templates are those that the pod came back with.
	Templates []string `json:"templates,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Refused reports whether one of the pods does not come to be.
func (r Report) Refused() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.Refused })
}

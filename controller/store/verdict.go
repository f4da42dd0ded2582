package store

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
)

// Verdict is the result for one object: in force, or not and why.
type Verdict struct {
	Object Object
	// Hash is the template's. It is empty if the object does not compile.
	Hash string
	// Reason is [Compiled], or the reason why the object is not in force. Message explains it.
	Reason, Message string
	// Template is nil if the object does not compile.
	Template *templates.Template
	// acceptance is the present condition Accepted. It is nil if the API server was not called.
	acceptance *metav1.Condition
}

// The reasons of the condition Ready.
const (
	// Compiled means that the object's newest spec is in force.
	Compiled = "Compiled"
	// CompileFailed means that the spec has an error, which is in the message.
	CompileFailed = "CompileFailed"
	// NameTaken means that a built-in template has the name.
	NameTaken = "NameTaken"
	// CanaryUnusable means that a canary compiles, but that the stable template does not exist, or
	// that the canary cannot replace it.
	CanaryUnusable = "CanaryUnusable"
	// Shadowed means that a template of the cluster has the name, and is in force instead.
	Shadowed = "Shadowed"
	// TooMany means that the namespace already has the largest number of older templates.
	TooMany = "TooMany"
	// TooLarge means that a template of a namespace exceeds its bound, or that the templates of all namespaces
	// exceed theirs and the templates of this namespace are among the largest.
	TooLarge = "TooLarge"
)

// The reasons of the condition Accepted.
const (
	// Valid means that API servers accept a sample pod with the template.
	Valid = "Valid"
	// Invalid means that API servers refuse every sample pod as invalid.
	Invalid = "Invalid"
	// NotAsked means that Pillion sends no sample pods of this template.
	NotAsked = "NotAsked"
	// NoAnswer means that the API server gave no answer. Pillion tries again.
	NoAnswer = "NoAnswer"
)

// inForce is the message of Compiled.
const inForce = "The template is in force."

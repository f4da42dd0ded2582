package store

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
)

// Verdict says whether one object is in force.
type Verdict struct {
	Object Object
	// Hash is the template's, empty if it did not compile.
	Hash string
	// Reason is [Compiled] or why the object is not in force; Message says so in words.
	Reason, Message string
	// Template is what the object compiles to, nil if it does not.
	Template *templates.Template
	// acceptance is what API servers say now of the pods that get the template, nil if nobody asked.
	acceptance *metav1.Condition
}

// The reasons of the condition Ready.
const (
	// Compiled: the object's newest spec is in force.
	Compiled = "Compiled"
	// CompileFailed: the spec cannot be used; the message says why.
	CompileFailed = "CompileFailed"
	// NameTaken: a template of Pillion's own has the name.
	NameTaken = "NameTaken"
	// CanaryUnusable: the template is a canary that compiles alone, and not in place of the
	// stable template, or there is none.
	CanaryUnusable = "CanaryUnusable"
	// Shadowed: a template of the cluster has the name of this one of a namespace, and counts.
	Shadowed = "Shadowed"
	// TooMany: the namespace has older templates, as many as count.
	TooMany = "TooMany"
	// TooLarge: the template of a namespace is larger than it may be, or those of all namespaces take more memory
	// than there is for them, and those of this one are among the largest.
	TooLarge = "TooLarge"
)

// The reasons of the condition Accepted.
const (
	// Valid: API servers accept a sample pod that gets the template.
	Valid = "Valid"
	// Invalid: they call every sample pod invalid.
	Invalid = "Invalid"
	// NotAsked: no API server is asked about this template.
	NotAsked = "NotAsked"
	// NoAnswer: an API server did not say whether sample pods are valid. It is asked again.
	NoAnswer = "NoAnswer"
)

// inForce is the message of Compiled.
const inForce = "The template is in force."

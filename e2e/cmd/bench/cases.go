package main

import (
	"strings"
)

// template is the template of the library that Pillion injects, and the name of its sidecar.
const template = "fluent-bit"

// A benchCase is one way of creating the pod. Each has a namespace of its own.
type benchCase struct {
	name    string
	path    string // of the yardstick's webhook, empty if none is called
	policy  bool   // a MutatingAdmissionPolicy
	pillion bool   // the namespace is not excluded
	called  bool   // Pillion is called, because the namespace has the label by hand
	asks    bool   // the namespace asks Pillion for the template
	adds    bool   // the pod gets the sidecar
}

func (c benchCase) namespace() string { return "bench-" + c.name }

// nothing is the case that all others are compared with.
var nothing = benchCase{name: "nothing"}

// The two of which the ratio is.
var (
	fixedRecord = benchCase{name: "fixed-webhook-with-record", path: recordPath, adds: true}
	fluentBit   = benchCase{name: "pillion-fluent-bit", pillion: true, asks: true, adds: true}
)

var cases = []benchCase{
	nothing,
	{name: "fixed-webhook", path: fixedPath, adds: true},
	{name: "fixed-webhook-with-mount", path: withMountPath, adds: true},
	fixedRecord,
	{name: "policy", policy: true, adds: true},
	{name: "pillion-unasked", pillion: true},
	{name: "pillion-skip", pillion: true, called: true},
	fluentBit,
}

// most bounds what Pillion adds with the template, as a multiple of what a fixed webhook with the same
// patch adds: what kube-apiserver does with the record is not what Pillion does.
const most = 1.25

// excluded are, as a value of helm, the namespaces that Pillion does not look at: its
// defaults, and those of the cases without it.
func excluded() string {
	names := []string{"kube-system", "kube-node-lease"}
	for _, c := range cases {
		if !c.pillion {
			names = append(names, c.namespace())
		}
	}
	return "{" + strings.Join(names, ",") + "}"
}

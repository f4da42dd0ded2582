// Package policy decides which templates a pod gets, and says why.
//
// In: the inject annotations of pod and namespace, facts about the request, and
// what there is to choose from. Out: a [Decision] with one outcome per template
// that somebody asked for, and the steps that led there.
//
// Everything here is a pure function. What needs the template's own expressions
// (matchConditions, parameters) comes later, in the render.
//
// Imports: apimachinery's labels and the reason codes; neither merge, patch,
// net/http nor a client.
package policy

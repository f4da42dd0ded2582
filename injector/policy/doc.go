// Package policy decides which templates a pod gets, and says why.
//
// In: the inject annotations of the pod and its namespace, facts about the
// request, and the templates in force, in order. Out: a [Decision] with the
// templates to render, an exclusion for each template that something concerns and that is
// not injected, and to explain, the steps that led there.
//
// Everything here is a pure function. The template's own expressions
// (matchConditions, parameters) come later, in the render.
//
// May import: reason, templates/nearest, templates/show, templates/v1alpha1, apimachinery's selectors. No other package of this
// module, no net/http and no client.
package policy

// Package drift compares a running pod with the pod that would be created in its place now. It finds templates
// that are current, templates with another version or other parameters, and missing templates.
//
// In: a pod as the API server stores it, its namespace, the templates in force. Out: a [Comparison] with a
// [State] for each template. The comparison runs [injector.Pipeline] once more on the pod as it was created,
// and compares the new record with the pod's own. So an injected pod is never missing or outdated while the
// templates, parameters and Pillion's version stay the same.
//
// May import: injector, its record and reason, templates. No net/http and no client.
package drift

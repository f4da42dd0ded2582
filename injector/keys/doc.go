// Package keys finds the labels and annotations under Pillion's prefix that mean nothing where
// they stand, and says what to write in their place.
//
// In: the labels and annotations of one object, what the object is, and the templates in
// force. Out: a [Finding] for each key that means nothing, and the kubectl command that
// moves annotations from a workload to its pods.
//
// Values are not judged, but for the label that says whether Pillion is called: the pipeline
// and [templates.Template.Mistakes] do that. What a pod's parameters say to a template that
// the pod gets is the pipeline's, too.
//
// Pure. May import: templates and what is below it.
package keys

// Package admissionpolicy makes, of a required template, the ValidatingAdmissionPolicy that
// holds pods to it where Pillion is not called.
//
// In: a compiled template and the namespaces that Pillion keeps out of.
// Out: a policy with its binding, which API servers evaluate themselves, and sentences about
// the changes that it checks and ignores; or an error, if no policy can hold pods to the template. The
// policy refuses no pod that Pillion injects.
//
// May import: templates. No client.
package admissionpolicy

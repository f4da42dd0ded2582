// Package keys finds three mistakes in labels and annotations under Pillion's prefix, and suggests the
// correction: an unknown key, a pod's annotation on its workload, and a label in place of an annotation.
//
// In: the labels and annotations of one object, its level, and the templates in force. Out: a
// [Finding] for each such key, and the kubectl command that moves annotations from a workload to its
// pods. The package does not check values.
//
// Pure. Its imports: templates and the packages below it.
package keys

// Package keys finds three mistakes in the labels and annotations under Pillion's prefix, and says
// what to write: a key that nothing reads, an annotation of pods on their workload, and a label in
// the place of an annotation.
//
// In: the labels and annotations of one object, its level, and the templates in force. Out: a
// [Finding] for each such key, and the kubectl command that moves annotations from a workload to its
// pods. Values are not judged.
//
// Pure. May import: templates and what is below it.
package keys

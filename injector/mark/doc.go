// Package mark knows the keys that Pillion marks injected pods with: the status annotation,
// and the labels beside it. Whatever stands under them is Pillion's: no template writes it, and
// it is no part of the base pod.
//
// In: keys and pods. Out: whose a key is, and the pod without the labels.
//
// May import: nothing of this module.
package mark

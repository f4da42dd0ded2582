// Package rotation shows that certificates cost no admission. On a ground with two
// kube-apiservers and three balanced replicas, clients create pods all the time, through
// both API servers, in a namespace that fails closed and in one that fails open. In the
// meantime CAs and leaves are replaced, and replicas started together; then caBundles and
// Secrets are damaged.
//
// In: a [ground.ControlPlane] of that kind, with Pillion installed by [Values]. Out: a
// [Result], which counts pods. `make rotate` and the end-to-end tests run it.
package rotation

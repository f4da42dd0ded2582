// Package ground runs a real Kubernetes on this machine for the end-to-end tests
// and the demo, installs Pillion's chart on it with real Helm, and runs Pillion.
//
// In: this checkout (the modules below e2e/kubernetes, e2e/helm and e2e/certmanager, the
// chart, bin/pillion-webhook) and a Go toolchain. Out: a [Ground], which is a kubeconfig, a kubectl
// and a helm of known versions, and Pillion's replicas; after Close nothing is left
// of it, neither a process nor a file.
//
// [Node] is a whole Kubernetes with one node, in namespaces of its own on this machine:
// Pillion runs there as the chart's Deployment, from the image that the Dockerfile makes,
// and pods run with their sidecars. It needs root.
//
// [ControlPlane] is etcd, kube-apiserver and kube-controller-manager as processes on
// loopback. No kubelet runs there, so no pod ever starts. Pillion runs as a process all
// the same, with the arguments, the mounted files, the service account and the rights that
// the chart gives its Deployment, and kube-apiserver reaches it as in any cluster, through
// its Service: the Service range is a part of 127.0.0.0/8, so that a ClusterIP is an
// address of this machine. It can have several replicas behind one ClusterIP, cert-manager,
// and several kube-apiservers behind one address. A test can talk to each of these alone,
// delay it, stop it, and start it again in another version.
//
// It may import client-go, e2e/registry and the standard library. It knows nothing of
// Pillion's own packages: what it runs is the binary.
package ground

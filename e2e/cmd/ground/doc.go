// Command ground keeps a real Kubernetes with Pillion on this machine.
//
//	ground up      start one, unless it runs, and leave it running
//	ground down    remove it without a trace
//	ground demo    start another one, show on it what Pillion does, and remove it
//
// `make up`, `make down` and `make demo` call it. The folder .cache/ground of the checkout
// then holds kubeconfig, the folder bin with kubectl and helm, and the log.
package main

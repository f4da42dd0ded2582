// Command ground keeps a real Kubernetes with Pillion on this machine.
//
//	ground up        start one, unless it runs, and leave it running
//	ground down      remove it without a trace
//	ground demo      start another one, show on it what Pillion does, and remove it
//	ground walk      start control planes, run the commands of the README and of pages on them, and remove them
//	ground programs  build what the end-to-end tests on a ground run, unless it is built
//	ground helm      build Helm, unless it is built, and print its path
//	ground kinds     print the kinds of grounds that can run here
//
// GROUND, K8S and HELM choose the kind of ground and the versions (ground.Options).
// `make` calls it for the targets of these names. The folder .cache/ground of the checkout
// then holds kubeconfig, the folder bin with kubectl and helm, and the log.
package main

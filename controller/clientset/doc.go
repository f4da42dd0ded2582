// Package clientset has typed clients for the resources that Pillion reads and writes.
//
// In: a cluster's address and credentials as a [rest.Config], or a clientset of client-go. Out:
// for each resource that clientset's client, behind an interface.
//
// It may import client-go, and no other package of this module. Tests with a fake clientset take
// the folder clientsettest.
package clientset

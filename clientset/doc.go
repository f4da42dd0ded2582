// Package clientset has typed clients for the resources that Pillion reads and writes.
//
// In: a cluster's address and credentials as a [rest.Config]. Out: for each resource a
// client of client-go's own generic kind. The clientset of client-go itself makes every
// type of every API group a part of the program, a quarter of its size.
//
// It may import client-go, but not client-go/kubernetes, and no other package of this
// module. Its tests, and those of others, take the folder clientsettest, which makes one
// of client-go's fake clientset.
package clientset

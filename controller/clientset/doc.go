// Package clientset configures client-go's clientset for Pillion, and adds requests that its typed
// clients lack: lists as streams of JSON, and reads of paths.
//
// In: a cluster's address and credentials as a [rest.Config]. It may import client-go, and of this module
// controller/rights only.
package clientset

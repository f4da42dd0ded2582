// Package uninstall removes Pillion's labels from namespaces while the Helm release is removed.
//
// In: watches of the marker, a ConfigMap that Helm creates before it deletes anything, and a function that
// removes labels. Out: a channel that is closed once the release is being removed, and namespaces without
// Pillion's labels.
//
// May import: controller/waiting, and client-go's metadata client. The webhook of the uninstall is in webhook.
package uninstall

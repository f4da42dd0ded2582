// Package workloads reads the workloads of a namespace, for the preview of their next pods.
//
// In: an API server. Out: the objects, as JSON ([List]). Imports: injector/owner for the table of kinds,
// templates/rawjson, and client-go's REST client.
package workloads

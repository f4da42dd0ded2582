// Package workloads reads the workloads of a namespace, whose next pods a preview judges.
//
// In: an API server. Out: the objects, as JSON ([List]). Imports: injector/owner for the table of kinds,
// templates/rawjson, and client-go's REST client. It knows nothing of reviews.
package workloads

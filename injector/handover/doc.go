// Package handover keeps an upgrade from refusing pods. Replicas that serve record which
// templates namespaces name and get, in a ConfigMap: the templates in use. A replica that
// starts and has not all of them is not ready, so the ones that serve go on.
//
// In: the counts of injector/usage, the ConfigMap. Out: [Handover.Ready], and writes of the
// ConfigMap.
//
// The rules:
//
//   - Only what a replica had in force, and a namespace named, is recorded. A name that never
//     was a template's holds nobody up: namespaces are annotated by tenants.
//   - A template leaves the record when no namespace names it, when it is deleted while replicas
//     serve, or when the admin allows it to be missing.
//   - The record is renewed by those who serve. A replica for which it has not been renewed for
//     [Quiet] is ready all the same: nobody else serves, and a webhook that is away for good
//     does more harm than a missing template. The check of an installation still fails.
//   - Who is ready once stays ready. Without the right to read the record, or without the
//     ConfigMap, nobody is held up, and the log says so.
//
// Imports: injector/usage, templates, and the API's types and errors.
package handover

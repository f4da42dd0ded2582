// Package upgradegate keeps an upgrade from refusing pods. Replicas that serve record which
// templates namespaces name and get, in a ConfigMap: the templates in use. A replica that
// starts and lacks one of them is not ready, so the replicas that serve go on.
//
// In: the counts of controller/usage, the ConfigMap. Out: [Gate.Ready], and writes of the
// ConfigMap.
//
// The rules:
//
//   - Only a template that a replica had in force, and that a namespace named, is recorded. A name
//     that never was a template's holds nobody up: namespaces are annotated by tenants.
//   - A template leaves the record when no namespace names it, when it is deleted while replicas
//     serve, or when the admin allows it to be missing.
//   - The record is written when it changes. A replica that is held up asks in it whether
//     anybody serves, and a replica that serves takes the question out. A replica whose question
//     stands for [Quiet] is ready all the same: nobody else serves, and a webhook that is away for
//     good does more harm than a missing template. The check of an installation still fails.
//   - A replica that is ready once stays ready. Without the right to read or write the record, or
//     without the ConfigMap, nobody is held up, and the log says so.
//
// Imports: controller/usage, templates, and the API's types and errors.
package upgradegate

// Package check judges an installation of Pillion: is it sound, and if not, what is to be done?
//
// In: [Facts], which somebody has read from a cluster, each with the reason if it could not be
// read. Out: a [Report], in which each [Check] has a result and, where it is not well, what was
// found and the commands that help. All of it is pure: the same facts and the same time give the
// same report.
//
// A new check is one more value in [All], and a line in the table of its test.
//
// May import: the API's types, controller/rights, inspect/state, injector with its kept, policy, proof
// and usage, templates. No net/http and no client.
package check

// Package reason holds the reason codes of Pillion's decisions, and the sentence
// that explains each.
//
// Warnings, audit annotations, events, metrics, logs and `pillion explain` use the
// same code. So an admin finds in a dashboard the code that a team reads in a
// terminal.
//
// Only the functions of format.go write codes into texts and statuses that leave the
// webhook, and read codes from them.
//
// In and out: values only. May import: the API's Status, net/http for its status
// codes. No package of this module.
package reason

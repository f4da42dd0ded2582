// Package reason holds the reason codes of Pillion's decisions, and the sentence
// that explains each.
//
// One code reaches warnings, audit annotations, events, metrics, logs and
// `pillion explain` alike, so that what a team reads in a terminal is what an
// admin searches for in a dashboard.
//
// A code that leaves the webhook in a text or a status is written and read by the
// functions of text.go, and nowhere else.
//
// In and out: values only. Imports: the API's Status; nothing of Pillion's.
package reason

// Package reason holds the reason codes of Pillion's decisions, and the sentence
// that explains each.
//
// One code reaches warnings, audit annotations, events, metrics, logs and
// `pillion explain` alike, so that what a team reads in a terminal is what an
// admin searches for in a dashboard.
//
// In and out: values only. Imports: nothing of Pillion's.
package reason

// Package nearest finds the name that a misspelt one probably means.
//
// In: a name and the names that there are. Out: the nearest of them, or the end of
// an error message that proposes it. It imports nothing of this module.
package nearest

// Package memo remembers what has been worked out about values that never change.
//
// What a template makes of parameters alone is the same value for many pods. To check it, to
// take its directives out, to digest it and to write it as JSON is the same work each time. A
// [Table] has such values, and each package that works on them has a [Key] of its own.
//
// In: decoded JSON that nobody changes any more. Out: what was remembered about it.
package memo

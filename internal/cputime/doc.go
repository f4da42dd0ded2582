// Package cputime tells how long the processors have worked for this process. Tests and benchmarks
// measure with it, because other programs on the machine change it less than the clock's time.
//
// It imports the standard library only.
package cputime

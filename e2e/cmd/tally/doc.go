// Command tally runs `go test` in several modules and counts.
//
//	tally [NAME=VALUE]... DIR [ARGUMENT of go test]... [-- [NAME=VALUE]... DIR [ARGUMENT]...]...
//
// Each NAME=VALUE is set in the environment of that run. It runs all of them, also after a failure, prints the output of what failed, what
// packages write besides their tests (the progress of a build), the attributes that tests
// set (measurements), a line for each package, and as its last line
//
//	N passed, N failed, N skipped
//
// over all tests and subtests. What fails without being a test (a package that does not
// compile, a test that never ended) counts as one failure. It exits with 1 if there is
// any, and if nothing passed.
package main

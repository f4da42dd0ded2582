// Command tally runs `go test` several times, says what has ended, and counts.
//
//	tally TITLE [NAME=VALUE]... DIR [ARGUMENT of go test]... [-- TITLE [NAME=VALUE]... DIR [ARGUMENT]...]...
//
// Each NAME=VALUE is set in the environment of that run. Arguments of go test that take a value
// have it after an equals sign. It does all runs, also after a failure, prints the output of what
// failed or was skipped, a line for each package that ended (for each test where there is one
// package), and as its last line
//
//	N passed, N failed, N skipped
//
// over all tests and subtests. What fails without being a test (a package that does not
// compile, a test that never ended) counts as one failure. It exits with 1 if there is
// any, and if nothing passed.
package main

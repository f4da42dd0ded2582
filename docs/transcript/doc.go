// Package transcript reads the blocks of the documentation that a test writes or compares:
// the output of a command, or a table of results.
//
// In: a page's text. Out: its blocks, each with the line above it that says who tests it.
// Only tests import it.
//
// A block is fenced, or a paragraph or table that ends at an empty line. A comment on the
// line above it names its origin:
//
//	<!-- run in DIR -->                 cmd/pillion runs its commands in a folder of the repository
//	<!-- recorded by TestNAME: BLOCK -->  an end-to-end test runs them on a Kubernetes
//	<!-- run by make walk -->           make walk runs them
//	<!-- not tested: REASON -->         nobody does
package transcript

// Package errtest ends a test where what it builds upon has failed.
//
// In: errors. Out: the end of the test. Imports: nothing of this module; only tests import it.
package errtest

// T is a test, a benchmark, or one run of a property.
type T interface {
	Helper()
	Fatal(args ...any)
}

// ExpectNone ends the test where err is an error.
func ExpectNone(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

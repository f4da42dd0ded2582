package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// maxFuzzed bounds the inputs of a target: a longer one is no other case.
const maxFuzzed = 4 << 10

// FuzzInstallersFiles holds for any bytes as a file of values or of namespaces: they are
// read, the same each time, or an error names the file.
//
//fuzz:slow writes the file, and reads it four times
func FuzzInstallersFiles(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1", "a: 1\n---\nb: 2", "- a", "{", "kind: Namespace\nmetadata: {name: a, labels: {b: c}, annotations: {d: e}}", "kind: Namespace\nmetadata: {labels: {a: 1}}", "kind: NamespaceList\nitems: [{kind: Namespace, metadata: {name: a}}, {kind: Pod}, 1]",
		`{"kind":"Namespace"}{"kind":"Namespace","metadata":[]}`, "kind: List\nitems: {}", "0: a\n0.: b",
	} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "file.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxFuzzed {
			return
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		values, err := readValues(nil, file)
		again, err2 := readValues(nil, file)
		if !reflect.DeepEqual(values, again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%v, %v, and then %v, %v", values, err, again, err2)
		}
		o := Options{NamespaceFile: file}
		namespaces, nsErr := o.Namespaces(nil)
		namespacesAgain, nsErr2 := o.Namespaces(nil)
		if !reflect.DeepEqual(namespaces, namespacesAgain) || fmt.Sprint(nsErr) != fmt.Sprint(nsErr2) {
			t.Fatalf("%v, %v, and then %v, %v", namespaces, nsErr, namespacesAgain, nsErr2)
		}
		for _, err := range []error{err, nsErr} {
			if err != nil && !strings.Contains(err.Error(), file) {
				t.Fatalf("the error does not name the file: %v", err)
			}
		}
	})
}

package keys

import (
	"os"
	"strings"
	"testing"
)

// The reference of annotations and labels has every key of Pillion's own, with its field.
func TestTheReferenceHasEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/annotations-and-labels.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"annotation `pillion.dev/inject`", "annotation `pillion.dev/status`", "label `pillion.dev/injected`"} {
		if row := "| " + key + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/reference/annotations-and-labels.md has no row that begins with %q", row)
		}
	}
	for _, name := range namespaceLabels {
		if row := "| label `pillion.dev/" + name + "` |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/reference/annotations-and-labels.md has no row that begins with %q", row)
		}
	}
}

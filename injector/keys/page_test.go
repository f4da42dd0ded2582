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
	for name, key := range own {
		if row := "| " + string(key.field) + " `pillion.dev/" + name + "` |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/reference/annotations-and-labels.md has no row that begins with %q", row)
		}
	}
}

package transcript

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// writing is held while a page is compared or written: tests run side by side.
var writing sync.Mutex

// Recorded compares the block below the comment "recorded by TEST: NAME" with the text that
// change makes of it. TEST is the test that calls it. With update it writes the block instead.
func Recorded(t testing.TB, path, name string, update bool, change func(now string) string) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	from, now := "recorded by "+test+": "+name, ""
	for _, b := range Blocks(string(page)) {
		if b.Origin == from {
			now = b.Text
		}
	}
	want := change(now)
	changed, err := Replace(string(page), from, want)
	switch {
	case err != nil:
		t.Errorf("%s: %v; it is\n%s", path, err, want)
	case now == want:
	case !update:
		t.Errorf("%s shows below <!-- %s -->\n%s\nit is now\n%s\n(go test -run '^%s$' -update writes it)", path, from, now, want, test)
	default:
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

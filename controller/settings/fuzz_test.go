package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// FuzzSettings holds for any bytes as the file of settings: they give settings, the same each time, or an error that
// says what was read.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{text, "server: {logLevle: x}", "[", "- a", "server: 1", "server: {namespace: {a: 1}}", "a: &a [*a]", "server:\n  namespace: a\n  Namespace: b\n", "reviews: {timeout: 1e99}", "namespaces: {excluded: a}", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 4<<10 {
			return
		}
		s, err := Parse(file)
		if again, err2 := Parse(file); !reflect.DeepEqual(s, again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%+v, %v, and then %+v, %v", s, err, again, err2)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "reading the settings: ") {
				t.Fatal(err)
			}
			return
		}
		if s.Validate() == nil && (s.Server.Namespace == "" || s.Server.MemoryBytes() < minMemory) {
			t.Fatalf("%+v", s)
		}
	})
}

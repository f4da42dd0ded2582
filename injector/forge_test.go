package injector

import (
	"encoding/json"
	"testing"

	"github.com/pillion-dev/pillion/injector/record"
)

func object(text string) map[string]any {
	o, err := DecodePod([]byte(text))
	if err != nil {
		panic(err)
	}
	return o
}

// forged returns a record that a forger would write: entries by path, as JSON.
func forged(t testing.TB, templates map[string]string, entries map[string]string) string {
	t.Helper()
	set := map[string]json.RawMessage{}
	for path, entry := range entries {
		set[path] = json.RawMessage(entry)
	}
	text, err := json.Marshal(map[string]any{"v": 1, "templates": templates, "set": set})
	if err != nil {
		t.Fatal(err)
	}
	pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{statusKey: string(text)}}}
	if _, err := record.Parse(pod); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

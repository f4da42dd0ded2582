package survey

import (
	"encoding/json"
	"strings"
	"testing"
)

// A page is read as the decoder of the standard library reads it, or refused.
func FuzzPage(f *testing.F) {
	for _, text := range []string{
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next"},"items":[{"metadata":{"name":"a"}},{}]}`,
		`{"items":null}`, `{"items":[]}`, `{"metadata":null,"items":[{"spec":{"x":1.50}}],"metadata":{"continue":""}}`, `{"items":[1]}`, `[]`, ``, `{"items":[{}]`, `{"metadata":{"continue":7}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var pods []map[string]any
		tooLarge, next, err := page(strings.NewReader(text), func(pod map[string]any) error {
			pods = append(pods, pod)
			return nil
		})
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		var list struct {
			Metadata struct {
				Continue any `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&list); err != nil {
			return // the API server's decoder is stricter, for example about case
		}
		if s, _ := list.Metadata.Continue.(string); s == next && len(list.Items) != len(pods)+tooLarge && !strings.Contains(strings.ToLower(text[strings.Index(text, "items")+1:]), "items") {
			t.Errorf("%d pods, of %d items", len(pods)+tooLarge, len(list.Items))
		}
	})
}

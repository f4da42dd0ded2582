package rawjson

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAListGoesOnFromPageToPage(t *testing.T) {
	late := apierrors.NewResourceExpired("the list is too old")
	late.ErrStatus.Continue = "b again"
	pages := map[string]string{
		"":        `{"metadata":{"continue":"b"},"items":[1,2]}`,
		"b again": `{"items":[3],"metadata":{"continue":"c"}}`,
		"c":       `{"metadata":{},"items":null}`,
	}
	get := func(next string) (io.ReadCloser, error) {
		if next == "b" {
			return nil, late
		}
		return io.NopCloser(strings.NewReader(pages[next])), nil
	}
	var got []string
	if err := Pages(get, func(text []byte) error { got = append(got, string(text)); return nil }); err != nil || !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("%q, %v", got, err)
	}
	stop := errors.New("enough")
	if err := Pages(get, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want the error of the item", err)
	}
	late.ErrStatus.Continue = ""
	if err := Pages(get, func([]byte) error { return nil }); !errors.Is(err, late) {
		t.Errorf("%v: a list without a token would begin again for ever", err)
	}
}

// A page is read as the decoder of the standard library reads it, or refused.
func FuzzPage(f *testing.F) {
	for _, text := range []string{
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next"},"items":[{"metadata":{"name":"a"}},{}]}`,
		`{"items":null}`, `{"items":[]}`, `{"metadata":null,"items":[{"spec":{"x":1.50}}],"metadata":{"continue":""}}`, `{"items":[1]}`, `[]`, ``, `{"items":[{}]`, `{"metadata":{"continue":7}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		items := 0
		next, err := pageOf(io.NopCloser(strings.NewReader(text)), func([]byte) error {
			items++
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
		if s, _ := list.Metadata.Continue.(string); s == next && len(list.Items) != items && !strings.Contains(strings.ToLower(text[strings.Index(text, "items")+1:]), "items") {
			t.Errorf("%d items, want %d", items, len(list.Items))
		}
	})
}

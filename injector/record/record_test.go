package record_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/record"
)

// drawPlace draws any place that a record can hold.
func drawPlace(t *rapid.T, depth int) *record.Place {
	p := &record.Place{
		Made: rapid.Bool().Draw(t, "made"), Added: rapid.Bool().Draw(t, "added"),
		Wrote: rapid.SampledFrom([]string{"", "0a1b2c3d", "$"}).Draw(t, "wrote"),
	}
	if depth == 3 && rapid.Bool().Draw(t, "was") {
		p.Was = []any{rapid.SampledFrom([]any{nil, "x", true, map[string]any{"$made": true}}).Draw(t, "value")}
	}
	if depth > 0 {
		for _, segment := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"spec", "name=web", "$made", "$$", "", "a/b~c", "={}"}), 0, 3, rapid.ID).Draw(t, "segments") {
			p.Set(segment, drawPlace(t, depth-1))
		}
	}
	return p
}

// A segment can be any text: a label's key, a set's item.
func TestWhatIsEncodedIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record.New("key")
		spec := r.Root.Enter("spec")
		spec.Made = true
		spec.Set("any", drawPlace(t, 3))
		text := r.Encode()
		pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"key": text}}, "spec": map[string]any{"any": map[string]any{}}}
		again, err := record.Parse(pod, "key")
		if err != nil {
			t.Fatalf("%v\nof %s", err, text)
		}
		if got := again.Encode(); got != text {
			t.Fatalf("got %s\nof  %s", got, text)
		}
	})
}

// A place in it that says nothing makes no difference.
func TestAPlaceThatIsNothingButADigestIsEncodedOneWay(t *testing.T) {
	for _, in := range []map[string]*record.Place{nil, {"a": {}}, {"a": {In: map[string]*record.Place{"b": {}}}}} {
		r := record.New("key")
		r.Root.Set("any", &record.Place{Wrote: "0a1b2c3d", In: in})
		if got := r.Encode(); !strings.Contains(got, `"any":"0a1b2c3d"`) {
			t.Errorf("with %d places in it: %s", len(in), got)
		}
	}
}

func TestTheBasePodHasNoRecordWhateverTheRecordSays(t *testing.T) {
	r := record.New("key")
	r.Root.Enter("metadata").Enter("annotations").Set("key", &record.Place{Was: []any{"forged"}})
	pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"key": r.Encode(), "own": "x"}}}
	parsed, err := record.Parse(pod, "key")
	if err != nil {
		t.Fatal(err)
	}
	annotations := parsed.Base(pod)["metadata"].(map[string]any)["annotations"].(map[string]any)
	if len(annotations) != 1 || annotations["own"] != "x" {
		t.Errorf("the base pod has the annotations %v", annotations)
	}
}

// The reason stands in a warning: the same pod gets the same one.
func TestTheReasonOfAMalformedRecordIsShortAndAlwaysTheSame(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf(`"%d": %d`, i, i))
	}
	for _, text := range []string{
		`{"v": 1, "pod": {` + strings.Join(many, ", ") + `}}`,
		`{"v": 1, "pod": {"` + strings.Repeat("a", 100_000) + `": 1}}`,
		`{"v": 1, "pod": [` + strings.Repeat("1, ", 30_000) + `1]}`,
		`{"v": 1, "pod": ` + strings.Repeat(`{"a": `, 5_000) + `1` + strings.Repeat("}", 5_000) + `}`,
	} {
		pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"key": text}}}
		_, first := record.Parse(pod, "key")
		if first == nil || len(first.Error()) > 1000 {
			t.Errorf("%.40s: %.2000v", text, first)
		}
		for range 20 {
			if _, again := record.Parse(pod, "key"); again == nil || again.Error() != first.Error() {
				t.Fatalf("%.40s: %.200v, and then %.200v", text, first, again)
			}
		}
	}
}

package rawjson

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// repeated returns a JSON list of n items.
func repeated(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

func objectOf(members int) string {
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, ",%q:%d", fmt.Sprint("k", i), i)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// ownSize is what the runtime and the decoder themselves may hold, whatever is decoded.
const ownSize = 64 << 10

// decoded returns what a decoded text takes, in bytes of live heap.
func decoded(t *testing.T, text string) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	runtime.KeepAlive(text)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc) - ownSize
}

func TestAnEstimateIsNeverLessThanWhatDecodingTakes(t *testing.T) {
	shapes := map[string]string{
		"variables of a pod":       repeated(`{"name":"a"}`, 4_000),
		"empty objects":            repeated(`{}`, 60_000),
		"objects of one number":    repeated(`{"a":1}`, 4_000),
		"empty lists":              repeated(`[]`, 60_000),
		"lists of one":             repeated(`[1]`, 40_000),
		"lists in lists":           repeated(strings.Repeat("[", 50)+strings.Repeat("]", 50), 2_000),
		"empty texts":              repeated(`""`, 60_000),
		"short texts":              repeated(`"a"`, 60_000),
		"digits":                   repeated(`1`, 60_000),
		"truths":                   repeated(`true`, 60_000),
		"texts of 9":               repeated(`"123456789"`, 40_000),
		"texts of 1,025":           repeated(`"`+strings.Repeat("x", 1025)+`"`, 2_000),
		"a long text":              `"` + strings.Repeat("x", 3<<20) + `"`,
		"a long text of escapes":   `"` + strings.Repeat(`\u003c`, 1<<19) + `"`,
		"quotes and backslashes":   repeated(`"\\\"\\"`, 40_000),
		"one object of very many":  objectOf(40_000),
		"objects of 8":             repeated(objectOf(8), 4_000),
		"an object in each object": strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000),
	}
	for _, n := range []int{2, 7, 9, 14, 15, 16, 28, 29, 57, 113, 225, 897} {
		shapes[fmt.Sprintf("objects of %d", n)] = repeated(objectOf(n), 40_000/n)
	}
	for name, text := range shapes {
		took, count := decoded(t, text), decodedSize([]byte(text))
		t.Logf("%s: %d bytes of text, %d decoded, count %.2f times that", name, len(text), took, float64(count)/float64(took))
		if count < took {
			t.Errorf("%s take %d bytes, and the count is %d", name, took, count)
		}
	}
	// The largest pod that can be stored has to fit, so the count of the densest kind
	// must not be far off.
	text := shapes["variables of a pod"]
	if took, count := decoded(t, text), decodedSize([]byte(text)); count > took*5/4 {
		t.Errorf("variables take %d bytes, and the count is %d: more than a quarter too much", took, count)
	}
}

func FuzzExceeds(f *testing.F) {
	for _, text := range []string{`{"a":[1,{"b":"\""}]}`, `"`, `[[[,,,:::`, "", `{}`, `[{},{},{}]`, strings.Repeat(`{"":`, 40) + "1" + strings.Repeat("}", 40),
		strings.Repeat(`[`, 40) + strings.Repeat("]", 40), `{"":{"":0},"":{"":0}}`, `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0}`, `["","",""]`, `[{"":""},{"":""},{"":""}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		size := decodedSize(text)
		if size < 0 || size > MaxSize(len(text)) {
			t.Errorf("%d bytes of JSON take %d; the most are %d", len(text), size, MaxSize(len(text)))
		}
		if longer := decodedSize(append(append([]byte("["), text...), ']')); json.Valid(text) && longer < size {
			t.Errorf("in a list, the text takes %d, and by itself %d", longer, size)
		}
	})
}

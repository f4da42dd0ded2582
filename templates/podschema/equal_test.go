package podschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/internal/tabletest"
	"sigs.k8s.io/yaml"
)

func TestEqualityIsTheAPIs(t *testing.T) {
	for _, row := range tabletest.Rows(t, "testdata/equal.txt") {
		a, b, _ := strings.Cut(row.Input, "\n")
		if got := Equal(At(row.Name), parse(t, "v: "+a)["v"], parse(t, "v: "+b)["v"]); got != (row.Want() == "equal") {
			t.Errorf("%s: %s and %s equal: %v", row.Name, a, b, got)
		}
	}
}

func TestHugeExponentsCostNothing(t *testing.T) {
	for _, in := range []any{json.Number("1e999999999"), "1e-999999999", "1e2147483647", strings.Repeat("9", 1<<20), json.Number("1e400")} {
		if q, ok := Quantity(in); ok {
			t.Errorf("%.20v is a quantity: %.20s", in, q)
		}
		canonicalNumber("1e999999999")
	}
}

// parse reads YAML as a pod is decoded: numbers stay exact.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return decode(t, b)
}

func decode(t testing.TB, b []byte) map[string]any {
	t.Helper()
	v, err := DecodeObject(b)
	if err != nil {
		t.Fatalf("decoding %s: %v", b, err)
	}
	return v
}

func text(v any) string { return string(Encode(v)) }

// refusedIn returns the scalars of a pod that their types refuse, by their fields.
func refusedIn(t *Type, v any, field string) map[string]error {
	all := map[string]error{}
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			maps.Copy(all, refusedIn(t.Child(key), v[key], field+"."+key))
		}
	case []any:
		for i := range v {
			maps.Copy(all, refusedIn(t.Elem(), v[i], fmt.Sprintf("%s[%d]", field, i)))
		}
	default:
		if err := t.Validate(v); err != nil {
			all[field] = err
		}
	}
	return all
}

func TestTheSchemaRefusesScalarsThatTheAPIDoesNotTake(t *testing.T) {
	data, err := os.ReadFile("testdata/scalars.yaml")
	errtest.ExpectNone(t, err)
	var cases []struct {
		Field           string
		Spec, Container map[string]any
	}
	errtest.ExpectNone(t, yaml.Unmarshal(data, &cases))
	for _, c := range cases {
		container := map[string]any{"name": "app", "image": "a:1"}
		maps.Copy(container, c.Container)
		spec := map[string]any{"containers": []any{container}}
		maps.Copy(spec, c.Spec)
		pod := decode(t, encoded(t, map[string]any{"spec": spec}))
		refused := refusedIn(Pod(), pod, "")
		if len(refused) != 1 || refused["."+c.Field] == nil {
			t.Errorf("%s: %v", c.Field, refused)
		}
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	errtest.ExpectNone(t, err)
	return text
}

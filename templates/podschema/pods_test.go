package podschema

import (
	"testing"

	"sigs.k8s.io/yaml"
)

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

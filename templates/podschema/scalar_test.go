package podschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

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
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Field           string
		Spec, Container map[string]any
	}
	if err := yaml.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	item, untried := regexp.MustCompile(`\[\d+\]`), map[*Type]string{}
	for path := range numberPaths {
		untried[At(path)] = path
	}
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
		if path := item.ReplaceAllString(c.Field, "[]"); !strings.Contains(path, ".limits.") {
			delete(untried, At(path))
		}
	}
	for _, path := range untried {
		t.Errorf("no pod breaks %s", path)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAQuantityThatIsNoneIsNamedWithOneThatIs(t *testing.T) {
	for text, want := range map[string]string{
		"64MB": "is no quantity; write 64M or 64Mi", "64mb": "is no quantity; write 64M or 64Mi", "1.5 GiB": "is no quantity; write 1.5Gi",
		"64mi": "is no quantity; write 64Mi", "64KB": "is no quantity; write 64k or 64Ki", "ten": "is no quantity; write a number with a unit or without, such as 100m, 64M or 64Mi",
		"": "is no quantity; write a number with a unit or without, such as 100m, 64M or 64Mi", strings.Repeat("9", 1<<20) + "MB": "is no quantity; write a number with a unit or without, such as 100m, 64M or 64Mi",
		"64Mi": "", "100m": "", "0": "", "1e3": "", ".5": "",
	} {
		got := ""
		if err := At("spec.overhead").Elem().Validate(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20s: %s; want %s", text, got, want)
		}
		if _, forms, _ := strings.Cut(want, "write "); len(forms) > 0 && len(forms) < 20 {
			for form := range strings.SplitSeq(forms, " or ") {
				if _, ok := ParseQuantity(form); !ok {
					t.Errorf("%s: the form %s is none either", text, form)
				}
			}
		}
	}
	if err := At("spec.containers[].livenessProbe.httpGet.port").Validate("metrics"); err != nil {
		t.Error(err)
	}
}

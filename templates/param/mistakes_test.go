package param

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

func TestMistakesOfOneLevelAreFoundWithoutTheOther(t *testing.T) {
	s := Compile(Template{Name: "a", Patterns: &Patterns{}}, []v1alpha1.Parameter{
		{Name: "level", Type: v1alpha1.String, Constraints: v1alpha1.Constraints{Enum: []json.RawMessage{json.RawMessage(`"low"`), json.RawMessage(`"high"`)}}},
		{Name: "role", Type: v1alpha1.String, Required: true, SetBy: []v1alpha1.Level{v1alpha1.Pod}},
		{Name: "out", Type: v1alpha1.Map, Items: &v1alpha1.Items{Type: v1alpha1.Integer}},
	}, nil, func(at *manifest.Path, message string) { t.Fatalf("%s: %s", at, message) })
	for _, test := range []struct {
		from        Origin
		annotations map[string]string
		want        []string
	}{
		{FromNamespace, nil, nil},
		{FromNamespace, map[string]string{"a.pillion.dev/level": "low", "a.pillion.dev/out.x": "1", "a.pillion.dev/nope": "", "b.pillion.dev/level": "x"}, nil},
		{FromNamespace, map[string]string{"a.pillion.dev/level": "loud", "a.pillion.dev/role": "x", "a.pillion.dev/out.x": "one"},
			[]string{"annotation a.pillion.dev/level on the namespace", "may be set by the pod", "a.pillion.dev/out.x on the namespace"}},
		{FromPod, map[string]string{"a.pillion.dev/role": "x", "a.pillion.dev/level": "loud"}, []string{"annotation a.pillion.dev/level on the pod"}},
	} {
		found := s.Mistakes(test.from, test.annotations)
		if len(found) != len(test.want) {
			t.Errorf("%v: %d mistakes, want %d: %v", test.annotations, len(found), len(test.want), found)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(found[i].Error(), want) {
				t.Errorf("%q lacks %q", found[i], want)
			}
		}
	}
}

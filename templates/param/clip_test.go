package param

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// setOf compiles one parameter p of the template t.
func setOf(t testing.TB, d v1alpha1.Parameter) *Set {
	t.Helper()
	d.Name = "p"
	return Compile(Template{Name: "t", Patterns: &Patterns{}}, []v1alpha1.Parameter{d}, nil, func(_ *manifest.Path, message string) { t.Fatal(message) })
}

func TestALongValueOfAnyTypeIsClippedInItsRefusal(t *testing.T) {
	one := int64(1)
	long := strings.Repeat("ä", 100_000)
	for _, d := range []v1alpha1.Parameter{
		{Type: v1alpha1.String, Constraints: v1alpha1.Constraints{MaxLength: &one}}, {Type: v1alpha1.JSON, Constraints: v1alpha1.Constraints{MaxLength: &one}},
		{Type: v1alpha1.Integer}, {Type: v1alpha1.Number}, {Type: v1alpha1.Boolean}, {Type: v1alpha1.Quantity}, {Type: v1alpha1.Duration}, {Type: v1alpha1.Image},
		{Type: v1alpha1.List, Items: &v1alpha1.Items{Type: v1alpha1.Integer}},
	} {
		for _, text := range []string{long, `"` + long + `"`} {
			_, err := setOf(t, d).Resolve(Annotations{Pod: map[string]string{"t.pillion.dev/p": text}})
			if err == nil {
				t.Errorf("%s takes it", d.Type)
			} else if n := utf8.RuneCountInString(err.Error()); n > 450 || !strings.Contains(err.Error(), "…") {
				t.Errorf("%s: %d characters: %s", d.Type, n, err)
			}
		}
	}
}

package templates

import (
	"encoding/json"
	"strings"
	"testing"
)

// ofKind returns a spec, as JSON, as the manifest of a template of the cluster, or of a namespace.
func ofKind(namespaced bool, spec string) []byte {
	if namespaced {
		return []byte(`{"apiVersion":"pillion.dev/v1alpha1","kind":"NamespacedSidecarTemplate","metadata":{"name":"t","namespace":"shop"},"spec":` + spec + `}`)
	}
	return []byte(`{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"t"},"spec":` + spec + `}`)
}

func TestATenantsTemplateIsBoundedBeforeItIsCompiled(t *testing.T) {
	const inject = `"inject":{"metadata":{"annotations":{"a":"b"}}}`
	quote := func(text string) string {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(quoted)
	}
	parameter := func(constraints string) string {
		return `{"parameters":[{"name":"p","type":"string",` + constraints + `}],` + inject + `}`
	}
	variable := func(expr string) string {
		return `{"variables":[{"name":"v","expression":` + quote(expr) + `}],` + inject + `}`
	}
	macros := "[" + strings.Repeat("[].map(a,a),", 1200) + "1]"
	const size, computed, long = "instructions; at most 250 are allowed in a template of a namespace", "is not a literal text", "bytes; at most 256 are allowed in a template of a namespace"
	for name, c := range map[string]struct{ spec, field, want string }{
		"a pattern":             {parameter(`"pattern":"a{1000}b{1000}"`), "spec.parameters[0].pattern", size},
		"nested":                {parameter(`"pattern":"((a{10}b){10}c){10}"`), "spec.parameters[0].pattern", size},
		"a long pattern":        {parameter(`"pattern":"` + strings.Repeat("[ab]", 300) + `"`), "spec.parameters[0].pattern", long},
		"the pattern of items":  {`{"parameters":[{"name":"p","type":"list","items":{"type":"string","pattern":"a{1000}b{1000}"}}],` + inject + `}`, "spec.parameters[0].items.pattern", size},
		"eleven together":       {`{"parameters":[{"name":"p","type":"string","pattern":"a"}],"variables":[{"name":"v","expression":"` + strings.Repeat("'x'.matches('a') || ", 9) + `matches('x', 'b')"}],` + inject + `}`, "spec.variables[0].expression", "one regular expression too many; at most 10 are allowed in a template of a namespace"},
		"matches":               {variable("'x'.matches('a{1000}b{1000}')"), "spec.variables[0].expression", size},
		"matches as a function": {variable("matches('x', 'a{1000}b{1000}')"), "spec.variables[0].expression", size},
		"find":                  {variable("'x'.find('a{1000}b{1000}')"), "spec.variables[0].expression", size},
		"findAll":               {variable("'x'.findAll('a', 1)"), "spec.variables[0].expression", "cannot call findAll"},
		"in a loop":             {variable("['x'].filter(x, x.matches('a{1000}b{1000}'))"), "spec.variables[0].expression", size},
		"in a key":              {`{"inject":{"metadata":{"annotations":{"x":"${'x'.find('a{1000}b{1000}')}"}}}}`, "spec.inject.metadata.annotations.x", size},
		"computed":              {variable("'x'.matches(['a{1000}'].join(''))"), "spec.variables[0].expression", computed},
		"joined":                {variable("'x'.find('a' + 'b')"), "spec.variables[0].expression", computed},
		"bound":                 {variable("['a'].map(p, 'x'.find(p))"), "spec.variables[0].expression", computed},
		"of a pod":              {variable("matches('x', pod.metadata.name)"), "spec.variables[0].expression", computed},
		"a long expression":     {variable(macros), "spec.variables[0].expression", "bytes; allowed are 1024"},
		"a long text":           {`{"inject":{"metadata":{"annotations":{"x":"a ${'` + strings.Repeat("x", 1100) + `'}"}}}}`, "spec.inject.metadata.annotations.x", "bytes; allowed are 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Compile(ofKind(true, c.spec), Options{Source: "NamespacedSidecarTemplate/shop/t"})
			if err == nil || !strings.Contains(err.Error(), c.field+": ") || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("of a namespace: %.2000v, want %s and %s", err, c.field, c.want)
			}
			if name == "a long expression" {
				return // it takes a second
			}
			if _, _, err := Compile(ofKind(false, c.spec), Options{Source: "SidecarTemplate/t"}); err != nil {
				t.Errorf("of the cluster: %v", err)
			}
		})
	}
	for _, spec := range []string{
		parameter(`"pattern":"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"`), variable("'x'.matches('^[a-z]{1,63}$') && matches('x', r'\\d') && 'x'.find('a') == ''"),
	} {
		if _, _, err := Compile(ofKind(true, spec), Options{}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

package templates

import (
	"errors"
	"strings"
	"testing"
)

// valueOf compiles a template with the parameter p of the given declaration, and
// resolves the annotation's text.
func valueOf(t *testing.T, declaration, text string) (any, error) {
	t.Helper()
	tmpl := compiled(t, "parameters: [{name: p, "+declaration+"}]\ninject: {}")
	r, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/p": text})})
	if err != nil {
		return nil, err
	}
	return r.Params["p"], nil
}

func TestEveryTypeTakesWhatIsAllowedAndRefusesTheRest(t *testing.T) {
	for _, c := range []struct {
		declaration string
		good        []string
		bad         []string
		says        string
	}{
		{"type: string", []string{"", " ", "a\nb", `"'{}$`, "ünï"}, nil, ""},
		{"type: string, enum: [a, b]", []string{"a"}, []string{"", "A", "a "}, "must be one of a, b"},
		{"type: string, pattern: 'a|bc'", []string{"a", "bc"}, []string{"ab", "xbc", "a\n", "bcx"}, "must be text that matches a|bc as a whole"},
		{"type: string, maxLength: 2", []string{"", "üü"}, []string{"üüü"}, "at most 2 characters long"},
		{"type: integer", []string{"0", "-1", "9223372036854775807"}, []string{"", "1.0", "1e3", "+1", "01", " 1", "0x1", "1_0", "9223372036854775808"}, "must be a whole number"},
		{"type: integer, minimum: 1, maximum: \"3\"", []string{"1", "3"}, []string{"0", "4"}, "must be a whole number, at least 1, at most 3"},
		{"type: integer, enum: [1, 2]", []string{"2"}, []string{"3", "2.0"}, "must be one of 1, 2"},
		{"type: number", []string{"0", "1.5", "-2e3"}, []string{"", ".5", "1.", "NaN", "Inf", "1e999", "0x1p4"}, "must be a number"},
		{"type: number, maximum: 0.5", []string{"0.5"}, []string{"0.51"}, "at most 0.5"},
		{"type: boolean", []string{"true", "false"}, []string{"", "True", "yes", "1"}, "must be true or false"},
		{"type: quantity", []string{"0", "64Mi", "100m", "1.5Gi", "1e3", "-1"}, []string{"", "64 Mi", "64MB", "1e999999999", "Mi", strings.Repeat("9", 99)}, "must be a quantity"},
		{"type: quantity, maximum: 512Mi", []string{"0.5Gi", "512Mi"}, []string{"1Gi", "0.6Gi"}, "at most 512Mi"},
		{"type: quantity, enum: [1Gi]", []string{"1Gi", "1024Mi"}, []string{"1G"}, "must be one of 1Gi"},
		{"type: duration", []string{"0s", "1h30m", "1.5s", "-1s"}, []string{"", "1", "1 h", "1d"}, "must be a duration"},
		{"type: duration, minimum: 1m, maximum: 1h", []string{"60s", "60m"}, []string{"59s", "61m"}, "at least 1m, at most 1h"},
		{"type: image", []string{"nginx", "nginx:1.2", "a.b/c/d_e:T", "localhost:5000/x", "A.b:80/c@sha256:" + strings.Repeat("a", 64), "[::1]:5000/a"},
			[]string{"", "Nginx", "a b", "a:", "a@sha256:1", "https://a/b", "a//b", "-a", "a:b:c", "a\n", strings.Repeat("a", 600)}, "must be an image reference"},
		{"type: image, pattern: 'registry.example.com/.*'", []string{"registry.example.com/a"}, []string{"docker.io/a"}, "as a whole"},
		{"type: json", []string{"1", "null", `{"a":[1,2]}`, ` "x" `}, []string{"", "{", "1 2", "'a'"}, "must be JSON"},
		{"type: list, items: string", []string{"", "a", "a, b", "a,,b"}, nil, ""},
		{"type: list, items: integer", []string{"", " 1 , 2 "}, []string{"1,", "a", "1;2"}, "of the list must be a whole number"},
		{"type: list, items: {type: string, enum: [a, b], maxLength: 3}", []string{"a,b,a"}, []string{"a,c"}, `each item of the list must be one of a, b`},
	} {
		for _, text := range c.good {
			if _, err := valueOf(t, c.declaration, text); err != nil {
				t.Errorf("%s refuses %q: %v", c.declaration, text, err)
			}
		}
		for _, text := range c.bad {
			_, err := valueOf(t, c.declaration, text)
			var bad *ParameterError
			if !errors.As(err, &bad) {
				t.Errorf("%s takes %q; error %v", c.declaration, text, err)
				continue
			}
			if !strings.Contains(bad.Message, c.says) || bad.Origin != FromPod || bad.Annotation != "t.pillion.dev/p" || bad.Template != "t" {
				t.Errorf("%s refuses %q with %q", c.declaration, text, bad)
			}
		}
	}
}

func TestAMapIsGatheredKeyByKeyAcrossLevels(t *testing.T) {
	tmpl := compiled(t, "parameters: [{name: output, type: map, items: string, default: {a: d, b: d, c: d}}]\ninject: {}")
	r := rendered(t, tmpl, Input{
		Pod:       onePod(t, map[string]string{"t.pillion.dev/output.c": "p", "t.pillion.dev/output.x.y": "p"}),
		Namespace: Namespace{Annotations: map[string]string{"t.pillion.dev/output.b": "n", "t.pillion.dev/output.c": "n"}},
	})
	if got := asJSON(t, r.Params["output"]); got != `{"a":"d","b":"n","c":"p","x.y":"p"}` || r.Origins["output"] != FromPod {
		t.Errorf("%s from %s", got, r.Origins["output"])
	}
	empty := compiled(t, "parameters: [{name: output, type: map, items: integer}]\ninject: {}")
	if got := asJSON(t, rendered(t, empty, Input{Pod: onePod(t, nil)}).Params["output"]); got != "{}" {
		t.Errorf("a map without annotations is %s", got)
	}
	_, err := empty.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/output.a": "x"})})
	if want := `annotation t.pillion.dev/output.a on the pod: must be a whole number; got "x"`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = empty.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/output": "x"})})
	if err == nil || !strings.Contains(err.Error(), "set t.pillion.dev/output.KEY instead") {
		t.Errorf("a map set as a whole: error %v", err)
	}
}

func TestARequiredParameterMustBeSet(t *testing.T) {
	for declaration, value := range map[string]string{"type: string": "", "type: list, items: string": "", "type: integer": "1"} {
		tmpl := compiled(t, "parameters: [{name: bigName, required: true, setBy: [Namespace], "+declaration+"}]\ninject: {}")
		_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, nil)})
		var bad *ParameterError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), "annotation t.pillion.dev/big-name: it is missing, and the template t requires it: set it on the namespace; it must be ") {
			t.Errorf("%s: error %v", declaration, err)
		}
		rendered(t, tmpl, Input{Pod: onePod(t, nil), Namespace: Namespace{Annotations: map[string]string{"t.pillion.dev/big-name": value}}})
	}
	tmpl := compiled(t, "parameters: [{name: m, required: true, type: map, items: string}]\ninject: {}")
	if _, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, nil)}); err == nil {
		t.Error("a required map may be empty")
	}
	tmpl = compiled(t, "parameters: [{name: repository, type: string, required: true}, {name: branch, type: string}]\ninject: {}")
	_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/repositry": "x", "t.pillion.dev/branch": "y"})})
	if want := "; the pod has t.pillion.dev/repositry, which is no parameter: did you mean t.pillion.dev/repository?"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a misspelt one: error %v; want it to end in %q", err, want)
	}
}

// A team that comes from another injector keeps its annotations.
func TestASecondAnnotationSetsAParameterAsTheFirstDoes(t *testing.T) {
	tmpl := compiled(t, `parameters:
- {name: role, type: string, pattern: "[a-z-]+", required: true, annotation: old.example.com/role}
- {name: ports, type: list, items: integer, annotation: old.example.com/ports, default: "8080"}
- {name: secrets, type: map, items: string, annotation: old.example.com/secret-KEY, setBy: [Pod]}
inject: {}`)
	const old = "old.example.com/"
	for _, c := range []struct {
		namespace, pod map[string]string
		want           string
	}{
		{nil, map[string]string{old + "role": "a", old + "ports": "1,2", old + "secret-db": "x", old + "secret-": "none"}, `{"ports":[1,2],"role":"a","secrets":{"db":"x"}}`},
		{map[string]string{old + "role": "a"}, nil, `{"ports":[8080],"role":"a","secrets":{}}`},
		{nil, map[string]string{old + "role": "A bad one", "t.pillion.dev/role": "first"}, `{"ports":[8080],"role":"first","secrets":{}}`},
		{map[string]string{"t.pillion.dev/role": "namespace"}, map[string]string{old + "role": "pod"}, `{"ports":[8080],"role":"pod","secrets":{}}`},
		{nil, map[string]string{old + "role": "a", old + "secret-a": "old", old + "secret-b": "old", "t.pillion.dev/secrets.b": "first"}, `{"ports":[8080],"role":"a","secrets":{"a":"old","b":"first"}}`},
	} {
		in := Input{Pod: onePod(t, c.pod), Namespace: Namespace{Name: "shop", Annotations: c.namespace}}
		if got := asJSON(t, rendered(t, tmpl, in).Params); got != c.want {
			t.Errorf("%v on the namespace, %v on the pod:\n got %s\nwant %s", c.namespace, c.pod, got, c.want)
		}
	}
	for _, c := range []struct {
		namespace, pod map[string]string
		want           string
	}{
		{nil, nil, "annotation t.pillion.dev/role (or old.example.com/role): it is missing, and the template t requires it"},
		{nil, map[string]string{old + "role": "A"}, `annotation old.example.com/role (or t.pillion.dev/role) on the pod: must be text that matches [a-z-]+ as a whole; got "A"`},
		{nil, map[string]string{"t.pillion.dev/role": "A"}, `annotation t.pillion.dev/role (or old.example.com/role) on the pod: must be text`},
		{map[string]string{old + "role": "a", old + "ports": "x"}, nil, `annotation old.example.com/ports (or t.pillion.dev/ports) on the namespace: each item of the list must be a whole number; got "x"`},
		{map[string]string{old + "role": "a", old + "secret-db": "x"}, nil, "annotation old.example.com/secret-db (or t.pillion.dev/secrets.KEY) on the namespace: may not be set there; it may be set by the pod"},
	} {
		_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, c.pod), Namespace: Namespace{Name: "shop", Annotations: c.namespace}})
		var bad *ParameterError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v on the namespace, %v on the pod:\n got %v\nwant %s", c.namespace, c.pod, err, c.want)
		}
	}
	if got := tmpl.Mistakes(FromPod, map[string]string{old + "role": "A"}); len(got) != 1 {
		t.Errorf("mistakes of the pod alone: %v", got)
	}
}

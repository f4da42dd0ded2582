package apply

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// java is a template that appends an agent to JAVA_TOOL_OPTIONS of the container web.
func java(t testing.TB, name, agent string) Fragment {
	return fragment(t, name, "spec: {containers: [{name: web, env: [{name: JTO, $append: ' ', value: '"+agent+"'}]}]}")
}

// webWith is a pod whose container web has these items in its environment.
func webWith(t testing.TB, env string) map[string]any {
	if env == "" {
		return parse(t, "spec: {containers: [{name: web, image: x}]}")
	}
	return parse(t, "spec: {containers: [{name: web, image: x, env: ["+env+"]}]}")
}

func envOf(t testing.TB, pod map[string]any) string {
	return text(at(t, pod, "spec", "containers", "0", "env"))
}

const fromSecret = `{name: JTO, valueFrom: {secretKeyRef: {name: s, key: k}}}`
const secretItem = `{"name":"JTO","valueFrom":{"secretKeyRef":{"key":"k","name":"s"}}}`

func TestATextIsAppendedOnce(t *testing.T) {
	item := func(value string) string { return `{"name":"JTO","value":"` + value + `"}` }
	for name, c := range map[string]struct{ env, want string }{
		"no environment":              {"", "[" + item("-a -b") + "]"},
		"no such variable":            {"{name: X, value: v}", `[{"name":"X","value":"v"},` + item("-a -b") + "]"},
		"a value":                     {"{name: JTO, value: -Xmx1g}", "[" + item("-Xmx1g -a -b") + "]"},
		"a value and a later one":     {"{name: JTO, value: -Xmx1g}, {name: Z, value: $(JTO)}", "[" + item("-Xmx1g -a -b") + `,{"name":"Z","value":"$(JTO)"}]`},
		"an empty value":              {"{name: JTO, value: ''}", "[" + item("-a -b") + "]"},
		"no value":                    {"{name: JTO}", "[" + item("-a -b") + "]"},
		"null":                        {"{name: JTO, value: null, valueFrom: null}", `[{"name":"JTO","value":"-a -b","valueFrom":null}]`},
		"a field of a later version":  {"{name: JTO, value: v, newer: 1}", `[{"name":"JTO","newer":1,"value":"v -a -b"}]`},
		"the text itself":             {"{name: JTO, value: -a}", "[" + item("-a -b") + "]"},
		"the text in front":           {"{name: JTO, value: -a -x}", "[" + item("-a -x -b") + "]"},
		"the text in the middle":      {"{name: JTO, value: -x -a -y}", "[" + item("-x -a -y -b") + "]"},
		"all of it":                   {"{name: JTO, value: -x -b -a}", "[" + item("-x -b -a") + "]"},
		"a part that is longer":       {"{name: JTO, value: -ab -ba}", "[" + item("-ab -ba -a -b") + "]"},
		"a source":                    {fromSecret, "[" + secretItem + "," + item("$(JTO) -a -b") + "]"},
		"a source and a later one":    {fromSecret + ", {name: Z, value: $(JTO)}", "[" + secretItem + "," + item("$(JTO) -a -b") + `,{"name":"Z","value":"$(JTO)"}]`},
		"twice":                       {"{name: JTO, value: -a}, {name: JTO, value: v}", "[" + item("-a") + "," + item("v -a -b") + "]"},
		"twice, the last of a source": {"{name: JTO, value: v}, " + fromSecret, "[" + item("v") + "," + secretItem + "," + item("$(JTO) -a -b") + "]"},
		"twice, the second continues": {fromSecret + ", {name: JTO, value: $(JTO) -b}", "[" + secretItem + "," + item("$(JTO) -b -a") + "]"},
		"twice, what would be equal":  {"{name: JTO, value: v -a -b}, {name: JTO, value: v}", "[" + item("v -a -b") + "," + item("v -a -b") + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := lawful(t, webWith(t, c.env), java(t, "a", "-a"), java(t, "b", "-b"))
			if got := envOf(t, r.Pod); got != c.want || len(r.Warnings) > 0 {
				t.Errorf("got  %s\nwant %s\nwarnings %q", got, c.want, r.Warnings)
			}
		})
	}
}

func TestATextIsPrependedOnceInTheOrderOfTheTemplates(t *testing.T) {
	in := func(name, text, directive string) Fragment {
		return fragment(t, name, "spec: {containers: [{name: web, env: [{name: JTO, "+directive+": ':', value: '"+text+"'}]}]}")
	}
	for name, c := range map[string]struct{ env, want string }{
		"no environment":     {"", `[{"name":"JTO","value":"/a:/b:/z"}]`},
		"a value":            {"{name: JTO, value: /x}", `[{"name":"JTO","value":"/a:/b:/x:/z"}]`},
		"a text of them":     {"{name: JTO, value: '/x:/b'}", `[{"name":"JTO","value":"/a:/x:/b:/z"}]`},
		"the appended one":   {"{name: JTO, value: '/z:/x'}", `[{"name":"JTO","value":"/a:/b:/z:/x"}]`},
		"a source":           {fromSecret, "[" + secretItem + `,{"name":"JTO","value":"/a:/b:$(JTO):/z"}]`},
		"twice, a source":    {"{name: JTO, value: v}, " + fromSecret, `[{"name":"JTO","value":"v"},` + secretItem + `,{"name":"JTO","value":"/a:/b:$(JTO):/z"}]`},
		"all in another row": {"{name: JTO, value: '/z:/b:/a'}", `[{"name":"JTO","value":"/z:/b:/a"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			r := lawful(t, webWith(t, c.env), in("a", "/a", "$prepend"), in("b", "/z", "$append"), in("c", "/b", "$prepend"))
			if got := envOf(t, r.Pod); got != c.want || len(r.Warnings) > 0 {
				t.Errorf("got  %s\nwant %s\nwarnings %q", got, c.want, r.Warnings)
			}
		})
	}
	note := fragment(t, "a", "metadata: {annotations: {note: {$prepend: ',', value: x}}}")
	if r := lawful(t, parse(t, "{metadata: {annotations: {note: old}}, spec: {containers: []}}"), note); text(at(t, r.Pod, "metadata", "annotations", "note")) != `"x,old"` {
		t.Errorf("the annotation is %s", text(at(t, r.Pod, "metadata", "annotations", "note")))
	}
}

func TestAnAnnotationIsAppendedTo(t *testing.T) {
	ports := func(name, text, separator string) Fragment {
		return fragment(t, name, "metadata: {annotations: {ports: {$append: '"+separator+"', value: '"+text+"'}}}")
	}
	for name, c := range map[string]struct{ metadata, want string }{
		"no metadata":        {"", "8080,9090;81"},
		"no annotations":     {"metadata: {name: p}\n", "8080,9090;81"},
		"null annotations":   {"metadata: {name: p, annotations: null}\n", "8080,9090;81"},
		"another annotation": {"metadata: {annotations: {a: b}}\n", "8080,9090;81"},
		"a value":            {"metadata: {annotations: {ports: '1,2'}}\n", "1,2,8080,9090;81"},
		"the text is there":  {"metadata: {annotations: {ports: '9090,8080'}}\n", "9090,8080;81"},
		"a longer one":       {"metadata: {annotations: {ports: '18080'}}\n", "18080,8080,9090;81"},
		"an empty one":       {"metadata: {annotations: {ports: ''}}\n", "8080,9090;81"},
		"all of it":          {"metadata: {annotations: {ports: '9090;81;8080,9090,8080'}}\n", "9090;81;8080,9090,8080"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parse(t, c.metadata+"spec: {containers: []}")
			r := lawful(t, pod, ports("a", "8080", ","), ports("b", "9090", ","), ports("c", "81", ";"), ports("d", "", ","))
			if got := at(t, r.Pod, "metadata", "annotations", "ports"); got != c.want || len(r.Warnings) > 0 {
				t.Errorf("got %v, want %s; warnings %q", got, c.want, r.Warnings)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		pod := parse(t, "metadata: {name: p}\nspec: {containers: [{name: web, image: x}]}")
		r := mustMerge(t, pod, ports("a", "", ","), java(t, "b", ""))
		if len(r.Operations) > 0 || len(r.Templates) > 0 {
			t.Errorf("an empty text changes the pod: %s", text(r.Operations))
		}
	})
}

// Whatever the order of the templates, the outcome is the same, but for the order of what
// they append.
func TestOneTemplateSetsPlainlyAndAnotherAppends(t *testing.T) {
	env := func(name, item string) Fragment {
		return fragment(t, name, "spec: {containers: [{name: web, env: ["+item+"]}]}")
	}
	note := func(name, value string) Fragment {
		return fragment(t, name, "metadata: {annotations: {note: "+value+"}}")
	}
	appends, notes := env("appends", "{name: JTO, $append: ' ', value: -a}"), note("appends", "{$append: ' ', value: -a}")
	for name, c := range map[string]struct {
		pod      map[string]any
		plain    Fragment
		appends  Fragment
		want     string
		conflict string
		warning  string
	}{
		"nothing there":                 {webWith(t, ""), env("plain", "{name: JTO, value: v}"), appends, `[{"name":"JTO","value":"v -a"}]`, "", ""},
		"the same text":                 {webWith(t, ""), env("plain", "{name: JTO, value: -a}"), appends, `[{"name":"JTO","value":"-a"}]`, "", ""},
		"the pod's stays":               {webWith(t, "{name: JTO, value: own}"), env("plain", "{name: JTO, value: v}"), appends, `[{"name":"JTO","value":"own -a"}]`, "", "template plain: spec.containers[name=web].env[name=JTO]: the pod's value is used, not the template's"},
		"the pod's is overwritten":      {webWith(t, "{name: JTO, value: own}"), env("plain", "{name: JTO, value: v, $onConflict: Overwrite}"), appends, `[{"name":"JTO","value":"v -a"}]`, "", ""},
		"the pod's source":              {webWith(t, fromSecret), env("plain", "{name: JTO, value: v, $patch: replace}"), appends, `[{"name":"JTO","value":"v -a"}]`, "", ""},
		"the template's source":         {webWith(t, ""), env("plain", fromSecret), appends, "", `template appends conflicts at spec.containers[name=web].env[name=JTO]: template plain has {"name":"JTO","valueFrom":{"secretKeyRef":{"key":"k","name":"s"}}}, the template sets "-a" (the variable has a source, and only the pod's author may combine that with a text)`, ""},
		"the pod's and the template's":  {webWith(t, fromSecret), env("plain", fromSecret), appends, "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -a"}]`, "", ""},
		"the pod's is refused":          {webWith(t, "{name: JTO, value: own}"), env("plain", "{name: JTO, value: v, $onConflict: Deny}"), appends, "", `template plain conflicts at spec.containers[name=web].env[name=JTO]: the pod has`, ""},
		"deleted":                       {webWith(t, "{name: JTO, value: own}"), env("plain", "{name: JTO, $patch: delete}"), appends, "", "spec.containers[name=web].env[name=JTO]", ""},
		"the environment is taken away": {webWith(t, "{name: JTO, value: own}"), fragment(t, "plain", "spec: {containers: [{name: web, $unset: [env]}]}"), appends, "", "spec.containers[name=web].env", ""},
		"an annotation":                 {parse(t, "spec: {}"), note("plain", "v"), notes, `{"note":"v -a"}`, "", ""},
		"the pod's annotation":          {parse(t, "metadata: {annotations: {note: own}}\nspec: {}"), note("plain", "v"), notes, `{"note":"own -a"}`, "", "template plain: metadata.annotations.note: the pod's value is used, not the template's"},
		"an overwritten annotation":     {parse(t, "metadata: {annotations: {note: own}}\nspec: {}"), note("plain", "{$onConflict: Overwrite, value: v}"), notes, `{"note":"v -a"}`, "", ""},
		"an annotation taken away":      {parse(t, "metadata: {annotations: {note: own}}\nspec: {}"), fragment(t, "plain", "metadata: {annotations: {$unset: [note]}}"), notes, "", "metadata.annotations.note", ""},
	} {
		for order, frags := range map[string][]Fragment{"plain first": {c.plain, c.appends}, "plain last": {c.appends, c.plain}} {
			t.Run(name+", "+order, func(t *testing.T) {
				if c.conflict != "" {
					_, err := mergeInto(t, c.pod, frags...)
					var conflict *ConflictError
					if !errors.As(err, &conflict) || !strings.Contains(err.Error(), c.conflict) {
						t.Fatalf("error %v, want a conflict with %q", err, c.conflict)
					}
					return
				}
				r := lawful(t, c.pod, frags...)
				got := ""
				if metadata := objectOf(r.Pod["metadata"]); strings.HasPrefix(c.want, "{") {
					got = text(map[string]any{"note": objectOf(metadata["annotations"])["note"]})
				} else {
					got = envOf(t, r.Pod)
				}
				if got != c.want || strings.Join(r.Warnings, "\n") != c.warning {
					t.Errorf("got  %s, warnings %q\nwant %s", got, r.Warnings, c.want)
				}
				if !slices.Contains(r.Templates, "appends") && !strings.Contains(name, "same") {
					t.Errorf("templates %v", r.Templates)
				}
			})
		}
	}
}

func TestASidecarsVariableIsAppendedTo(t *testing.T) {
	side := func(fields string) string { return "spec: {containers: [{name: side, " + fields + "}]}" }
	own := fragment(t, "own", side("image: x, env: [{name: J, $append: ' ', value: -a}, {name: J, $append: ' ', value: -b}, {name: K, $append: ' ', value: ''}]"))
	with := fragment(t, "with", side("env: [{name: J, $append: ',', value: c}]"))
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	r := lawful(t, pod, own, with)
	if got := text(at(t, r.Pod, "spec", "containers", "1", "env")); got != `[{"name":"J","value":"-a -b,c"}]` {
		t.Errorf("got %s", got)
	}
	newer := fragment(t, "with", side("env: [{name: J, $append: ',', value: d}]"))
	r = lawfulAfter(t, r.Pod, pod, own, newer)
	if got := text(at(t, r.Pod, "spec", "containers", "1", "env")); got != `[{"name":"J","value":"-a -b,d"}]` {
		t.Errorf("a newer version gives %s", got)
	}
	own.Overridable = true
	r = lawful(t, parse(t, "spec: {containers: [{name: side, image: auto, env: [{name: J, value: mine}]}]}"), own, with)
	if got := text(at(t, r.Pod, "spec", "containers", "0", "env")); got != `[{"name":"J","value":"mine -a -b,c"}]` {
		t.Errorf("in an author's container: %s", got)
	}
	_, err := mergeInto(t, pod, fragment(t, "own", side("image: x, env: [{name: J, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]")), with)
	want := `template with conflicts at spec.containers[name=side].env[name=J]: template own has {"name":"J","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}, ` +
		`the template sets "c" (the variable has a source, and only the pod's author may combine that with a text)`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// What others do to a variable between two calls, and what the second call does: as
// docs/concepts/merge.md has it.
func TestOthersChangeAVariableThatWasAppendedTo(t *testing.T) {
	const value = `{"name":"JTO","value":"v -a"}`
	const second = `{"name":"JTO","value":"$(JTO) -a"}`
	for name, c := range map[string]struct {
		env, changed, template string
		want                   string
		base                   string
		warns                  bool
	}{
		"a value is another":             {"{name: JTO, value: v}", "[{name: JTO, value: v -a -dd}]", "-a", `[{"name":"JTO","value":"v -a -dd"}]`, `[{"name":"JTO","value":"v"}]`, false},
		"a value is another, then newer": {"{name: JTO, value: v}", "[{name: JTO, value: v -a -dd}]", "-new", `[{"name":"JTO","value":"v -a -dd"}]`, `[{"name":"JTO","value":"v"}]`, true},
		"the order is another":           {fromSecret + ", {name: X}", "[{name: X}, " + second + ", " + fromSecret + "]", "-a", `[{"name":"X"},` + second + "," + secretItem + "]", `[{"name":"X"},` + secretItem + "]", false},
		"the order is another, newer":    {fromSecret + ", {name: X}", "[{name: X}, " + second + ", " + fromSecret + "]", "-new", `[{"name":"X"},{"name":"JTO","value":"$(JTO) -new"},` + secretItem + "]", `[{"name":"X"},` + secretItem + "]", false},
		"the second is another":          {fromSecret, "[" + fromSecret + ", {name: JTO, value: $(JTO) -a -dd}]", "-a", "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -a -dd"}]`, "[" + secretItem + "]", false},
		"the second is another, newer":   {fromSecret, "[" + fromSecret + ", {name: JTO, value: $(JTO) -a -dd}]", "-new", "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -a -dd"}]`, "[" + secretItem + "]", true},
		"the second is gone":             {fromSecret + ", {name: X}", "[" + fromSecret + ", {name: X}]", "-a", "[" + secretItem + "," + second + `,{"name":"X"}]`, "[" + secretItem + `,{"name":"X"}]`, false},
		"the source is gone":             {fromSecret, "[" + second + "]", "-a", `[{"name":"JTO","value":"-a"}]`, "[]", false},
		"both are gone":                  {fromSecret + ", {name: X}", "[{name: X}]", "-a", `[{"name":"X"},{"name":"JTO","value":"-a"}]`, `[{"name":"X"}]`, false},
		"a third comes":                  {fromSecret, "[" + fromSecret + ", " + second + ", {name: JTO, value: $(JTO) -dd}]", "-a", "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -dd -a"}]`, "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -dd"}]`, false},
		"a third of a source":            {"{name: JTO, value: v}", "[" + value + ", " + fromSecret + "]", "-a", `[{"name":"JTO","value":"v"},` + secretItem + "," + second + "]", `[{"name":"JTO","value":"v"},` + secretItem + "]", false},
		"another comes in front":         {"", "[{name: JTO, value: v}, {name: JTO, value: -a}]", "-a", "[" + value + "]", `[{"name":"JTO","value":"v"}]`, false},
		"another comes behind":           {"", "[{name: JTO, value: -a}, {name: JTO, value: v}]", "-a", "[" + value + "]", `[{"name":"JTO","value":"v"}]`, false},
		"a source comes in front":        {"", "[" + fromSecret + ", {name: JTO, value: -a}]", "-a", "[" + secretItem + "," + second + "]", "[" + secretItem + "]", false},
		"the last of two is gone":        {"{name: JTO, value: u}, {name: JTO, value: v}", "[{name: JTO, value: u}]", "-a", `[{"name":"JTO","value":"u -a"}]`, `[{"name":"JTO","value":"u"}]`, false},
		"the first of two is gone":       {"{name: JTO, value: u}, {name: JTO, value: v}", "[" + value + "]", "-a", "[" + value + "]", `[{"name":"JTO","value":"v"}]`, false},
		"a third, and ours is another":   {fromSecret, "[" + fromSecret + ", {name: JTO, value: $(JTO) -x}, {name: JTO, value: $(JTO) -dd}]", "-a", "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -x"},{"name":"JTO","value":"$(JTO) -dd"}]`, "[" + secretItem + `,{"name":"JTO","value":"$(JTO) -dd"}]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			injected := normal(lawful(t, webWith(t, c.env), java(t, "a", "-a")).Pod)
			at(t, injected, "spec", "containers", "0").(map[string]any)["env"] = parse(t, "env: "+c.changed)["env"]
			if got := envOf(t, recordOf(t, injected).Base(injected)); got != c.base {
				t.Errorf("base %s\nwant %s", got, c.base)
			}
			r := mustMerge(t, injected, java(t, "a", c.template))
			if got := envOf(t, r.Pod); got != c.want || len(r.Warnings) > 0 != c.warns {
				t.Errorf("got  %s\nwant %s\nwarnings %q", got, c.want, r.Warnings)
			}
			if again := mustMerge(t, r.Pod, java(t, "a", c.template)); len(again.Operations) > 0 {
				t.Errorf("a third call makes operations: %s", text(again.Operations))
			}
			if got := envOf(t, recordOf(t, r.Pod).Base(r.Pod)); got != c.base {
				t.Errorf("base after the second call %s\nwant %s", got, c.base)
			}
		})
	}
}

func TestWhatCannotBeAppendedTo(t *testing.T) {
	for name, c := range map[string]struct{ pod, want string }{
		"a number":              {"spec: {containers: [{name: web, env: [{name: JTO, value: 1}]}]}", "the pod is malformed at spec.containers[name=web].env[name=JTO].value: text is expected, not 1"},
		"a name with a bracket": {"spec: {containers: [{name: web, env: [{name: 'a)', valueFrom: {fieldRef: {}}}]}]}", "$(NAME) cannot refer to a name with a bracket"},
		"an annotation":         {"metadata: {annotations: {note: 1}}\nspec: {containers: [{name: web}]}", "the pod is malformed at metadata.annotations.note: text is expected, not 1"},
	} {
		f := fragment(t, "a", "metadata: {annotations: {note: {$append: ',', value: x}}}\nspec: {containers: [{name: web, env: [{name: JTO, $append: ' ', value: x}, {name: 'a)', $append: ' ', value: x}]}]}")
		if _, err := mergeInto(t, parse(t, c.pod), f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	pod := webWith(t, "{name: JTO, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}")
	want := "template a: spec.containers[name=web].env[name=JTO]: it comes from an optional source: where that has no value, the process sees $(JTO) in front of the text that is appended"
	if r := lawful(t, pod, java(t, "a", "-a")); strings.Join(r.Warnings, "\n") != want {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestUninjectKeepsWhatSomebodyMadeOfAnAppendedText(t *testing.T) {
	for env, changed := range map[string]string{"{name: JTO, value: v}": "{name: JTO, value: v -a -dd}", fromSecret: "{name: JTO, value: $(JTO) -dd}"} {
		injected := normal(lawful(t, webWith(t, env), java(t, "a", "-a")).Pod)
		items := at(t, injected, "spec", "containers", "0", "env").([]any)
		items[len(items)-1] = parse(t, "i: "+changed)["i"]
		want := text(items)
		back, warnings := recordOf(t, injected).Uninject(injected)
		if got := envOf(t, back); got != want || len(warnings) != 1 {
			t.Errorf("got  %s\nwant %s\nwarnings %q", got, want, warnings)
		}
	}
}

func TestAnOverwrittenDuplicateComesBackInItsPlace(t *testing.T) {
	f := fragment(t, "a", "spec: {containers: [{name: web, env: [{name: A, value: mine, $onConflict: Overwrite}]}]}")
	lawful(t, webWith(t, "{name: A, value: mine}, {name: A, value: x}"), f)
}

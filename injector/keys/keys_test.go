package keys

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/internal/cputime"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// set has templates as teams meet them: one to ask for, one that selects by a label, one that
// only some namespaces may have, and a broken one.
func set(t testing.TB) *templates.Set {
	t.Helper()
	var entries []templates.Entry
	for name, spec := range map[string]string{
		"fluent-bit": "{parameters: [{name: logLevel, type: string, default: info}, {name: output, type: map, items: string}], inject: {metadata: {labels: {a: '${params.logLevel}', b: '${toJson(params.output)}'}}}}",
		"vault":      "{parameters: [{name: role, type: string, required: true, setBy: [Pod], example: a}], inject: {metadata: {labels: {c: '${params.role}'}}}}",
		"audit":      "{required: true, exceptions: [{name: a, namespaceSelector: {matchLabels: {pillion.dev/moves: late}}, podSelector: {matchLabels: {pillion.dev/old: pod}}, until: '2027-03-31T00:00:00Z', reason: x}], match: {namespaceSelector: {matchLabels: {teams.pillion.dev/name: pay}}, podSelector: {matchLabels: {pillion.dev/tier: web}}}, inject: {metadata: {labels: {d: e}}}}",
		"hidden":     "{availableTo: {namespaceSelector: {matchLabels: {pillion.dev/may: hide}}}, inject: {metadata: {labels: {d: e}}}}",
		"broken":     "{inject: {spec: {nonsense: 1}}}",
	} {
		manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec: " + spec
		template, _, err := templates.Compile([]byte(manifest), templates.Options{})
		if (err != nil) != (name == "broken") {
			t.Fatalf("%s: %v", name, err)
		}
		entries = append(entries, templates.Entry{Name: name, Template: template, Err: err})
	}
	return templates.NewSet(entries)
}

func TestAKeyThatMeansNothingIsToldWithWhatToWrite(t *testing.T) {
	const label, annotation = Label, Annotation
	templates := set(t)
	for _, test := range []struct {
		level   Level
		field   Field
		entry   string
		mistake Mistake
		instead string
		says    []string
	}{
		// What means something.
		{Namespace, annotation, "pillion.dev/inject=anything, its value is not judged here", "", "", nil},
		{Namespace, annotation, "fluent-bit.pillion.dev/log-level=debug", "", "", nil},
		{Namespace, annotation, "fluent-bit.pillion.dev/output.host=x", "", "", nil},
		{Namespace, annotation, "broken.pillion.dev/any=x", "", "", nil},
		{Namespace, annotation, "example.com/inject=x", "", "", nil},
		{Namespace, annotation, "mypillion.dev/inject=x", "", "", nil},
		{Namespace, annotation, "inject=x", "", "", nil},
		{Namespace, label, "pillion.dev/injection=enabled", "", "", nil},
		{Namespace, label, "pillion.dev/injection=disabled", "", "", nil},
		{Namespace, label, "pillion.dev/moves=late", "", "", nil},
		{Pod, label, "pillion.dev/old=pod", "", "", nil},
		{Namespace, label, "pillion.dev/required=true", "", "", nil},
		{Namespace, label, "pillion.dev/proof=true", "", "", nil},
		{Namespace, label, "teams.pillion.dev/name=other", "", "", nil},
		{Namespace, label, "pillion.dev/may=hide", "", "", nil},
		{Pod, annotation, "pillion.dev/inject=+a", "", "", nil},
		{Pod, annotation, "pillion.dev/status={}", "", "", nil},
		{Pod, annotation, "fluent-bit.files.pillion.dev/a.conf=x", "", "", nil},
		{Pod, annotation, "fluent-bit.pillion.dev/nope=the pipeline refuses it", "", "", nil},
		{Pod, label, "pillion.dev/injected=true", "", "", nil},
		{Pod, label, "fluent-bit.pillion.dev/hash=0123456789", "", "", nil},
		{Pod, label, "gone.pillion.dev/hash=0123456789", "", "", nil},
		{Pod, label, "pillion.dev/tier=web", "", "", nil},
		// Another install, whose prefix ends in this one's.
		{Namespace, annotation, "beta.pillion.dev/inject=fluent-bit", "", "", nil},
		{Namespace, label, "beta.pillion.dev/injection=enabled", "", "", nil},
		{Pod, annotation, "fluent-bit.beta.pillion.dev/log-level=debug", "", "", nil},
		{Pod, annotation, "beta.pillion.dev/status={}", "", "", nil},

		// Pillion's own keys, misspelt or in the wrong place.
		{Pod, annotation, "pillion.dev/injcet=fluent-bit", UnknownKey, "pillion.dev/inject", []string{"annotation pillion.dev/injcet", "did you mean the annotation pillion.dev/inject?"}},
		{Pod, annotation, "pillion.dev/Inject=fluent-bit", UnknownKey, "pillion.dev/inject", nil},
		{Pod, annotation, "pillion.dev/injection=x", UnknownKey, "pillion.dev/inject", nil},
		{Pod, annotation, "pillion.dev/sidecars=x", UnknownKey, "pillion.dev/inject", nil},
		{Pod, annotation, "pillion.dev/team=x", UnknownKey, "", []string{"TEMPLATE.pillion.dev/PARAMETER"}},
		{Pod, annotation, "pillion.dev/injection=enabled", WrongObject, "pillion.dev/inject", []string{"a label of namespaces"}},
		{Pod, label, "pillion.dev/inject=fluent-bit", WrongField, "pillion.dev/inject", []string{"label pillion.dev/inject", "is an annotation"}},
		{Pod, label, "pillion.dev/injection=enabled", WrongObject, "pillion.dev/inject", []string{"a label of namespaces", "the annotation pillion.dev/inject"}},
		{Pod, label, "pillion.dev/required=true", WrongObject, "", []string{"remove it"}},
		{Pod, annotation, "pillion.dev/allow-delete=true", WrongObject, "", []string{"SidecarTemplate"}},
		{Namespace, label, "pillion.dev/inject=fluent-bit", WrongField, "pillion.dev/inject", []string{"is an annotation"}},
		{Namespace, label, "pillion.dev/injecton=enabled", UnknownKey, "pillion.dev/injection", nil},
		{Namespace, label, "pillion.dev/injection=on", WrongValue, "", []string{`"on"`, "enabled, enforced, disabled"}},
		{Namespace, annotation, "pillion.dev/injection=enabled", WrongField, "pillion.dev/injection", []string{"is a label"}},
		{Namespace, annotation, "pillion.dev/status={}", WrongObject, "", []string{"Pillion writes it itself"}},
		{Namespace, label, "pillion.dev/injected=true", WrongObject, "", nil},
		{Workload, annotation, "pillion.dev/inject=fluent-bit", OnWorkload, "pillion.dev/inject", []string{"spec.template.metadata.annotations"}},
		{Workload, label, "pillion.dev/inject=fluent-bit", WrongField, "pillion.dev/inject", []string{"spec.template.metadata.annotations"}},
		{Workload, annotation, "pillion.dev/injcet=x", UnknownKey, "pillion.dev/inject", []string{"spec.template.metadata.annotations"}},
		{Workload, annotation, "pillion.dev/status={}", WrongObject, "", nil},

		// Keys of templates.
		{Namespace, annotation, "fluentbit.pillion.dev/log-level=debug", UnknownTemplate, "fluent-bit.pillion.dev/log-level", []string{`no template "fluentbit"`}},
		{Namespace, annotation, "fluentbit.pillion.dev/inject=true", UnknownTemplate, "fluent-bit.pillion.dev/inject", nil},
		{Namespace, annotation, "nosuch.pillion.dev/x=1", UnknownTemplate, "", []string{"the templates are audit, broken, fluent-bit, vault"}},
		{Namespace, annotation, "hiden.pillion.dev/x=1", UnknownTemplate, "", []string{"the templates are"}},
		{Namespace, annotation, "fluent-bit.pillion.dev/log-levle=debug", UnknownParameter, "fluent-bit.pillion.dev/log-level", nil},
		{Namespace, annotation, "fluent-bit.pillion.dev/logLevel=debug", UnknownParameter, "fluent-bit.pillion.dev/log-level", nil},
		{Namespace, annotation, "fluent-bit.pillion.dev/outptu.host=x", UnknownParameter, "fluent-bit.pillion.dev/output.host", nil},
		{Namespace, annotation, "fluent-bit.pillion.dev/output=x", UnknownParameter, "", nil},
		{Namespace, annotation, "fluent-bit.pillion.dev/inject=true", UnknownParameter, "pillion.dev/inject", []string{"pillion.dev/inject: fluent-bit"}},
		{Namespace, annotation, "fluent-bit.pillion.dev/zzzzzzzz=1", UnknownParameter, "", []string{"pillion params fluent-bit"}},
		{Namespace, annotation, "fluent-bit.files.pillion.dev/a=x", WrongObject, "", nil},
		{Namespace, label, "fluent-bit.pillion.dev/log-level=debug", WrongField, "fluent-bit.pillion.dev/log-level", nil},
		{Pod, label, "fluent-bit.pillion.dev/log-level=debug", WrongField, "fluent-bit.pillion.dev/log-level", nil},
		{Pod, annotation, "vault.pillion.dev/role=a", NotInjected, "pillion.dev/inject", []string{"nothing asks for the template vault"}},
		{Pod, annotation, "vault.pillion.dev/rloe=a", UnknownParameter, "vault.pillion.dev/role", nil},
		{Workload, annotation, "fluent-bit.pillion.dev/log-level=debug", OnWorkload, "fluent-bit.pillion.dev/log-level", nil},
	} {
		key, value, _ := strings.Cut(test.entry, "=")
		o := Object{Level: test.level}
		if test.field == Label {
			o.Labels = map[string]string{key: value}
		} else {
			o.Annotations = map[string]string{key: value}
		}
		found := Check(Rules{Templates: templates, Concerned: func(name string) bool { return name == "fluent-bit" }}, o)
		title := fmt.Sprintf("%s %s %s", test.level, test.field, test.entry)
		if test.mistake == "" {
			if len(found) > 0 {
				t.Errorf("%s: %s, and it means something", title, found[0])
			}
			continue
		}
		if len(found) != 1 {
			t.Errorf("%s: %d findings", title, len(found))
			continue
		}
		f := found[0]
		if f.Mistake != test.mistake || f.Instead != test.instead || f.Key != key || f.Field != test.field {
			t.Errorf("%s: %s, instead %q; want %s and %q: %s", title, f.Mistake, f.Instead, test.mistake, test.instead, f)
		}
		for _, want := range append(test.says, key) {
			if !strings.Contains(f.String(), want) {
				t.Errorf("%s: %q lacks %q", title, f, want)
			}
		}
	}
}

func TestWhatATemplatesLabelSelectsMeansSomethingOnThatObjectOnly(t *testing.T) {
	templates := set(t)
	for _, test := range []struct {
		level Level
		key   string
		fine  bool
	}{
		{Namespace, "teams.pillion.dev/name", true}, {Pod, "teams.pillion.dev/name", false},
		{Pod, "pillion.dev/tier", true}, {Namespace, "pillion.dev/tier", false}, {Workload, "pillion.dev/tier", false},
		{Namespace, "pillion.dev/may", true}, {Pod, "pillion.dev/may", false},
	} {
		found := Check(Rules{Templates: templates}, Object{Level: test.level, Labels: map[string]string{test.key: "hide"}})
		if (len(found) == 0) != test.fine {
			t.Errorf("%s on a %s: %v", test.key, test.level, found)
		}
	}
}

// Helm charts and kustomize write common labels and annotations to both.
func TestWhatStandsOnTheWorkloadAndOnItsPodsIsJudgedOnThePods(t *testing.T) {
	both := map[string]string{"pillion.dev/inject": "fluent-bit"}
	o := Object{Level: Workload, Kind: "Deployment", Annotations: both, PodAnnotations: both}
	if found := Check(Rules{Templates: set(t)}, o); len(found) > 0 {
		t.Errorf("%v", found)
	}
	o.PodAnnotations = map[string]string{"pillion.dev/inject": "false"}
	found := Check(Rules{Templates: set(t)}, o)
	if len(found) != 1 || !strings.Contains(found[0].String(), `its pods have the value "false"`) {
		t.Errorf("another value: %v", found)
	}
	// Pods that opted out must not be injected by a command that somebody copies.
	if command := Move("Deployment", "shop", "web", found); command != "" {
		t.Errorf("another value: %s", command)
	}
}

func TestManyKeysAreCountedBeyondTheFirst(t *testing.T) {
	annotations := map[string]string{}
	for i := range 50000 {
		annotations[fmt.Sprintf("pillion.dev/k%d", i)] = ""
	}
	found := Check(Rules{Templates: set(t)}, Object{Level: Pod, Annotations: annotations})
	if len(found) != MaxFindings+1 || !strings.HasPrefix(found[MaxFindings].String(), "49990 more keys under pillion.dev") {
		t.Errorf("%d findings, the last %s", len(found), found[len(found)-1])
	}
}

// An object may have as many keys as its size allows, and a cluster a thousand templates.
func TestAnObjectFullOfKeysTakesNoLongerThanItsSize(t *testing.T) {
	const manyKeys, manyTemplates = 20000, 200
	var entries []templates.Entry
	for i := range manyTemplates {
		name := fmt.Sprintf("template-%d", i)
		text := []byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec: {match: {namespaceSelector: {matchLabels: {teams.pillion.dev/of: " + name + "}}}, availableTo: {namespaceSelector: {matchLabels: {pillion.dev/may: " + name + "}}}, " +
			"parameters: [{name: level, type: string, default: a}], inject: {metadata: {labels: {a: '${params.level}'}}}}")
		template := templatestest.Compile(t, string(text))
		entries = append(entries, templates.Entry{Name: name, Template: template})
	}
	rules := Rules{Templates: templates.NewSet(entries)}
	for what, key := range map[string]func(int) string{
		"keys of another install":       func(i int) string { return fmt.Sprintf("a.b%d.pillion.dev/x", i) },
		"keys of many installs":         func(i int) string { return fmt.Sprintf("templat%d.pillion.dev/inject", i) },
		"unknown keys":                  func(i int) string { return fmt.Sprintf("pillion.dev/injec%d", i) },
		"unknown templates":             func(i int) string { return fmt.Sprintf("templat%d.pillion.dev/level", i) },
		"parameters of all templates":   func(i int) string { return fmt.Sprintf("template-%d.pillion.dev/level%d", i%manyTemplates, i) },
		"labels that templates look at": func(i int) string { return fmt.Sprintf("teams.pillion.dev/%d", i) },
	} {
		all := map[string]string{}
		for i := range manyKeys {
			all[key(i)] = "x"
		}
		for _, level := range []Level{Namespace, Workload, Pod} {
			for field, o := range map[Field]Object{Label: {Level: level, Labels: all}, Annotation: {Level: level, Annotations: all}} {
				began := cputime.Used()
				found := Check(rules, o)
				if took := cputime.Used() - began; took > time.Second {
					t.Errorf("%s as %ss of a %s: it took %s", what, field, level, took)
				}
				if len(found) > MaxFindings+1 {
					t.Errorf("%s as %ss of a %s: %d findings", what, field, level, len(found))
				}
			}
		}
	}
}

// A finding proposes nothing that would be found fault with in its turn.
func TestWhatIsProposedMeansSomething(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rules := Rules{Templates: set(t)}
	names := []string{"inject", "injcet", "injection", "status", "injected", "required", "proof", "hash", "x", "log-level", "log-levle", "output.a", "role", "files", "mirror", "INJECT", ""}
	domains := []string{"pillion.dev", "fluent-bit.pillion.dev", "fluentbit.pillion.dev", "vault.pillion.dev", "nosuch.pillion.dev", "a.b.pillion.dev", "beta.pillion.dev", "x.files.pillion.dev", "example.com", ".pillion.dev"}
	proposed := 0
	for range 5000 {
		o := Object{Level: []Level{Namespace, Workload, Pod}[r.IntN(3)], Labels: map[string]string{}, Annotations: map[string]string{}}
		for range r.IntN(6) {
			m := o.Labels
			if r.IntN(2) == 0 {
				m = o.Annotations
			}
			m[domains[r.IntN(len(domains))]+"/"+names[r.IntN(len(names))]] = []string{"enabled", "fluent-bit", "x", ""}[r.IntN(4)]
		}
		before := Object{Level: o.Level, Labels: maps.Clone(o.Labels), Annotations: maps.Clone(o.Annotations)}
		found := Check(rules, o)
		if again := Check(rules, o); !reflect.DeepEqual(found, again) || !reflect.DeepEqual(before, o) {
			t.Fatalf("%v: %v, and then %v", before, found, again)
		}
		for _, f := range found {
			if f.Instead == "" || f.Instead == f.Key && f.Mistake != WrongField && f.Mistake != OnWorkload {
				continue
			}
			level := o.Level
			if level == Workload {
				level = Pod
			}
			fits := func(o Object) bool { o.Level = level; return len(Check(rules, o)) == 0 }
			fixed := map[string]string{f.Instead: "enabled"}
			// Where two things are wrong with a key, the second is told when the first is right.
			two := strings.HasPrefix(f.Key, "fluentbit.")
			if !two && !fits(Object{Annotations: fixed}) && !fits(Object{Labels: fixed}) {
				t.Fatalf("%s on a %s: %s does not mean anything either", f, o.Level, f.Instead)
			}
			proposed++
		}
	}
	if proposed < 1000 {
		t.Errorf("%d proposals only", proposed)
	}
}

func TestTheCommandMovesAnnotationsToThePods(t *testing.T) {
	rules := Rules{Templates: set(t)}
	for _, test := range []struct {
		kind, namespace, name string
		annotations           map[string]string
		want                  string
	}{
		{"Deployment", "shop", "web", map[string]string{"pillion.dev/inject": "fluent-bit"},
			`kubectl -n shop patch deployment web --type=merge -p '{"metadata":{"annotations":{"pillion.dev/inject":null}},"spec":{"template":{"metadata":{"annotations":{"pillion.dev/inject":"fluent-bit"}}}}}'`},
		{"CronJob", "", "tidy", map[string]string{"fluent-bit.pillion.dev/log-level": "it's <b>"},
			`kubectl patch cronjob tidy --type=merge -p '{"metadata":{"annotations":{"fluent-bit.pillion.dev/log-level":null}},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"annotations":{"fluent-bit.pillion.dev/log-level":"it'\''s <b>"}}}}}}}'`},
		{"Job", "shop", "once", map[string]string{"pillion.dev/inject": "fluent-bit"}, ""},
		{"Deployment", "shop", "web", map[string]string{"pillion.dev/injcet": "fluent-bit"}, ""},
		{"Deployment", "shop", "", map[string]string{"pillion.dev/inject": "fluent-bit"}, ""},
	} {
		if got := Move(test.kind, test.namespace, test.name, Check(rules, Object{Level: Workload, Kind: test.kind, Annotations: test.annotations})); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.kind, got, test.want)
		}
	}
}

// FuzzCheck holds: sentences are fit to print and bounded, and findings are about keys that
// are there.
func FuzzCheck(f *testing.F) {
	rules := Rules{Templates: set(f), Concerned: func(string) bool { return false }}
	for _, key := range []string{"pillion.dev/inject", "nosuch.pillion.dev/x", "fluent-bit.pillion.dev/log-levle", "\n.pillion.dev/\x00", "pillion.dev/", ".files.pillion.dev/"} {
		f.Add(key, "x", uint8(0))
	}
	f.Fuzz(func(t *testing.T, key, value string, level uint8) {
		o := Object{Level: []Level{Namespace, Workload, Pod}[level%3], Labels: map[string]string{key: value}, Annotations: map[string]string{key: value}}
		found := Check(rules, o)
		if _, _, under := Under("pillion.dev", key); !under && len(found) > 0 {
			t.Fatalf("%q is not under the prefix: %v", key, found)
		}
		for _, f := range found {
			if f.Key != key || f.Mistake == "" || f.Says == "" {
				t.Fatalf("%+v", f)
			}
			if text := f.String(); strings.ContainsAny(text, "\n\r\x00\x1b") || len([]rune(text)) > 20000 {
				t.Fatalf("%q is not fit to print", text)
			}
		}
	})
}

package keys

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/internal/cputime"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// set has templates as teams meet them: two to ask for, a required one, one that only some namespaces
// may have, and a broken one.
func set(t testing.TB) *templates.Set {
	t.Helper()
	var manifests []string
	for name, spec := range map[string]string{
		"fluent-bit": "{parameters: [{name: logLevel, type: string, default: info}, {name: output, type: map, items: string}], inject: {metadata: {labels: {a: '${params.logLevel}', b: '${toJson(params.output)}'}}}}",
		"vault":      "{parameters: [{name: role, type: string, required: true, setBy: [Pod], example: a}], inject: {metadata: {labels: {c: '${params.role}'}}}}",
		"audit":      "{required: true, match: {namespaceSelector: {matchLabels: {team: pay}}}, inject: {metadata: {labels: {d: e}}}}",
		"hidden":     "{availableTo: {namespaceSelector: {matchLabels: {may: hide}}}, inject: {metadata: {labels: {d: e}}}}",
		"broken":     "{inject: {spec: {nonsense: 1}}}",
	} {
		manifests = append(manifests, templatestest.Manifest(name, spec))
	}
	return templatestest.Any(t, manifests...)
}

// Each entry stands alone on an object. Without says it means something there.
func TestAKeyThatMeansNothingIsToldWithWhatToWrite(t *testing.T) {
	const label, annotation = Label, Annotation
	templates := set(t)
	const ofPods, inject = " of its pods (spec.template.metadata.annotations)", "did you mean the annotation pillion.dev/inject"
	for _, test := range []struct {
		level Level
		field Field
		entry string
		says  string
	}{
		{Namespace, annotation, "pillion.dev/inject=anything, its value is not judged here", ""},
		{Namespace, annotation, "fluent-bit.pillion.dev/log-level=debug", ""},
		{Namespace, annotation, "fluent-bit.pillion.dev/output.host=x", ""},
		{Namespace, annotation, "broken.pillion.dev/any=x", ""},
		{Namespace, annotation, "mypillion.dev/inject=x", ""},
		{Namespace, label, "pillion.dev/injection=enabled", ""},
		{Namespace, label, "pillion.dev/required=true", ""},
		{Pod, annotation, "pillion.dev/inject=+a", ""},
		{Pod, annotation, "pillion.dev/status={}", ""},
		{Pod, annotation, "fluent-bit.files.pillion.dev/a.conf=x", ""},
		{Pod, annotation, "fluent-bit.pillion.dev/nope=the pipeline refuses it", ""},
		{Pod, annotation, "vault.pillion.dev/role=a", ""},
		{Pod, label, "pillion.dev/injected=true", ""},
		{Pod, label, "fluent-bit.pillion.dev/hash=0123456789", ""},
		{Pod, label, "gone.pillion.dev/hash=0123456789", ""},

		{Pod, annotation, "pillion.dev/injcet=fluent-bit", "is not recognised; " + inject + "?"},
		{Pod, annotation, "pillion.dev/sidecars=x", inject},
		{Pod, annotation, "pillion.io/inject=fluent-bit", "is not one of Pillion's; " + inject + "?"},
		{Workload, annotation, "pillion/inject=fluent-bit", "is not one of Pillion's; " + inject + ofPods + "?"},
		{Namespace, annotation, "fluent-bit.pillion.io/log-level=debug", "is not one of Pillion's; did you mean the annotation fluent-bit.pillion.dev/log-level?"},
		{Namespace, annotation, "pillion.example.com/inject=x", ""},
		{Pod, annotation, "pillion.dev/team=x", "is not recognised on a pod: the annotation pillion.dev/inject asks for a template, and TEMPLATE.pillion.dev/PARAMETER sets a parameter"},
		{Pod, label, "pillion.dev/injection=enabled", inject},
		{Pod, label, "pillion.dev/required=true", "is not recognised on a pod"},
		{Namespace, label, "pillion.dev/injecton=enabled", "did you mean the label pillion.dev/injection?"},
		{Namespace, annotation, "pillion.dev/injection=enabled", inject},
		{Namespace, annotation, "pillion.dev/status={}", "is not recognised on a namespace"},
		{Workload, annotation, "pillion.dev/injcet=x", inject + ofPods + "?"},
		{Namespace, annotation, "fluentbit.pillion.dev/log-level=debug", `is not recognised: there is no template "fluentbit"; did you mean fluent-bit?`},
		{Namespace, annotation, "nosuch.pillion.dev/x=1", `there is no template "nosuch"; there are audit, broken, fluent-bit, vault`},
		{Namespace, annotation, "hiden.pillion.dev/x=1", `there is no template "hiden"; there are`}, // what a namespace may not have is not proposed
		{Namespace, annotation, "fluent-bit.pillion.dev/log-levle=debug", "the template fluent-bit has no such parameter; did you mean log-level?"},
		{Namespace, annotation, "fluent-bit.pillion.dev/logLevel=debug", "did you mean log-level?"},
		{Namespace, annotation, "fluent-bit.pillion.dev/outptu.host=x", "did you mean output.host?"},
		{Namespace, annotation, "fluent-bit.pillion.dev/output=x", "; there are log-level, output.KEY"},
		{Namespace, annotation, "fluent-bit.pillion.dev/inject=true", "; to ask for the template write fluent-bit into the annotation pillion.dev/inject"},

		{Workload, annotation, "pillion.dev/inject=fluent-bit", "has no effect on the workload itself: it belongs to its pods, in spec.template.metadata.annotations"},
		{Workload, annotation, "fluent-bit.pillion.dev/log-level=debug", "has no effect on the workload itself"},

		{Pod, label, "pillion.dev/inject=fluent-bit", "has no effect as a label: write it as an annotation"},
		{Workload, label, "pillion.dev/inject=fluent-bit", "has no effect as a label: write it as an annotation" + ofPods},
		{Namespace, label, "fluent-bit.pillion.dev/log-level=debug", "has no effect as a label"},
	} {
		key, value, _ := strings.Cut(test.entry, "=")
		o := Object{Level: test.level}
		if test.field == Label {
			o.Labels = map[string]string{key: value}
		} else {
			o.Annotations = map[string]string{key: value}
		}
		got := ""
		for _, f := range Check(Rules{Templates: templates, Concerned: func(name string) bool { return name == "fluent-bit" }}, o) {
			got += f.String()
			if f.Key != key || f.Value != value || f.Field != test.field {
				t.Errorf("%s %s: it is about %+v", test.level, test.entry, f)
			}
		}
		title := string(test.field) + " " + key + " "
		if (got == "") != (test.says == "") || test.says != "" && (!strings.HasPrefix(got, title) || !strings.Contains(got, test.says)) || strings.Contains(got, "hidden") {
			t.Errorf("%s %s:\n got %q\nwant %q", test.level, test.entry, got, title+test.says)
		}
	}
}

// Helm charts and kustomize write common labels and annotations to both.
func TestAKeyOfBothIsJudgedOnThePods(t *testing.T) {
	o := Object{Level: Workload, Kind: "Deployment", Annotations: map[string]string{"pillion.dev/inject": "fluent-bit"}}
	for _, value := range []string{"fluent-bit", "false"} { // pods that opted out must not be injected by a command that somebody copies
		o.PodAnnotations = map[string]string{"pillion.dev/inject": value}
		if found := Check(Rules{Templates: set(t)}, o); len(found) > 0 {
			t.Errorf("%s: %v", value, found)
		}
	}
}

// An object may have as many keys as its size allows, and a cluster a thousand templates.
func TestAnObjectFullOfKeysTakesNoLongerThanItsSize(t *testing.T) {
	const manyKeys, manyTemplates = 20000, 200
	specs := map[string]string{}
	for i := range manyTemplates {
		specs[fmt.Sprintf("template-%d", i)] = fmt.Sprintf("{match: {namespaceSelector: {matchLabels: {teams.pillion.dev/of: t%[1]d}}}, availableTo: {namespaceSelector: {matchLabels: {pillion.dev/may: t%[1]d}}}, "+
			"parameters: [{name: level, type: string, default: a}], inject: {metadata: {labels: {a: '${params.level}'}}}}", i)
	}
	rules := Rules{Templates: templatestest.Specs(t, specs)}
	for _, key := range []string{"a.b%d.pillion.dev/x", "templat%d.pillion.dev/inject", "pillion.dev/injec%d", "templat%d.pillion.dev/level", "template-7.pillion.dev/level%d", "teams.pillion.dev/%d"} {
		eighth, all := map[string]string{}, map[string]string{}
		for i := range manyKeys {
			all[fmt.Sprintf(key, i)] = "x"
			if i < manyKeys/8 {
				eighth[fmt.Sprintf(key, i)] = "x"
			}
		}
		for what, object := range map[string]func(keys map[string]string) Object{
			"labels of a Namespace":      func(keys map[string]string) Object { return Object{Level: Namespace, Labels: keys} },
			"annotations of a Namespace": func(keys map[string]string) Object { return Object{Level: Namespace, Annotations: keys} },
			"annotations of a workload":  func(keys map[string]string) Object { return Object{Level: Workload, Annotations: keys} },
			"labels of a Pod":            func(keys map[string]string) Object { return Object{Level: Pod, Labels: keys} },
			"annotations of a Pod":       func(keys map[string]string) Object { return Object{Level: Pod, Annotations: keys} },
		} {
			if found := Check(rules, object(all)); len(found) > MaxFindings+1 {
				t.Errorf("%s of the form %s: %d findings", what, key, len(found))
			}
			linear(t, fmt.Sprintf("%s of the form %s", what, key), func() { Check(rules, object(eighth)) }, func() { Check(rules, object(all)) })
		}
	}
}

// linear fails the test if whole takes much more than eight times the processors' time of eighth. The
// square would take 64 times as much. Other processes take time away, so it may try four times.
func linear(t *testing.T, of string, eighth, whole func()) {
	t.Helper()
	var part, all time.Duration
	for range 4 {
		part, all = cputime.Of(eighth), cputime.Of(whole)
		if all <= 24*part {
			return
		}
	}
	t.Errorf("%s take %s, an eighth of them %s", of, all, part)
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
		if _, _, under := Under(key); !under && len(found) > 0 {
			t.Fatalf("%q is not under the prefix: %v", key, found)
		}
		for _, f := range found {
			if f.Key != key || f.Says == "" {
				t.Fatalf("%+v", f)
			}
			if text := f.String(); strings.ContainsAny(text, "\n\r\x00\x1b") || len([]rune(text)) > 20000 {
				t.Fatalf("%q is not fit to print", text)
			}
		}
	})
}

package policy

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/reason"
)

const key = "pillion.dev/inject"

// catalogue has a template of each kind: a and b are plain, def is injected by
// default, auto matches every pod, must is required.
func catalogue() []Template {
	return []Template{
		plain("a"), plain("b"), {Name: "def", Available: true, InjectByDefault: true},
		matchAll(plain("auto")), matchAll(Template{Name: "must", Available: true, Required: true}),
	}
}

func plain(name string) Template { return Template{Name: name, Available: true} }

// matchAll returns the template with a match of every pod.
func matchAll(t Template) Template {
	t.Match = &Match{labels.Everything(), labels.Everything()}
	return t
}

// matchPods returns the template with a match of pods that have a label.
func matchPods(t Template, key, value string) Template {
	t.Match = &Match{labels.Everything(), labels.SelectorFromSet(labels.Set{key: value})}
	return t
}

func names(d Decision) string {
	var all []string
	for _, choice := range d.Inject {
		all = append(all, choice.Template)
	}
	return strings.Join(all, " ")
}

func request(pod, namespace string) Request {
	r := Request{Operation: "CREATE", Namespace: NamespaceMetadata{Name: "shop"}}
	if pod != "-" {
		r.PodAnnotations = map[string]string{key: pod}
	}
	if namespace != "-" {
		r.Namespace.Annotations = map[string]string{key: namespace}
	}
	return r
}

func TestTheTableOfPodAndNamespaceAnnotations(t *testing.T) {
	for _, c := range []struct{ pod, namespace, want string }{
		{"-", "-", "auto must"},
		{"-", "a", "a auto must"},
		{"-", " a , b,a ", "a b auto must"},
		{"-", "true", "def auto must"},
		{"-", "false", "must"},
		{"true", "-", "def auto must"},
		{"true", "true", "def auto must"},
		{"true", "a", "a auto must"},
		{"true", "false", "def auto must"},
		{"a", "-", "a must"},
		{"b", "a", "b must"},
		{"b", "true", "b must"},
		{"b", "false", "b must"},
		{"false", "-", "must"},
		{"false", "a,b", "must"},
		{"false", "true", "must"},
		{"+b", "-", "b auto must"},
		{"+b", "a", "a b auto must"},
		{"+b,-a", "a", "b auto must"},
		{"-auto", "-", "must"},
		{"-must", "-", "auto must"},
		{"+b", "true", "b def auto must"},
		{"-def", "true", "auto must"},
		{"+a", "false", "a must"},
		{"-a", "false", "must"},
	} {
		d := Decide(request(c.pod, c.namespace), catalogue())
		if got := names(d); got != c.want || d.Deny {
			t.Errorf("pod %q, namespace %q: injected %q (deny %v), want %q", c.pod, c.namespace, got, d.Deny, c.want)
		}
	}
}

// A template that selects the namespace, and not the pod as it is, may select it once another template has
// set a label.
func TestATemplateThatSelectsTheNamespaceMayComeLate(t *testing.T) {
	for _, c := range []struct {
		pod, namespace string
		template       Template
		label          string
		late, inject   bool
	}{
		{"-", "-", Template{}, "", true, true},
		{"-", "a", Template{}, "", true, true},
		{"+a", "-", Template{}, "", true, true},
		{"true", "-", Template{}, "", true, true},
		{"-", "-", Template{}, "db", false, true},
		{"-", "late", Template{}, "", false, true},
		{"a", "-", Template{}, "", false, false},
		{"false", "-", Template{}, "", false, false},
		{"-", "false", Template{}, "", false, false},
		{"-late", "-", Template{}, "", false, false},
		{"-", "-", Template{Suspended: true}, "", false, false},
		{"-", "-", Template{Broken: errors.New("x")}, "", false, false},
		{"-", "-", Template{Required: true}, "", false, false},
	} {
		r := request(c.pod, c.namespace)
		r.PodLabels = map[string]string{"tier": c.label}
		c.template.Name, c.template.Available = "late", true
		d := Decide(r, []Template{plain("a"), matchPods(c.template, "tier", "db")})
		i := slices.IndexFunc(d.Inject, func(choice Choice) bool { return choice.Template == "late" })
		if i >= 0 != c.inject || i >= 0 && d.Inject[i].Late != c.late || d.Deny || c.late && len(d.Exclusions) > 0 {
			t.Errorf("%+v: %+v", c, d)
		}
		c.template.Available = false
		if d := Decide(r, []Template{plain("a"), matchPods(c.template, "tier", "db")}); strings.Contains(names(d), "late") {
			t.Errorf("%+v, and the namespace may not have it: %+v", c, d)
		}
	}
}

func TestABadAnnotationIsNeverIgnored(t *testing.T) {
	for _, value := range []string{"", " ", ",", "a,", "a,+b", "+a,-a", "+", "--", "A", "a b", "true,a", "+true", "a/b", "../x", "\"", strings.Repeat("x", 300), strings.Repeat("a,", 100) + "a"} {
		d := Decide(request(value, "-"), catalogue())
		// What is required is compared with a final pod all the same.
		if !d.Deny || d.Code != reason.BadAnnotation || names(d) != "must" {
			t.Errorf("pod %q: %+v", value, d)
		}
		if !strings.Contains(d.Why, key) {
			t.Errorf("pod %q: message %q does not name the annotation", value, d.Why)
		}
		if d := Decide(request("-", value), catalogue()); !d.Deny || !strings.Contains(d.Why, `namespace "shop"`) {
			t.Errorf("namespace %q: %+v", value, d)
		}
	}
	for _, value := range []string{"+a", "-a"} {
		if d := Decide(request("-", value), catalogue()); !d.Deny || !strings.Contains(d.Why, "relative") {
			t.Errorf("relative namespace annotation %q: %+v", value, d)
		}
	}
}

func TestAPodWithItsOwnListIsNotRefusedForTheNamespacesMistake(t *testing.T) {
	for pod, denied := range map[string]bool{"a": false, "false": false, "true": true, "+a": true} {
		if d := Decide(request(pod, "no such thing"), catalogue()); d.Deny != denied {
			t.Errorf("pod %q: deny %v, want %v", pod, d.Deny, denied)
		}
	}
}

func outcome(t *testing.T, d Decision, name string) Exclusion {
	t.Helper()
	i := slices.IndexFunc(d.Exclusions, func(o Exclusion) bool { return o.Template == name })
	if i < 0 {
		t.Fatalf("no outcome for %q in %+v", name, d.Exclusions)
	}
	return d.Exclusions[i]
}

func TestEveryTemplateThatIsNotInjectedHasAReason(t *testing.T) {
	templates := append(catalogue(),
		Template{Name: "resting", Available: true, Suspended: true},
		Template{Name: "blue-only"},
		Template{Name: "bad", Available: true, Broken: errors.New("line 3: no such field")},
		matchAll(Template{Name: "blue-auto"}),
	)
	for _, c := range []struct {
		pod, namespace, template string
		code                     reason.Code
		asked, deny              bool
	}{
		{"-", "-", "a", reason.NotRequested, false, false},
		{"false", "a", "a", reason.PodOptedOut, false, false},
		{"-a", "a", "a", reason.PodOptedOut, false, false},
		{"-", "false", "auto", reason.NamespaceOptedOut, false, false},
		{"a", "b", "b", reason.Replaced, false, false},
		{"-", "resting", "resting", reason.Suspended, true, false},
		{"blue-only", "-", "blue-only", reason.NotAllowedHere, true, true},
		{"-", "-", "blue-auto", reason.NotAllowedHere, false, false},
		{"bad", "-", "bad", reason.TemplateBroken, true, true},
		{"-", "nope", "nope", reason.UnknownTemplate, true, true},
		{"+nope", "a", "nope", reason.UnknownTemplate, true, true},
	} {
		r := request(c.pod, c.namespace)
		r.Explain = true
		o := outcome(t, Decide(r, templates), c.template)
		if o.Code != c.code || o.Requested != c.asked || o.Deny != c.deny || o.Why == "" {
			t.Errorf("pod %q, namespace %q: %+v, want %s asked %v deny %v", c.pod, c.namespace, o, c.code, c.asked, c.deny)
		}
	}
}

func TestFactsOfTheRequestGoBeforeAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		code   reason.Code
		want   string
	}{
		"an update":                 {func(r *Request) { r.Operation = "UPDATE" }, reason.NotAPodCreation, ""},
		"a subresource":             {func(r *Request) { r.Subresource = "resize" }, reason.NotAPodCreation, ""},
		"an excluded namespace":     {func(r *Request) { r.Namespace.Excluded = true }, reason.NamespaceExcluded, ""},
		"a disabled namespace":      {func(r *Request) { r.Namespace.Disabled = true }, reason.NamespaceDisabled, ""},
		"a mirror pod by hand":      {func(r *Request) { r.PodAnnotations[mirrorAnnotation] = "x" }, "", "must"},
		"a mirror pod from a node":  {func(r *Request) { r.PodAnnotations[mirrorAnnotation] = "x"; r.FromNode = true }, reason.MirrorPod, ""},
		"a pod creation by a human": {func(*Request) {}, "", "a must"},
	} {
		r := request("a", "-")
		c.change(&r)
		d := Decide(r, catalogue())
		if d.Code != c.code || names(d) != c.want {
			t.Errorf("%s: code %q, injected %v, want %q %q", name, d.Code, d.Inject, c.code, c.want)
		}
	}
}

func TestWithoutRequiredTemplatesAMirrorPodIsNeverChanged(t *testing.T) {
	optional := []Template{plain("a"), matchAll(plain("auto"))}
	elsewhere := matchPods(Template{Name: "must", Available: true, Required: true}, "a", "b")
	elsewhere.Match.Namespaces = labels.SelectorFromSet(labels.Set{"team": "other"})
	for _, templates := range [][]Template{optional, append(optional, elsewhere)} {
		for _, fromNode := range []bool{false, true} {
			r := request("a", "-")
			r.PodAnnotations[mirrorAnnotation], r.FromNode, r.Explain = "x", fromNode, true
			d := Decide(r, templates)
			if o := outcome(t, d, "auto"); d.Code != reason.MirrorPod || len(d.Inject) > 0 || d.Deny || o.Code != reason.MirrorPod {
				t.Errorf("%d templates, from a node %v: %+v", len(templates), fromNode, d)
			}
		}
	}
}

func TestOnlyRequiredTemplatesSeeALabelThatTheRecordHides(t *testing.T) {
	templates := []Template{matchPods(plain("auto"), "app", "web"), matchPods(Template{Name: "must", Available: true, Required: true}, "app", "web")}
	r := request("-", "-")
	r.RequiredPodLabels = map[string]string{"app": "web"}
	if d := Decide(r, templates); d.Count() != 1 || !reflect.DeepEqual(d.Inject[1], Choice{Template: "must", Place: 1, Required: true}) {
		t.Errorf("injected %v", d.Inject)
	}
}

func TestWarningsSayWhatToDo(t *testing.T) {
	d := Decide(request("b", "a"), catalogue())
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], `"+b"`) || !strings.Contains(d.Warnings[0], "a, auto") {
		t.Errorf("a replaced list: %q", d.Warnings)
	}
	// "+misspelt" would be refused as well.
	if d := Decide(request("b,misspelt", "true"), catalogue()); len(d.Warnings) != 0 {
		t.Errorf("a replaced list with a name that no template has: %q", d.Warnings)
	}
	d = Decide(request("true", "-"), []Template{plain("a"), plain("b")})
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "NoDefaultTemplates") || !strings.Contains(d.Warnings[0], "a, b") {
		t.Errorf("no default templates: %q", d.Warnings)
	}
	if d = Decide(request("-must", "-"), catalogue()); len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "required") {
		t.Errorf("taking off a required template: %q", d.Warnings)
	}
	if d = Decide(request("-nope", "a"), catalogue()); d.Deny || len(d.Warnings) != 1 {
		t.Errorf("taking off what does not exist: %+v", d)
	}
}

func TestNoAnnotationTakesARequiredTemplateOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{"-", "true", "false", "a", "b,a", "+a", "-must", "-must,-auto", "+a,-b"})
		d := Decide(request(value.Draw(t, "pod"), rapid.SampledFrom([]string{"-", "true", "false", "a", "a,b"}).Draw(t, "namespace")), catalogue())
		if !strings.Contains(names(d), "must") {
			t.Fatalf("required template is missing: %+v", d)
		}
	})
}

// aRequest draws a request for some templates, and names that no template has.
func aRequest(t *rapid.T) (Request, []Template) {
	var all []Template
	for _, name := range []string{"a", "b", "c", "d"} {
		rarely := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) == 0 }
		template := Template{
			Name: name, Suspended: rarely("suspended"), Available: !rarely("not available"), InjectByDefault: rapid.Bool().Draw(t, "by default"),
			Required: rapid.IntRange(0, 3).Draw(t, "required") == 0, SkipBroken: rapid.Bool().Draw(t, "skip"),
		}
		if rarely("broken") {
			template.Broken = errors.New("line 3: no such field")
		}
		if rarely("excepted") {
			template.Exception = &Exception{Name: "move", Why: "it moves", Ended: rapid.Bool().Draw(t, "ended")}
		}
		switch rapid.IntRange(0, 3).Draw(t, "matches") {
		case 0:
			template = matchAll(template)
		case 1:
			template = matchPods(template, "app", "web")
		}
		all = append(all, template)
	}
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "nope", "none"})
	ask := rapid.OneOf(rapid.SampledFrom([]string{"-", "-", "true", "false", "", "no such thing"}), rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "names"), ",")
	}), rapid.Custom(func(t *rapid.T) string {
		items := rapid.SliceOfN(name, 1, 4).Draw(t, "changes")
		for i := range items {
			items[i] = rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign") + items[i]
		}
		return strings.Join(items, ",")
	}))
	r := request(ask.Draw(t, "pod"), ask.Draw(t, "namespace"))
	app := rapid.SampledFrom([]string{"", "web"})
	r.PodLabels, r.RequiredPodLabels = map[string]string{"app": app.Draw(t, "pod's app")}, map[string]string{"app": app.Draw(t, "app for required templates")}
	rarely := func(label string) bool { return rapid.IntRange(0, 6).Draw(t, label) == 0 }
	r.Namespace.Excluded, r.FromNode = rarely("excluded"), rarely("from a node")
	if rarely("mirror") {
		if r.PodAnnotations == nil {
			r.PodAnnotations = map[string]string{}
		}
		r.PodAnnotations[mirrorAnnotation] = "x"
	}
	if rarely("update") {
		r.Operation = "UPDATE"
	}
	return r, all
}

func TestToExplainADecisionChangesNothingOfIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, l := aRequest(t)
		brief := Decide(r, l)
		r.Explain = true
		full := Decide(r, l)
		if brief.Steps != nil || len(full.Steps) == 0 {
			t.Fatalf("steps %v without asking, %v explained", brief.Steps, full.Steps)
		}
		var names []string
		for _, choice := range full.Inject {
			names = append(names, choice.Template)
		}
		places := -1
		for _, e := range full.Exclusions {
			place := slices.IndexFunc(l, func(t Template) bool { return t.Name == e.Template })
			if place < 0 {
				place = len(l)
			} else {
				names = append(names, e.Template)
			}
			if e.Why == "" || e.Code == "" || place < places {
				t.Fatalf("%+v has no reason, or its place is wrong: %+v", e, full.Exclusions)
			}
			places = place
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "a b c d" && full.Code != reason.BadAnnotation {
			t.Fatalf("explained are %s: %+v", got, full)
		}
		// Of templates that nothing asks for, and of those that one rule takes off
		// together, a brief decision says nothing.
		full.Steps = nil
		full.Exclusions = slices.DeleteFunc(full.Exclusions, func(e Exclusion) bool {
			one := strings.Contains(e.Why, "removes it with")
			whole := []reason.Code{reason.NotRequested, reason.NotAPodCreation, reason.NamespaceExcluded, reason.NamespaceDisabled, reason.MirrorPod, reason.PodOptedOut, reason.NamespaceOptedOut}
			return !e.Requested && !one && slices.Contains(whole, e.Code)
		})
		if len(full.Exclusions) == 0 {
			full.Exclusions = nil
		}
		if !reflect.DeepEqual(brief, full) {
			t.Fatalf("without asking\n%+v\nexplained\n%+v", brief, full)
		}
	})
}

// FuzzParseAsk holds that a value is understood or refused with a short text, and that the
// understood names, written again, are the same ask.
func FuzzParseAsk(f *testing.F) {
	for _, seed := range []string{"true", "false", "a,b", "+a,-b", "", ",", "+", "a,+b", "\x00", "+a,-a", " a , a ", "+true", strings.Repeat("a", 64), strings.Repeat("a,", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, level := range []Level{Pod, Namespace} {
			ask, err := ParseAnnotation(value, true, level)
			if err != nil {
				if text := err.Error(); text == "" || len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) || !reflect.DeepEqual(ask, Annotation{}) {
					t.Fatalf("%q at %s: %+v, %q", value, level, ask, text)
				}
				continue
			}
			if ask.Mode == Absent || level == Namespace && ask.Mode == Relative {
				t.Fatalf("%q at %s: %+v", value, level, ask)
			}
			var items []string
			items = append(items, ask.Names...)
			for _, name := range ask.Plus {
				items = append(items, "+"+name)
			}
			for _, name := range ask.Minus {
				items = append(items, "-"+name)
			}
			if (ask.Mode == Names || ask.Mode == Relative) != (len(items) > 0) || len(items) > maxNames {
				t.Fatalf("%q at %s: %+v", value, level, ask)
			}
			if len(items) == 0 {
				continue
			}
			again, err := ParseAnnotation(strings.Join(items, ","), true, level)
			if err != nil || !reflect.DeepEqual(again, ask) {
				t.Fatalf("%q at %s: %+v, and again %+v (%v)", value, level, ask, again, err)
			}
		}
	})
}

func TestAnUnknownTemplateIsToldWithTheNearestThatTheNamespaceMayHave(t *testing.T) {
	templates := append(catalogue(), Template{Name: "resting", Available: true, Suspended: true}, Template{Name: "blue-only"})
	for name, want := range map[string]string{"restin": "", "blue-onyl": "", "atuo": ` (did you mean "auto"?)`, "enabled": ` (did you mean "true"?)`, "nothing-like-it": ""} {
		o := outcome(t, Decide(request("-", name), templates), name)
		if !strings.HasPrefix(o.Why, `namespace "shop" asks for it (annotation pillion.dev/inject), but there is no template `) {
			t.Errorf("%s: %s", name, o.Why)
		}
		if _, hint, _ := strings.Cut(o.Why, "did you mean"); (hint != "") != (want != "") || !strings.Contains(o.Why, want+reason.Choice) {
			t.Errorf("%s: %s; want %q before the list", name, o.Why, want)
		}
	}
}

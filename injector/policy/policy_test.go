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

func everything() *Match { return &Match{Namespace: labels.Everything(), Pod: labels.Everything()} }

// catalogue has a template of each kind: a and b are plain, def is injected by
// default, auto matches every pod, must is required.
func catalogue() []Template {
	return []Template{
		{Name: "a"}, {Name: "b"}, {Name: "def", InjectByDefault: true},
		{Name: "auto", Match: everything()}, {Name: "must", Match: everything(), Required: true},
	}
}

func request(pod, namespace string) Request {
	r := Request{InjectKey: key, Operation: "CREATE", Namespace: "shop"}
	if pod != "-" {
		r.PodAnnotations = map[string]string{key: pod}
	}
	if namespace != "-" {
		r.NamespaceAnnotations = map[string]string{key: namespace}
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
		if got := strings.Join(d.Inject, " "); got != c.want || d.Deny {
			t.Errorf("pod %q, namespace %q: injected %q (deny %v), want %q", c.pod, c.namespace, got, d.Deny, c.want)
		}
	}
}

func TestABadAnnotationIsNeverIgnored(t *testing.T) {
	for _, value := range []string{"", " ", ",", "a,", "a,+b", "+a,-a", "+", "--", "A", "a b", "true,a", "+true", "a/b", "../x", "\"", strings.Repeat("x", 300), strings.Repeat("a,", 100) + "a"} {
		d := Decide(request(value, "-"), catalogue())
		if !d.Deny || d.Code != reason.BadAnnotation || len(d.Inject) > 0 {
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
	blue := func(l map[string]string) bool { return l["team"] == "blue" }
	templates := append(catalogue(),
		Template{Name: "resting", Suspended: true},
		Template{Name: "blue-only", AvailableTo: blue},
		Template{Name: "bad", Broken: errors.New("line 3: no such field")},
		Template{Name: "blue-auto", AvailableTo: blue, Match: everything()},
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
		o := outcome(t, Decide(request(c.pod, c.namespace), templates), c.template)
		if o.Code != c.code || o.Asked != c.asked || o.Deny != c.deny || o.Why == "" {
			t.Errorf("pod %q, namespace %q: %+v, want %s asked %v deny %v", c.pod, c.namespace, o, c.code, c.asked, c.deny)
		}
	}
	r := request("blue-only", "-")
	r.NamespaceLabels = map[string]string{"team": "blue"}
	if d := Decide(r, templates); !slices.Contains(d.Inject, "blue-only") {
		t.Errorf("an available template is not injected: %+v", d)
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
		"an excluded namespace":     {func(r *Request) { r.Excluded = true }, reason.NamespaceExcluded, ""},
		"a mirror pod by hand":      {func(r *Request) { r.PodAnnotations[mirrorAnnotation] = "x" }, "", "must"},
		"a mirror pod from a node":  {func(r *Request) { r.PodAnnotations[mirrorAnnotation] = "x"; r.FromNode = true }, reason.MirrorPod, ""},
		"a pod creation by a human": {func(*Request) {}, "", "a must"},
	} {
		r := request("a", "-")
		c.change(&r)
		d := Decide(r, catalogue())
		if d.Code != c.code || strings.Join(d.Inject, " ") != c.want {
			t.Errorf("%s: code %q, injected %v, want %q %q", name, d.Code, d.Inject, c.code, c.want)
		}
	}
}

// Where nothing is injected, the outcome of a template that somebody asked for says so.
// A warning then names the missing template.
func TestTemplatesThatAreAskedForInVainAreReported(t *testing.T) {
	excluded := func(r *Request) { r.Excluded = true }
	mirror := func(r *Request) {
		if r.PodAnnotations == nil {
			r.PodAnnotations = map[string]string{}
		}
		r.PodAnnotations[mirrorAnnotation] = "x"
	}
	ofNode := func(r *Request) { mirror(r); r.FromNode = true }
	for _, c := range []struct {
		pod, namespace string
		change         func(*Request)
		asked, warning string
	}{
		{"a", "-", excluded, "a", ""},
		{"nope,b", "-", excluded, "b nope", ""},
		{"true", "-", excluded, "def", ""},
		{"-", "a,b", excluded, "a b", ""},
		{"+b,-a", "a", excluded, "b", ""},
		{"a", "b", excluded, "a", ""},
		{"-", "-", excluded, "", ""},
		{"false", "a", excluded, "", ""},
		{"a,", "-", excluded, "", "cannot be understood"},
		{"a", "-", mirror, "a", ""},
		{"a", "-", ofNode, "a", ""},
		{"-", "true", ofNode, "def", ""},
	} {
		r := request(c.pod, c.namespace)
		c.change(&r)
		d := Decide(r, catalogue())
		var asked []string
		for _, o := range d.Exclusions {
			if o.Asked {
				asked = append(asked, o.Template)
			}
		}
		if got := strings.Join(asked, " "); got != c.asked || d.Deny || !strings.Contains(strings.Join(d.Warnings, " "), c.warning) || c.warning == "" && len(d.Warnings) > 0 {
			t.Errorf("pod %q, namespace %q: asked for %q, want %q; %+v", c.pod, c.namespace, got, c.asked, d)
		}
		if said := slices.ContainsFunc(d.Steps, func(s Step) bool { return strings.HasPrefix(s.Rule, string(Pod)) && strings.Contains(s.Input, c.pod) }); c.pod != "-" && !said {
			t.Errorf("pod %q, namespace %q: no step says what the pod says: %+v", c.pod, c.namespace, d.Steps)
		}
	}
	r := request("true", "-")
	r.Excluded = true
	if d := Decide(r, []Template{{Name: "a"}}); len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "excluded") {
		t.Errorf("\"true\" without defaults: %q", d.Warnings)
	}
}

func TestWithoutRequiredTemplatesAMirrorPodIsNeverChanged(t *testing.T) {
	plain := []Template{{Name: "a"}, {Name: "auto", Match: everything()}}
	elsewhere := labels.SelectorFromSet(labels.Set{"team": "other"})
	for _, templates := range [][]Template{plain, append(plain, Template{Name: "must", Required: true, Match: &Match{Namespace: elsewhere, Pod: labels.Everything()}})} {
		for _, fromNode := range []bool{false, true} {
			r := request("a", "-")
			r.PodAnnotations[mirrorAnnotation], r.FromNode = "x", fromNode
			d := Decide(r, templates)
			if o := outcome(t, d, "auto"); d.Code != reason.MirrorPod || len(d.Inject) > 0 || d.Deny || o.Code != reason.MirrorPod {
				t.Errorf("%d templates, from a node %v: %+v", len(templates), fromNode, d)
			}
		}
	}
}

func TestMatchLooksAtBothSelectors(t *testing.T) {
	ns, _ := labels.Parse("team=payments")
	pod, _ := labels.Parse("app=web")
	templates := []Template{{Name: "t", Match: &Match{Namespace: ns, Pod: pod}}}
	for _, c := range []struct {
		ns, pod map[string]string
		want    int
	}{
		{map[string]string{"team": "payments"}, map[string]string{"app": "web"}, 1},
		{map[string]string{"team": "payments"}, nil, 0},
		{nil, map[string]string{"app": "web"}, 0},
	} {
		r := request("-", "-")
		r.NamespaceLabels, r.PodLabels = c.ns, c.pod
		if d := Decide(r, templates); len(d.Inject) != c.want {
			t.Errorf("namespace %v, pod %v: %v", c.ns, c.pod, d.Inject)
		}
	}
}

func TestWarningsSayWhatToDo(t *testing.T) {
	d := Decide(request("b", "a"), catalogue())
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], `"+b"`) || !strings.Contains(d.Warnings[0], "a, auto") {
		t.Errorf("a replaced list: %q", d.Warnings)
	}
	d = Decide(request("true", "-"), []Template{{Name: "a"}, {Name: "b"}})
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
		if !slices.Contains(d.Inject, "must") {
			t.Fatalf("required template is missing: %+v", d)
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
			ask, err := ParseAsk(value, true, level)
			if err != nil {
				if text := err.Error(); text == "" || len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) || !reflect.DeepEqual(ask, Ask{}) {
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
			again, err := ParseAsk(strings.Join(items, ","), true, level)
			if err != nil || !reflect.DeepEqual(again, ask) {
				t.Fatalf("%q at %s: %+v, and again %+v (%v)", value, level, ask, again, err)
			}
		}
	})
}

package templates

import (
	"strings"
	"testing"
	"time"
)

const excepted = `
match: {namespaceSelector: {matchLabels: {team: shop}}}
required: true
exceptions:
- {name: legacy, namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchLabels: {app: batch}}, until: 2027-03-31T00:00:00Z, reason: "OPS-1: moves in March"}
- {name: shorter, podSelector: {matchLabels: {app: batch}}, until: "2027-03-01T00:00:00+01:00", reason: OPS-2}
inject: {spec: {initContainers: [{name: audit, image: "audit:1"}]}}`

func TestAnExceptionEndsAtItsTimeAndTheLastOneCounts(t *testing.T) {
	shop, batch := map[string]string{"team": "shop"}, map[string]string{"app": "batch"}
	all := compiledEntry("audit", excepted).Exceptions()
	end := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why            string
		namespace, pod map[string]string
		at             time.Time
		name           string
		want           bool
	}{
		{"before the end", shop, batch, end.Add(-time.Nanosecond), "legacy", true},
		{"before the end, by a clock in another zone", shop, batch, end.Add(-time.Second).In(time.FixedZone("", 5*3600)), "legacy", true},
		{"at the end", shop, batch, end, "legacy", false},
		{"long after", shop, batch, end.AddDate(1, 0, 0), "legacy", false},
		{"another pod", shop, map[string]string{"app": "web"}, end.AddDate(0, -2, 0), "", false},
		{"another namespace, so the other exception", nil, batch, end.AddDate(0, -2, 0), "shorter", true},
		{"its end, in its own zone", nil, batch, time.Date(2027, 2, 28, 23, 0, 0, 0, time.UTC), "shorter", false},
	} {
		e := all.Find(c.namespace, c.pod)
		if e == nil || c.name == "" {
			if e != nil || c.name != "" {
				t.Errorf("%s: %v, want %q", c.why, e, c.name)
			}
			continue
		}
		if e.Name != c.name || e.Ended(c.at) == c.want || !strings.Contains(e.Sentence(c.at), "excepted until 2027-") {
			t.Errorf("%s: %q, ended %t; want %q, %t", c.why, e.Sentence(c.at), e.Ended(c.at), c.name, !c.want)
		}
	}
}

func TestAnExceptionSaysWhoUntilWhenAndWhy(t *testing.T) {
	const good = `{name: legacy, namespaceSelector: {matchLabels: {team: shop}}, until: "2027-03-31T00:00:00Z", reason: OPS-1}`
	spec := func(exception string) string {
		return "match: {}\nrequired: true\nexceptions: [" + exception + "]\ninject: {spec: {initContainers: [{name: audit, image: 'audit:1'}]}}"
	}
	if e := compiledEntry("audit", spec(good)); e.Err != nil {
		t.Fatal(e.Err)
	}
	for says, exception := range map[string]string{
		"an exception needs a name":                                  strings.Replace(good, "name: legacy, ", "", 1),
		`exceptions[0].name: is "Old_1"; want a DNS label`:           strings.Replace(good, "legacy", "Old_1", 1),
		`exceptions[1].name: the exception "legacy" is there twice`:  good + ", " + good,
		"an exception needs a reason":                                strings.Replace(good, ", reason: OPS-1", "", 1),
		"reason: has 300 characters; want 256":                       strings.Replace(good, "OPS-1", strings.Repeat("é", 300), 1),
		"an exception needs an end":                                  strings.Replace(good, `until: "2027-03-31T00:00:00Z", `, "", 1),
		`until: is "2027-03-31"; want a time with its zone`:          strings.Replace(good, "T00:00:00Z", "", 1),
		`until: is "2027-03-31T00:00:00"; want a time with its zone`: strings.Replace(good, "00Z", "00", 1),
		"selects every pod that the template matches":                strings.Replace(good, "namespaceSelector: {matchLabels: {team: shop}}, ", "", 1),
		"a label that Pillion sets itself":                           strings.Replace(good, "team: shop", "pillion.dev/injection: enabled", 1),
		"a label that Pillion puts on injected pods":                 strings.Replace(good, "namespaceSelector: {matchLabels: {team: shop}}", "podSelector: {matchLabels: {pillion.dev/injected: x}}", 1),
		"has 65 exceptions; allowed are 64":                          strings.Repeat(good+", ", 64) + good,
		"allowed are 1 to 9999":                                      strings.Replace(good, "2027-03-31T00:00:00Z", "9999-12-31T23:59:59-12:00", 1),
		"needs a reason":                                             strings.Replace(good, "OPS-1", `"  "`, 1),
		"unknown field":                                              strings.Replace(good, "until", "til", 1),
		"name a namespaceSelector or a podSelector":                  strings.Replace(good, "namespaceSelector: {matchLabels: {team: shop}}", "namespaceSelector: {}, podSelector: {}", 1),
	} {
		e := compiledEntry("audit", spec(exception))
		if e.Err == nil || !strings.Contains(e.Err.Error(), says) {
			t.Errorf("%s: %v", exception, e.Err)
		}
		// What cannot be read excepts nobody.
		if n := len(e.Exceptions()); n != 0 {
			t.Errorf("%s: %d exceptions are known", exception, n)
		}
	}
	if e := compiledEntry("audit", strings.Replace(spec(good), "required: true\n", "", 1)); e.Err == nil || !strings.Contains(e.Err.Error(), "is for required templates") {
		t.Errorf("an exception of a template that is not required: %v", e.Err)
	}
	// A mistake elsewhere takes no exception away: the pods would be refused.
	if e := compiledEntry("audit", "ordr: 1\n"+spec(good)); e.Err == nil || len(e.Exceptions()) != 1 {
		t.Errorf("with a mistake elsewhere: %v, %d exceptions", e.Err, len(e.Exceptions()))
	}
}

func TestExceptionsChangeNoHash(t *testing.T) {
	without, _, _ := strings.Cut(excepted, "exceptions:")
	without += "inject: {spec: {initContainers: [{name: audit, image: \"audit:1\"}]}}"
	if a, b := compiledEntry("audit", excepted).Template.Hash(), compiledEntry("audit", without).Template.Hash(); a != b {
		t.Errorf("the hash is %s with exceptions, and %s without", a, b)
	}
}

package policy

import (
	"strings"
	"testing"
)

func TestAWordForTrueOrFalseIsRefusedWithTheOneThatIsMeant(t *testing.T) {
	for value, want := range map[string]string{
		"yes": `did you mean "true"?`, "True": `did you mean "true"?`, "on": `did you mean "true"?`, "1": `did you mean "true"?`, "enabled": `did you mean "true"?`,
		"TRUE": `did you mean "true"?`, `"true"`: `did you mean "true"?`, "no": `did you mean "false"?`, "off": `did you mean "false"?`, "False": `did you mean "false"?`,
		"disabled": `did you mean "false"?`, "fluent": "", "Fluent": "",
	} {
		for _, level := range []Level{Namespace, Pod} {
			r := request(value, "-")
			if level == Namespace {
				r = request("-", value)
			}
			d := Decide(r, []Template{})
			said := d.Why
			for _, e := range d.Exclusions {
				said += e.Why
			}
			if !d.Deny && (len(d.Exclusions) == 0 || !d.Exclusions[0].Deny) {
				t.Errorf("%s on the %s is not refused: %+v", value, level, d)
			}
			if strings.Contains(said, "did you mean") != (want != "") || !strings.Contains(said, want) {
				t.Errorf("%s on the %s: %s; want %s", value, level, said, want)
			}
		}
	}
}

func TestATemplateMayHaveTheNameOfSuchAWord(t *testing.T) {
	d := Decide(request("on", "-"), []Template{plain("on")})
	if d.Deny || len(d.Exclusions) > 0 || len(d.Inject) != 1 {
		t.Errorf("%+v", d)
	}
}

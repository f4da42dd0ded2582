package check

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/docs/transcript"
)

//go:generate go test . -run TestTheDocsShowWhatCheckPrints -update

var update = flag.Bool("update", false, "write docs/troubleshoot/check.md anew")

const page = "troubleshoot/check.md"

// TestTheDocsShowWhatCheckPrints holds the page to what the command prints.
func TestTheDocsShowWhatCheckPrints(t *testing.T) {
	path := filepath.Join("../..", "docs", page)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for block, shown := range map[string]string{"faults": printed(t, faulty(t), "api-server", "server-rights", "ca-bundles", "template-names", "labels-by-hand"), "rights": printed(t, poor(t), "server-rights"), "checks": listOfChecks()} {
		if want, err = transcript.Replace(want, "recorded by TestTheDocsShowWhatCheckPrints: "+block, shown); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("docs/troubleshoot/check.md shows something else; go generate ./inspect/check writes it:\n%s", want)
	}
}

// faulty are facts with several faults.
func faulty(t *testing.T) *Facts {
	f := sound(t)
	f.Namespaces.Value = append(f.Namespaces.Value, namespace("web", "enforced", "fluentbit"))
	f.Namespaces.Value[0].Labels["pillion.dev/injection"] = "disabled"
	f.Denied.Value = []rights.Right{{Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Name: "pillion"}}
	f.Webhooks.Value[3].ClientConfig.CABundle = nil
	return f
}

// poor are the facts of a user who may not ask for the rights of others.
func poor(t *testing.T) *Facts {
	f := sound(t)
	f.Denied.Err = &rights.MissingError{Right: rights.Right{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, User: "jane", Err: errors.New("forbidden")}
	return f
}

// printed is what the command prints of the facts; with only, of these checks.
func printed(t *testing.T, f *Facts, only ...string) string {
	t.Helper()
	r := Run(All(), f)
	if len(only) > 0 {
		r.Outcomes = slices.DeleteFunc(r.Outcomes, func(o Outcome) bool { return !slices.Contains(only, o.Name) })
	}
	var out bytes.Buffer
	if err := Write(&out, r, false, false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if len(only) > 0 {
		text = text[:strings.LastIndex(text, "\n\n")] + "\n…\n" // without the verdict
	}
	return "$ pillion check\n" + text
}

// listOfChecks has the checks for the page.
func listOfChecks() string {
	var out strings.Builder
	for _, c := range All() {
		fmt.Fprintf(&out, "- `%s`: %s\n", c.Name, c.Well)
	}
	return out.String()
}

func TestNoLineOfWordsIsWiderThanATerminal(t *testing.T) {
	for _, c := range faults {
		f := sound(t)
		c.damage(t, f)
		r := Run(All(), f)
		var out bytes.Buffer
		if err := Write(&out, r, true, false); err != nil {
			t.Fatal(err)
		}
		commands := map[string]bool{}
		for _, o := range r.Outcomes {
			for _, finding := range o.Findings {
				for _, command := range finding.Remedy {
					commands[command] = true
				}
			}
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(line)) > lineWidth+1 && !commands[strings.TrimSpace(line)] {
				t.Errorf("%s %s: %q", c.check, c.fault, line)
			}
		}
	}
}

// What a cluster's objects say must not change a terminal.
func TestNamesCannotChangeATerminal(t *testing.T) {
	f := sound(t)
	f.Replicas.Value[0].Missing = "bad \x1b[31m\x07"
	f.Namespaces.Value[0].Annotations["pillion.dev/inject"] = "\x1b]0;x\x07"
	var out bytes.Buffer
	if err := Write(&out, Run(All(), f), false, false); err != nil || strings.ContainsAny(out.String(), "\x1b\x07") {
		t.Errorf("%v %q", err, out.String())
	}
}

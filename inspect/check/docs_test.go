package check

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
)

//go:generate go test . -run TestTheDocsShowWhatCheckPrints -update

var update = flag.Bool("update", false, "write docs/troubleshoot/check.md anew")

// TestTheDocsShowWhatCheckPrints holds the page to what the command prints.
func TestTheDocsShowWhatCheckPrints(t *testing.T) {
	for block, shown := range map[string]string{"faults": printed(t, faulty(t), "api-server", "rights", "registration", "template-names", "labels"), "rights": printed(t, poor(t), "rights", "proof"), "checks": listOfChecks()} {
		transcript.Recorded(t, "../../docs/troubleshoot/check.md", block, *update, func(string) string { return shown })
	}
}

// faulty is an installation with several faults.
func faulty(t *testing.T) *ground {
	g := soundGround(t)
	asks("web", "fluentbit", "enforced")(g)
	g.set("Namespace//shop", "metadata.labels", map[string]any{"kubernetes.io/metadata.name": "shop", "pillion.dev/injection": "disabled"})
	g.set("Namespace//shop", "metadata.managedFields", []any{})
	delete(g.objects, "RoleBinding/pillion-system/pillion")
	g.entry(mutating, 1)["timeoutSeconds"] = 3
	return g
}

// poor is an installation that somebody looks at who may not read roles and create pods.
func poor(t *testing.T) *ground {
	g := soundGround(t)
	g.forbidden = []string{"get clusterroles", "create pods pillion-system-proof"}
	return g
}

// printed is the text that the command prints; with only, of these checks.
func printed(t *testing.T, g *ground, only ...string) string {
	t.Helper()
	r := g.run()
	r.Outcomes = slices.DeleteFunc(r.Outcomes, func(o Outcome) bool { return !slices.Contains(only, o.Name) })
	var out bytes.Buffer
	if err := Write(&out, r, false, false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	return "$ pillion check\n" + text[:strings.LastIndex(text, "\n\n")] + "\n…\n" // without the verdict
}

// listOfChecks has the checks for the page.
func listOfChecks() string {
	var out strings.Builder
	for _, c := range All() {
		fmt.Fprintf(&out, "- `%s`: %s\n", c.Name, c.Description)
	}
	return out.String()
}

package e2e

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A cause of testdata/causes.yaml is why a pod runs without its sidecar.
type cause struct {
	mistake
	Sidecar             string // which is missing
	Late, Admin, Remedy []string
}

// The commands by which a team looks at its pods.
const (
	lookSidecars = `kubectl get pods -o custom-columns=POD:.metadata.name,SIDECARS:.spec.initContainers[*].name`
	lookWhy      = `pillion explain -n shop deploy/web`
	restarted    = `kubectl rollout status deployment/web`
)

// backquoted are the parts of a page's line that are code.
var backquoted = regexp.MustCompile("`([^`]+)`")

// From the symptom to the sidecar: ten causes, each with what explain says and the remedy, as the table of
// docs/troubleshoot/README.md has them. The test runs alone: explain lists the templates that there are,
// and other tests have some.
func TestTenCausesOfAMissingSidecarAreFoundAndMended(t *testing.T) {
	page, err := os.ReadFile(checkout.Path("docs/troubleshoot/README.md"))
	expectNoError(t, err)
	var causes []cause
	fromYAML(t, "testdata/causes.yaml", &causes)
	teamReadsTemplates(t)
	must(t, causesTemplates, "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { remove(t, "sidecartemplate", "node-logs", "parked", "team-logs") })
	must(t, causesTemplates, "kubectl", "wait", "--for=condition=Ready", "--timeout=20s", "-f", "-")
	t.Run("each", func(t *testing.T) {
		for _, c := range causes {
			t.Run(c.Title, func(t *testing.T) {
				t.Parallel()
				c.isMended(t, string(page))
			})
		}
	})
}

// isMended produces the cause, and does what the page says where one sees what the page says.
func (c cause) isMended(t *testing.T, page string) {
	commands := append(slices.Clone(c.Admin), c.Remedy...)
	rows := slices.Collect(strings.Lines(page))
	row := slices.IndexFunc(rows, func(line string) bool {
		return strings.HasPrefix(line, "| `") && strings.Contains(line, "`"+commands[0]+"`")
	})
	if row < 0 {
		t.Fatalf("docs/troubleshoot/README.md has no row with %s", commands[0])
	}
	asks := c.Namespace
	if asks == nil {
		asks = asking("fluent-bit")
	}
	at := newTeam(t, maps.Clone(asks), c.Labels)
	at.standInForAKubelet(t)
	at.write(t, "web.yaml", c.text())
	at.seen(t, "kubectl apply -f web.yaml")
	at.settle(t, c.mistake)
	at.seen(t, c.Late...)
	if symptom := at.seen(t, lookSidecars); strings.Contains(symptom, c.Sidecar) {
		t.Fatalf("the sidecar is there:\n%s", symptom)
	}
	why := inOneLine(at.asAdmin().seen(t, lookWhy))
	sees, _, _ := strings.Cut(rows[row][len("| "):], " | ")
	for _, code := range backquoted.FindAllStringSubmatch(sees, -1) {
		text, _, _ := strings.Cut(code[1], "…")
		wantTexts(t, "explain", why, text)
	}
	for _, command := range c.Admin {
		at.asAdmin().seen(t, command)
	}
	if len(c.Admin) > 0 {
		injects(t, at.namespace, c.Sidecar)
	}
	text := at.seen(t, append(c.Remedy, restarted)...)
	at.waitPods(t, 1, "") // the new one alone
	wantTexts(t, "after the remedy, "+text, at.seen(t, lookSidecars), c.Sidecar)
}

package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
)

// A cause is why a pod runs without its sidecar.
type cause struct {
	mistake
	sidecar string // which is missing
	// late is what happens once the pod is there. The team sees the commands.
	late []string
	// remedy are the commands that bring the sidecar; those of the admin come first.
	admin, remedy []string
}

// The commands by which a team looks at its pods.
const (
	lookSidecars = `kubectl get pods -o custom-columns=POD:.metadata.name,SIDECARS:.spec.initContainers[*].name`
	lookWhy      = `pillion explain -n shop deploy/web`
	restart      = `kubectl rollout restart deployment/web`
	restarted    = `kubectl rollout status deployment/web`
)

// podPatch is the command that changes annotations or other fields of the pod template.
func podPatch(patch string) string {
	return `kubectl patch deployment web --type=merge -p '{"spec":{"template":` + patch + `}}'`
}

var (
	// nodeLogs keeps off the host's network.
	nodeLogs = manifest{name: "node-logs", spec: `
matchConditions:
- {name: not-host-network, expression: "!pod.spec.?hostNetwork.orValue(false)", message: "pods on the host's network log to the node"}
inject:
  spec:
    initContainers:
    - {name: node-logs, restartPolicy: Always, image: "registry.example.com/node-logs:1"}
`}
	// parked is suspended.
	parked = manifest{name: "parked", spec: `
suspend: true
inject:
  spec:
    initContainers:
    - {name: parked, restartPolicy: Always, image: "registry.example.com/parked:1"}
`}
	// teamLogs does without itself where its parameters are wrong.
	teamLogs = manifest{name: "team-logs", spec: `
onError: Skip
parameters:
- {name: level, type: string, enum: [info, debug], default: info}
inject:
  spec:
    initContainers:
    - {name: team-logs, restartPolicy: Always, image: "registry.example.com/team-logs:1", env: [{name: LEVEL, value: "${params.level}"}]}
`}
)

var causes = []cause{
	{mistake: mistake{title: "nobody asked", namespace: map[string]string{}}, sidecar: "fluent-bit",
		remedy: []string{"kubectl annotate namespace shop pillion.dev/inject=fluent-bit", restart}},
	{mistake: mistake{title: "the pods are older than the annotation", namespace: map[string]string{}}, sidecar: "fluent-bit",
		late: []string{"kubectl annotate namespace shop pillion.dev/inject=fluent-bit"}, remedy: []string{restart}},
	{mistake: mistake{title: "the annotation is on the Deployment", namespace: map[string]string{}, object: "pillion.dev/inject: fluent-bit"}, sidecar: "fluent-bit",
		remedy: []string{podPatch(`{"metadata":{"annotations":{"pillion.dev/inject":"fluent-bit"}}}`)}},
	{mistake: mistake{title: "the key is another one", namespace: map[string]string{}, pod: "pillion.dev/injection: fluent-bit"}, sidecar: "fluent-bit",
		remedy: []string{podPatch(`{"metadata":{"annotations":{"pillion.dev/inject":"fluent-bit","pillion.dev/injection":null}}}`)}},
	{mistake: mistake{title: "the pod opts out", pod: `pillion.dev/inject: "false"`}, sidecar: "fluent-bit",
		remedy: []string{podPatch(`{"metadata":{"annotations":{"pillion.dev/inject":null}}}`)}},
	{mistake: mistake{title: "the pod's list replaces the namespace's", told: []string{"InjectionNote"}, pod: "pillion.dev/inject: debug-toolbox"}, sidecar: "fluent-bit",
		remedy: []string{podPatch(`{"metadata":{"annotations":{"pillion.dev/inject":"+debug-toolbox"}}}`)}},
	{mistake: mistake{title: "a condition of the template is false", told: []string{"ConditionFalse"}, templates: []manifest{nodeLogs}, namespace: asking("node-logs"), spec: "hostNetwork: true"}, sidecar: "node-logs",
		remedy: []string{podPatch(`{"spec":{"hostNetwork":null}}`)}},
	{mistake: mistake{title: "the template is suspended", told: []string{"Suspended"}, templates: []manifest{parked}, namespace: asking("parked")}, sidecar: "parked",
		admin: []string{`kubectl patch sidecartemplate parked --type=merge -p '{"spec":{"suspend":false}}'`}, remedy: []string{restart}},
	{mistake: mistake{title: "the namespace is switched off", labels: map[string]string{injectionLabel: "disabled"}}, sidecar: "fluent-bit",
		admin: []string{"kubectl label namespace shop pillion.dev/injection-"}, remedy: []string{restart}},
	{mistake: mistake{title: "the template fails, and does without itself", told: []string{"BadParameter"}, templates: []manifest{teamLogs}, namespace: asking("team-logs"), pod: "team-logs.pillion.dev/level: loud"}, sidecar: "team-logs",
		remedy: []string{podPatch(`{"metadata":{"annotations":{"team-logs.pillion.dev/level":"debug"}}}`)}},
}

// backquoted are the parts of a page's line that are code.
var backquoted = regexp.MustCompile("`([^`]+)`")

// From the symptom to the sidecar: ten causes, each with what explain says and the remedy, as the table of
// docs/troubleshoot/README.md has them. The test runs alone: explain lists the templates that there are,
// and other tests have some.
func TestTenCausesOfAMissingSidecarAreFoundAndMended(t *testing.T) {
	page, err := os.ReadFile(checkout.Path("docs/troubleshoot/README.md"))
	expectNoError(t, err)
	teamReadsTemplates(t)
	for _, c := range causes {
		for _, template := range c.templates {
			template.apply(t)
		}
	}
	t.Run("each", func(t *testing.T) {
		for _, c := range causes {
			t.Run(c.title, func(t *testing.T) {
				t.Parallel()
				c.isMended(t, string(page))
			})
		}
	})
}

// isMended produces the cause, and does what the page says where one sees what the page says.
func (c cause) isMended(t *testing.T, page string) {
	commands := append(slices.Clone(c.admin), c.remedy...)
	rows := slices.Collect(strings.Lines(page))
	row := slices.IndexFunc(rows, func(line string) bool {
		return strings.HasPrefix(line, "| `") && strings.Contains(line, "`"+commands[0]+"`")
	})
	if row < 0 {
		t.Fatalf("docs/troubleshoot/README.md has no row with %s", commands[0])
	}
	asks := c.namespace
	if asks == nil {
		asks = asking("fluent-bit")
	}
	at := newTeam(t, maps.Clone(asks), c.labels)
	for _, template := range c.templates {
		eventually(t, soon, func() error {
			if status := template.object(t).Status; !meta.IsStatusConditionTrue(status.Conditions, "Ready") {
				return fmt.Errorf("the template %s is not ready: %s", template.name, pretty(status))
			}
			return nil
		})
	}
	at.standInForAKubelet(t)
	at.write(t, "web.yaml", c.text())
	at.seen(t, "kubectl apply -f web.yaml")
	at.settle(t, c.mistake)
	at.seen(t, c.late...)
	if symptom := at.seen(t, lookSidecars); strings.Contains(symptom, c.sidecar) {
		t.Fatalf("the sidecar is there:\n%s", symptom)
	}
	why := strings.Join(strings.Fields(at.asAdmin().seen(t, lookWhy)), " ")
	sees, _, _ := strings.Cut(rows[row][len("| "):], " | ")
	for _, code := range backquoted.FindAllStringSubmatch(sees, -1) {
		if text, _, _ := strings.Cut(code[1], "…"); !strings.Contains(why, text) {
			t.Errorf("explain does not say %s, as the page has it: %s", code[1], why)
		}
	}
	for _, command := range c.admin {
		at.asAdmin().seen(t, command)
	}
	if len(c.admin) > 0 {
		injects(t, at.namespace, c.sidecar)
	}
	text := at.seen(t, append(c.remedy, restarted)...)
	at.waitPods(t, 1, "") // the new one alone
	if now := at.seen(t, lookSidecars); !strings.Contains(now, c.sidecar) {
		t.Errorf("the remedy brings no %s:\n%s%s", c.sidecar, text, now)
	}
}

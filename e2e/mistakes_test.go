package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A mistake is one that a team makes in a manifest. Its fields are lines of YAML, as the page
// shows them.
type mistake struct {
	title     string
	templates []manifest        // which it is about, besides those of the library
	namespace map[string]string // annotations; nil: it asks for fluent-bit
	labels    map[string]string // of the namespace
	admin     string            // an object that the namespace has besides
	object    string            // annotations of the Deployment
	pod       string            // annotations of its pod template
	spec      string            // fields of the pod's spec
	container string            // fields of the app's container
	job       bool              // a Job in the place of the Deployment
	refused   bool              // no pod comes of it
	// told are the reasons of events that the team has to see.
	told []string
	// later is what happens after the pod is there, and look how the team looks then. now says
	// what it sees, where that is neither a warning nor an event.
	later func(t *testing.T)
	look  []string
	now   func(t *testing.T, looked string) string
}

// text is the manifest, in web.yaml.
func (m mistake) text() string {
	part := func(lines, under, indent string) string {
		if lines == "" {
			return ""
		}
		text := under
		for line := range strings.Lines(lines) {
			text += indent + strings.TrimRight(line, "\n") + "\n"
		}
		return text
	}
	if m.job {
		return "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: report\nspec:\n  template:\n    metadata:\n" +
			part(m.pod, "      annotations:\n", "        ") + "    spec:\n      restartPolicy: Never\n" +
			"      containers:\n      - name: report\n        image: registry.example.com/report:1\n"
	}
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n" + part(m.object, "  annotations:\n", "    ") +
		"spec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata:\n      labels: {app: web}\n" +
		part(m.pod, "      annotations:\n", "        ") + "    spec:\n" + part(m.spec, "", "      ") +
		"      containers:\n      - name: web\n        image: nginx:1.29\n" + part(m.container, "", "        ")
}

// done is what the page says that the team did.
func (m mistake) done() string {
	var parts []string
	for _, p := range []struct{ on, lines string }{
		{"on the namespace: ", annotationLines(m.namespace)}, {"in the namespace: ", m.admin}, {"on the Deployment: ", m.object}, {"on the pod template: ", m.pod}, {"in the pod's spec: ", m.spec},
		{"in the container: ", m.container},
	} {
		if p.lines != "" {
			parts = append(parts, p.on+"`"+strings.Join(strings.Fields(p.lines), " ")+"`")
		}
	}
	if m.job {
		parts = append(parts, "a Job")
	}
	return strings.Join(parts, "<br>")
}

// annotationLines are annotations as lines of YAML.
func annotationLines(annotations map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		lines = append(lines, key+": "+annotations[key])
	}
	return strings.Join(lines, ", ")
}

// oldProxy has an ordinary container beside the app: in a Job it never ends.
var oldProxy = manifest{name: "old-proxy", spec: `
inject:
  spec:
    containers:
    - {name: old-proxy, image: "registry.example.com/old-proxy:1"}
`}

// metricsAgent leaves the pod's own resources as they are.
var metricsAgent = manifest{name: "metrics-agent", spec: `
podResources: Keep
inject:
  spec:
    initContainers:
    - {name: metrics-agent, restartPolicy: Always, image: "registry.example.com/metrics-agent:1", resources: {requests: {memory: 64Mi}}}
`}

// shipper is a template that gets a new version.
var shipper = manifest{name: "shipper", spec: `
inject:
  spec:
    initContainers:
    - {name: shipper, restartPolicy: Always, image: "registry.example.com/shipper:1"}
`}

// The commands by which a team looks, after kubectl apply.
const (
	lookAt     = `kubectl describe deployment web | sed -n '/^Events/,$p'`
	lookEvents = `kubectl get events --no-headers -o custom-columns=OBJECT:.involvedObject.kind,REASON:.reason,MESSAGE:.message | sort -u -k1,2`
)

var mistakes = []mistake{
	{title: "misspelt template", pod: "pillion.dev/inject: fluentbit", refused: true, told: []string{"UnknownTemplate"}},
	{title: "wrong key", namespace: map[string]string{}, pod: "pillion.dev/injection: fluent-bit"},
	{title: "annotation on the Deployment", namespace: map[string]string{}, object: "pillion.dev/inject: fluent-bit"},
	{title: "wrong value", pod: "fluent-bit.pillion.dev/log-level: loud", refused: true, told: []string{"BadParameter"}},
	{title: "another template's parameter", pod: "oauth2-proxy.pillion.dev/port: \"4181\""},
	{title: "unknown parameter", pod: "fluent-bit.pillion.dev/loglevel: debug", refused: true, told: []string{"BadParameter"}},
	{title: "own container of the name", spec: "initContainers:\n- {name: fluent-bit, image: registry.example.com/logs:1, restartPolicy: Always}", refused: true, told: []string{"Conflict"}},
	{title: "pod-level resources", templates: []manifest{metricsAgent}, namespace: asking("metrics-agent"), spec: "resources: {limits: {memory: 48Mi}}", refused: true, told: []string{"Conflict"}},
	{title: "LimitRange", admin: "apiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {memory: 32Mi}, default: {memory: 32Mi}}]}\n", refused: true, told: []string{"RefusedByCluster"}},
	{title: "quota", admin: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: team}\nspec: {hard: {limits.memory: 48Mi}}\n", container: "resources: {limits: {memory: 32Mi}}", refused: true, told: []string{"RefusedByCluster"}},
	{title: "Pod Security", namespace: map[string]string{injectAnnotation: "debug-toolbox", "debug-toolbox.pillion.dev/capabilities": "NET_ADMIN"},
		labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}, refused: true, told: []string{"RefusedByCluster"}},
	{title: "Job", templates: []manifest{oldProxy}, namespace: asking("old-proxy"), job: true, told: []string{"JobNeverFinishes"},
		look: []string{`kubectl describe job report | sed -n '/^Events/,$p'`, lookEvents}},
	{title: "port clash", container: "ports: [{containerPort: 2020}]", refused: true, told: []string{"Conflict"}},
	{title: "mount clash", spec: "volumes: [{name: logs, emptyDir: {}}]", container: "volumeMounts: [{name: logs, mountPath: /var/log/app}]", told: []string{"InjectionNote"}},
	{title: "rollout", templates: []manifest{shipper}, namespace: asking("shipper"), later: newShipper,
		look: []string{`kubectl rollout status deployment/web`, `kubectl get pods -L shipper.pillion.dev/hash`,
			`kubectl get sidecartemplate shipper -o custom-columns=NAME:.metadata.name,HASH:.status.hash`},
		now: hashesDiffer},
}

// newShipper gives the template its next version.
func newShipper(t *testing.T) {
	next := manifest{name: shipper.name, spec: strings.Replace(shipper.spec, "shipper:1", "shipper:2", 1)}
	must(t, next.yaml(), "kubectl", "apply", "-f", "-")
	must(t, "", "kubectl", "wait", "sidecartemplate/shipper", "--for=jsonpath={.status.observedGeneration}=2", "--timeout=20s")
}

// hashesDiffer says that the pod's label has not the hash of the template in force.
func hashesDiffer(t *testing.T, looked string) string {
	pod := regexp.MustCompile(`(?m)^web-.* ([0-9a-f]{10})$`).FindStringSubmatch(looked)
	template := regexp.MustCompile(`(?m)^shipper +([0-9a-f]{16})$`).FindStringSubmatch(looked)
	if pod == nil || template == nil || strings.HasPrefix(template[1], pod[1]) {
		t.Errorf("the pod's hash (%q) and the template's (%q) show no difference in\n%s", pod, template, looked)
	}
	return "`kubectl get pods -L shipper.pillion.dev/hash`: the hash is not the template's"
}

// A team makes fifteen mistakes, and looks with kubectl alone. What it saw before is text in
// the page; what it sees is compared. The test runs alone: messages list the templates that there
// are, and other tests have some.
func TestFifteenMistakesAreToldByKubectl(t *testing.T) {
	teamReadsTemplates(t)
	for _, m := range mistakes {
		for _, template := range m.templates {
			template.apply(t)
			template.waitServed(t)
		}
	}
	names, table := map[string]bool{"table": true}, make([]string, len(mistakes))
	t.Run("each", func(t *testing.T) {
		for i, m := range mistakes {
			names[m.title] = true
			t.Run(m.title, func(t *testing.T) {
				t.Parallel()
				table[i] = m.happens(t)
			})
		}
	})
	if t.Failed() {
		return
	}
	recorded(t, "mistakes.md", "table", func(now string) string {
		then := map[string]string{}
		for line := range strings.Lines(now) {
			if cells := strings.Split(line, " | "); len(cells) == 4 {
				then[strings.TrimPrefix(cells[0], "| ")] = cells[2]
			}
		}
		text := "| mistake | in the manifest | seen then | seen now |\n| --- | --- | --- | --- |\n"
		for i, m := range mistakes {
			text += fmt.Sprintf("| %s | %s | %s | %s |\n", m.title, m.done(), then[m.title], table[i])
		}
		return text
	})
	records(t, "mistakes.md", names)
}

// happens makes the mistake, records what the team sees, and says it in short.
func (m mistake) happens(t *testing.T) string {
	asks := m.namespace
	if asks == nil {
		asks = asking("fluent-bit")
	}
	var at *team
	var applied string
	// On a busy machine a preview may take longer than API servers wait for one.
	for range 3 {
		at = newTeam(t, maps.Clone(asks), m.labels)
		if m.admin != "" {
			must(t, m.admin, "kubectl", "-n", at.name, "apply", "-f", "-")
		}
		at.write(t, "web.yaml", m.text())
		if m.later != nil {
			at.standInForAKubelet(t)
		}
		if applied = at.seen(t, "kubectl apply -f web.yaml"); m.later != nil || strings.Contains(applied, "\nWarning: ") {
			break
		}
	}
	at.settle(t, m)
	looks := []string{lookAt, lookEvents}
	if m.later != nil {
		m.later(t)
	}
	if m.look != nil {
		looks = m.look
	}
	looked := at.seen(t, looks...)
	for _, text := range m.told {
		if !strings.Contains(applied+looked, text) {
			t.Errorf("the team does not see %q in\n%s%s", text, applied, looked)
		}
	}
	recorded(t, "mistakes.md", m.title, func(string) string { return applied + looked })
	if m.now != nil {
		return m.now(t, looked)
	}
	seen := told(applied, looked)
	if seen == "" {
		t.Errorf("the team is not told:\n%s%s", applied, looked)
	}
	return seen
}

// told says where the team is told: the first warning, and the events.
func told(applied, looked string) string {
	var where, reasons []string
	if _, after, warned := strings.Cut(applied, "\nWarning: "); warned {
		first, _, _ := strings.Cut(after, "\n")
		where = append(where, "`kubectl apply` warns: "+cell(first))
	}
	described, events, _ := strings.Cut(looked, "$ kubectl get events")
	for line := range strings.Lines(described) {
		if fields := gap.Split(strings.TrimSpace(line), 5); len(fields) == 5 && strings.HasPrefix(fields[3], "pillion") {
			where = append(where, "`kubectl describe`: the event `"+fields[1]+"`")
		}
	}
	for line := range strings.Lines(events) {
		if fields := gap.Split(strings.TrimSpace(line), 3); len(fields) == 3 && fields[1] != "ScalingReplicaSet" && fields[1] != "SuccessfulCreate" {
			reasons = append(reasons, "`"+fields[1]+"` of the "+fields[0])
		}
	}
	if len(reasons) > 0 {
		where = append(where, "`kubectl get events`: "+strings.Join(reasons, ", "))
	}
	return strings.Join(where, "<br>")
}

// cell is a text for a table, not too long.
func cell(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "|", "\\|")
	if letters := []rune(text); len(letters) > 200 {
		text = strings.TrimSpace(string(letters[:199])) + "…"
	}
	return "*" + text + "*"
}

// settle waits until the workload has its pod, or events say why not.
func (at *team) settle(t *testing.T, m mistake) {
	t.Helper()
	eventually(t, soon, func() error {
		pods, err := client.CoreV1().Pods(at.name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		events, err := client.CoreV1().Events(at.name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, e := range events.Items {
			seen[e.Reason] = true
		}
		if m.refused != seen["FailedCreate"] || m.refused == (len(pods.Items) > 0) {
			return fmt.Errorf("refused: want %t, but there are %d pods and events %v", m.refused, len(pods.Items), seen)
		}
		for _, code := range m.told {
			if !seen[code] {
				return fmt.Errorf("no event %s, but %v", code, seen)
			}
		}
		return nil
	})
}

package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// teamOf returns the kubeconfig of an account that may edit what is in the namespace, and
// nothing else.
func (n *namespace) teamOf(t *testing.T) string {
	t.Helper()
	path := n.kubeconfig(t, "team")
	must(t, "", "kubectl", "-n", n.name, "create", "rolebinding", "team", "--clusterrole=edit", "--serviceaccount="+n.name+":team")
	return path
}

// says runs explain, and fails the test unless the text has each of wants. Spaces and line
// ends count as one space.
func says(t *testing.T, args []string, wants ...string) {
	t.Helper()
	out, _, err := run(t, "", "pillion", append([]string{"explain"}, args...)...)
	if refused := slices.Contains(wants, "refused: "); (err != nil) != refused {
		t.Errorf("the exit code is an error's: %v, want %v (%v)", err != nil, refused, err)
	}
	wantTexts(t, "explain "+strings.Join(args, " "), inOneLine(out), wants...)
	for line := range strings.Lines(out) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 && !strings.HasPrefix(line, "    kubectl ") { // commands are whole
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}

func TestExplainSaysHowAPodOfTheClusterStandsAndWhy(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, nil, nil)
	early := n.mustCreate(t, newPod("early", nil))
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,"%s.pillion.dev/log-level":"debug"}}}`, injectAnnotation, name, name)
	n.mustPatch(t, patch)
	injects(t, n, name)
	n.mustCreate(t, newPod("late", nil))
	must(t, workloadOf("Deployment", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	in := []string{"-n", n.name}
	says(t, append(in, "pod/late"), "Pod/late in namespace "+n.name+": injected already, nothing to change (Injected)", "yes: the namespace has the label "+injectionLabel,
		"yes: the pod has the record "+statusAnnotation, "logLevel debug (Namespace, "+name+".pillion.dev/log-level)", "added spec.initContainers[name="+name+"]")
	says(t, append(in, "pod", "early"), "not injected; missing: "+name+"; created now: Injected", "created at "+early.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
	eventually(t, soon, func() error {
		out, _, err := run(t, "", "pillion", "explain", "-n", n.name, "deploy/web")
		return errors.Join(err, lacks(out, "1 of 1 pods up to date"))
	})
	says(t, append(in, "ns/"+n.name), "Namespace/"+n.name, "a plain pod in namespace "+n.name+": injected (Injected)")
	const file = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"file"},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`
	bySettings := []string{"--cluster", "-n", n.name, "-f", "-"}
	out := must(t, file, "pillion", append([]string{"explain"}, bySettings...)...)
	wantTexts(t, "explain", inOneLine(out), "Pod/file in namespace "+n.name+": injected (Injected)")
	wantTexts(t, "inject", must(t, file, "pillion", append([]string{"inject"}, bySettings...)...), "name: "+name, "debug")
	wantTexts(t, "params", inOneLine(must(t, "", "pillion", "params", name, "--cluster", "-n", n.name)), "debug (Namespace)")
}

// Pillion's rules say that the pods are injected, and the API server refuses all of them: explain has its own
// answer, and the event of the object that creates the pods.
func TestExplainHasTheAPIServersOwnAnswerForAWorkload(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, asking("fluent-bit"), map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	viewer := n.kubeconfig(t, "viewer")
	must(t, "", "kubectl", "-n", n.name, "create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount="+n.name+":viewer")
	must(t, workloadOf("Deployment", "web", "", "", "")+`
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: "* * * * *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "nginx:1.29"}]}}}}}}
`, "kubectl", "-n", n.name, "apply", "-f", "-")
	must(t, "", "kubectl", "-n", n.name, "create", "job", "--from=cronjob/nightly", "nightly-now")
	const violates = `violates PodSecurity "restricted`
	for workload, creator := range map[string]string{"deploy/web": "replicaset/web-", "cj/nightly": "job/nightly-now: "} {
		eventually(t, soon, func() error {
			out, _, err := run(t, "", "pillion", "explain", "-n", n.name, workload)
			return errors.Join(refusedWith(err), lacks(inOneLine(out), creator, "a pod could not be created, last at "))
		})
		says(t, []string{"-n", n.name, workload}, "in namespace "+n.name+": refused: ", "refused: ", violates, "0 of 0 pods up to date", "The API server's answer to a dry run")
		says(t, []string{"-n", n.name, workload, "--kubeconfig", viewer}, "in namespace "+n.name+": refused: ", "refused: ", violates, "you lack the right to", "to create pods in namespace "+n.name+" (the API server's answer to a dry run of the pod)")
	}
}

// A team with the role edit in its namespace, and no right anywhere else, runs the command that
// a refusal names, and learns why.
func TestATeamWithItsOwnRightsLearnsWhyItsPodIsRefused(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	team := n.teamOf(t)
	must(t, workloadOf("Deployment", "good", "", "", "")+"\n---\n"+workloadOf("Deployment", "bad", "", name+".pillion.dev/log-level: loud", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	command := regexp.MustCompile(`For details run: kubectl pillion (explain -n \S+ deploy/bad)`)
	var args []string
	eventually(t, soon, func() error {
		events, err := client.CoreV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
		expectNoError(t, err)
		for _, e := range events.Items {
			if found := command.FindStringSubmatch(e.Message); found != nil && e.Reason == "FailedCreate" {
				args = strings.Fields(found[1])[1:]
				return nil
			}
		}
		return fmt.Errorf("no event of the ReplicaSet names the command: %v", events.Items)
	})
	as := append(args, "--kubeconfig", team)
	says(t, as, "Deployment/bad in namespace "+n.name+": refused: admission webhook", "replicaset/bad-", "a pod could not be created, last at ", "The API server's answer to a dry run", "refused: ", `got "loud"`, "BadParameter", "yes: the namespace has the label", "you lack the right to list configmaps in namespace "+ground.Namespace+" (the installer's values", "--serviceaccount="+n.name+":team")
	says(t, []string{"-n", n.name, "deploy/good", "--kubeconfig", team}, "admitted, with "+name+" (version ")
	says(t, []string{"ns/" + n.name, "--kubeconfig", team}, "yes: the namespace has the label", injectAnnotation+`: "`+name+`"`)
}

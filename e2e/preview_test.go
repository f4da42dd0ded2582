package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// kubectlSays returns the warnings that kubectl prints. Long sentences are joined again.
func kubectlSays(t *testing.T, input string, args ...string) string {
	t.Helper()
	_, stderr, err := run(t, input, "kubectl", args...)
	expectNoError(t, err)
	return strings.ReplaceAll(stderr, " …\nWarning: … ", " ")
}

// applyDry returns the warnings about a manifest that a person applies by dry run.
func (n *namespace) applyDry(t *testing.T, manifest string) string {
	t.Helper()
	return kubectlSays(t, manifest, "-n", n.name, "apply", "--dry-run=server", "-f", "-")
}

// wantWarnings fails the test unless there are so many warnings, which have the texts.
func wantWarnings(t *testing.T, got string, want ...string) {
	t.Helper()
	if len(want) == 0 && got != "" {
		t.Errorf("nothing is wrong, and kubectl prints\n%s", got)
	}
	for _, text := range want {
		if strings.Count(got, text) != 1 {
			t.Errorf("%d times %q in what kubectl prints, want once:\n%s", strings.Count(got, text), text, got)
		}
	}
}

// workloadOf is a workload with one container. Own is for its own metadata, annotations are
// its pods', and container goes into the container.
func workloadOf(kind, name, own, annotations, container string) string {
	version, begin, end := "apps/v1", "selector: {matchLabels: {app: web}}, template: {", "}"
	restart := ""
	switch kind {
	case "StatefulSet":
		begin = "serviceName: db, " + begin
	case "ReplicationController":
		version, begin = "v1", "selector: {app: web}, template: {"
	case "Job":
		version, begin, restart = "batch/v1", "template: {", "restartPolicy: Never, "
	case "CronJob":
		version, begin, end, restart = "batch/v1", "schedule: '0 0 * * *', jobTemplate: {spec: {template: {", "}}}", "restartPolicy: Never, "
	}
	pod := fmt.Sprintf("metadata: {labels: {app: web}, annotations: {%s}}, spec: {%scontainers: [{name: app, image: nginx%s}]}", annotations, restart, container)
	if kind == "Pod" {
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, %s}", strings.Replace(pod, "metadata: {", "metadata: {name: "+name+", ", 1))
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s%s}, spec: {%s%s%s}}", version, kind, name, own, begin, pod, end)
}

func TestKubectlApplyOfEachKindTellsWhatItsPodsWillMeet(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil) // nobody asked here: the object itself does
	var all []string
	var want []string
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"} {
		name := strings.ToLower(kind)
		all = append(all, workloadOf(kind, name, "", "pillion.dev/inject: fluent-bti", ""))
		want = append(want, "pods of "+kind+" "+name+` are refused: the pod asks for it (annotation pillion.dev/inject), but there is no template "fluent-bti"`)
	}
	got := n.applyDry(t, strings.Join(all, "\n---\n"))
	wantWarnings(t, got, want...)
	if count := strings.Count(got, `did you mean "fluent-bit"?`); count != len(all) {
		t.Errorf("%d of %d warnings name the template that was meant:\n%s", count, len(all), got)
	}
	wantWarnings(t, n.applyDry(t, workloadOf("Deployment", "web", "", "pillion.dev/inject: fluent-bit", "")))
}

func TestKubectlApplyOfANamespaceTellsWhatItsAnnotationsMean(t *testing.T) {
	t.Parallel()
	n := &namespace{name: "default"}
	wantWarnings(t, n.applyDry(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team-a, annotations: {pillion.dev/inject: fluent-bti}}}"), "pods of namespace team-a are refused", `did you mean "fluent-bit"?`)
	wantWarnings(t, n.applyDry(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team-a, annotations: {pillion.dev/inject: fluent-bit}}}"))
}

// The command that a preview proposes does what it says.
func TestTheCommandOfAPreviewMovesTheAnnotationToThePods(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, nil, nil)
	said := kubectlSays(t, workloadOf("Deployment", "web", ", annotations: {pillion.dev/inject: "+name+"}", "", ""), "-n", n.name, "apply", "-f", "-")
	_, command, ok := strings.Cut(said, "Warning: kubectl ")
	command, _, _ = strings.Cut(command, "\n")
	args, patch, quoted := strings.Cut(command, " -p '")
	if !ok || !quoted {
		t.Fatalf("no command:\n%s", said)
	}
	wantWarnings(t, kubectlSays(t, "", append(strings.Fields(args), "-p", strings.TrimSuffix(patch, "'"))...))
	eventually(t, soon, func() error {
		if images, all := n.images(t, name); len(images) == 0 {
			return fmt.Errorf("%d pods, none with the sidecar", len(all))
		}
		return nil
	})
}

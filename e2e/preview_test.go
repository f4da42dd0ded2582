package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/docs/transcript"
)

// applyDry applies a manifest by dry run, as a person does, and returns the warnings that
// kubectl prints. Long sentences are joined again.
func (n *namespace) applyDry(t *testing.T, manifest string) string {
	t.Helper()
	_, stderr, err := run(t, manifest, "kubectl", "-n", n.name, "apply", "--dry-run=server", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(stderr, " …\nWarning: … ", " ")
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

func TestKubectlApplyOfADeploymentTellsEachMistake(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	other := newTemplate(t)
	clashing := manifest{name: unique("side"), spec: "\ninject: {spec: {containers: [{name: NAME, image: 'x:1', ports: [{containerPort: 8080}], volumeMounts: [{name: tls, mountPath: /tls}]}], volumes: [{name: tls, emptyDir: {}}]}}"}
	clashing.apply(t)
	clashing.waitServed(t)
	n := newNamespace(t, asking(name), open())
	clash := newNamespace(t, asking(clashing.name), open())
	restricted := newNamespace(t, asking(name), map[string]string{injectionLabel: "enabled", "pod-security.kubernetes.io/enforce": "restricted"})
	limited, used := newNamespace(t, asking(name), open()), newNamespace(t, asking(name), open())
	must(t, "{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 32Mi}}]}}", "kubectl", "-n", limited.name, "apply", "-f", "-")
	must(t, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: tight}, spec: {hard: {limits.memory: 64Mi}}}", "kubectl", "-n", used.name, "apply", "-f", "-")
	deployment := func(own, annotations, container string) string {
		return workloadOf("Deployment", "web", own, annotations, container)
	}
	const safe = ", securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}"
	for _, test := range []struct {
		title, manifest string
		n               *namespace
		want            []string
	}{
		{"nothing is wrong", deployment("", name+".pillion.dev/log-level: debug", ""), n, nil},
		{"a wrong key", deployment("", "pillion.dev/injcet: "+name, ""), n, []string{"pods of Deployment web: annotation pillion.dev/injcet means nothing; did you mean the annotation pillion.dev/inject?"}},
		{"a label in place of the annotation", strings.Replace(deployment("", "", ""), "labels: {app: web}, a", "labels: {app: web, pillion.dev/inject: "+name+"}, a", 1), n,
			[]string{"pods of Deployment web: label pillion.dev/inject means nothing: pillion.dev/inject is an annotation"}},
		{"the annotation on the Deployment", deployment(", annotations: {pillion.dev/inject: "+name+"}", "", ""), n, []string{
			"Deployment web: annotation pillion.dev/inject means nothing on the Deployment itself: it belongs to its pods, in spec.template.metadata.annotations"}},
		{"a wrong value", deployment("", name+".pillion.dev/log-level: loud", ""), n, []string{"pods of Deployment web are refused: annotation " + name + `.pillion.dev/log-level on the pod has the value "loud"`, "(BadParameter)"}},
		{"a value out of bounds", deployment("", name+".pillion.dev/memory: 1Gi", ""), n, []string{`has the value "1Gi"`, "128Mi"}},
		{"another template's parameter", deployment("", other+".pillion.dev/log-level: debug", ""), n, []string{"means nothing: nothing asks for the template " + other}},
		{"an unknown parameter", deployment("", name+".pillion.dev/log-levle: debug", ""), n, []string{name + ".pillion.dev/log-levle"}},
		{"a container of the name", deployment("", "", "}, {name: "+name+", image: busybox"), n, []string{"pods of Deployment web are refused", "(Conflict)"}},
		{"a clash of ports", deployment("", "", ", ports: [{containerPort: 8080}]"), clash, []string{"pods of Deployment web are refused", "has the port 8080/TCP", "(Conflict)"}},
		{"a clash of mounts", deployment("", "", "}], volumes: [{name: tls, secret: {secretName: tls}"), clash, []string{"pods of Deployment web are refused", "(Conflict)"}},
		{"Pod Security", deployment("", "", safe), restricted, []string{"pods of Deployment web: Pod Security refuses the pod", "without the sidecars the pod would pass"}},
		{"a LimitRange", deployment("", "", ", resources: {limits: {memory: 1Mi}}"), limited, []string{"the LimitRange small refuses the pod: container " + name, name + ".pillion.dev/memory"}},
		{"a quota", deployment("", "", ", resources: {limits: {memory: 32Mi}}"), used, []string{"the ResourceQuota tight refuses the pod: exceeded quota", "without the sidecars the pod would pass"}},
		{"a quota that the app exceeds itself", deployment("", "", ", resources: {limits: {memory: 1Gi}}"), used, nil},
	} {
		t.Run(test.title, func(t *testing.T) {
			t.Parallel()
			wantWarnings(t, test.n.applyDry(t, test.manifest), test.want...)
		})
	}
}

// The command that a preview proposes does what it says.
func TestTheCommandOfAPreviewMovesTheAnnotationToThePods(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, nil, nil)
	_, stderr, err := run(t, workloadOf("Deployment", "web", ", annotations: {pillion.dev/inject: "+name+"}", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	_, command, ok := strings.Cut(stderr, "Warning: kubectl ")
	command, _, _ = strings.Cut(command, "\n")
	args, patch, quoted := strings.Cut(command, " -p '")
	if !ok || !quoted {
		t.Fatalf("no command:\n%s", stderr)
	}
	_, stderr, err = run(t, "", "kubectl", append(strings.Fields(args), "-p", strings.TrimSuffix(patch, "'"))...)
	if err != nil || stderr != "" {
		t.Errorf("%v\n%s", err, stderr)
	}
	eventually(t, soon, func() error {
		pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
		for _, pod := range pods.Items {
			if sidecar(&pod, name) != nil {
				return nil
			}
		}
		return fmt.Errorf("%d pods, none with the sidecar (%v)", len(pods.Items), err)
	})
}

func TestKubectlApplyOfANamespaceTellsWhatItsAnnotationsMean(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := &namespace{name: "default"}
	for title, test := range map[string]struct {
		metadata string
		want     []string
	}{
		"nothing is wrong":                   {"annotations: {pillion.dev/inject: " + name + "}", nil},
		"a misspelt template":                {"annotations: {pillion.dev/inject: fluent-bti}", []string{"pods of namespace team-a are refused", `did you mean "fluent-bit"?`}},
		"a bad value":                        {"annotations: {pillion.dev/inject: '+fluent-bit'}", []string{"(BadAnnotation)"}},
		"a bad parameter":                    {"annotations: {pillion.dev/inject: " + name + ", " + name + ".pillion.dev/log-level: loud}", []string{"namespace team-a: pods with the template " + name + " are refused"}},
		"a wrong key":                        {"annotations: {pillion.dev/injection: x}", []string{"namespace team-a: annotation pillion.dev/injection means nothing; did you mean"}},
		"a label in place of the annotation": {"labels: {pillion.dev/inject: fluent-bit}", []string{"namespace team-a: label pillion.dev/inject means nothing"}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			wantWarnings(t, n.applyDry(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team-a, "+test.metadata+"}}"), test.want...)
		})
	}
}

// A pod goes through the mutating webhook and the preview in one request.
func TestNobodyReadsAWarningAboutAPodTwice(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), open())
	pod := newPod("web", map[string]string{"pillion.dev/injcet": "x"})
	pod.Labels = map[string]string{"example.com/with": "mine"}
	if _, err := n.preview(t, pod); err != nil {
		t.Fatal(err)
	}
	got := n.warnings.take()
	wantWarnings(t, got, "annotation pillion.dev/injcet means nothing", "example.com/with")
}

func TestNamespacesThatNeverAskedAreNotPreviewed(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	for _, kind := range []string{"Deployment", "Job", "Pod"} {
		must(t, workloadOf(kind, "plain", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	}
	must(t, "", "kubectl", "label", "namespace", n.name, "team=any")
	must(t, workloadOf("Deployment", "asks", "", "pillion.dev/inject: fluent-bit", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	if got := n.reviews(t, "preview", 1); got != 1 {
		t.Errorf("%d previews, want that of the Deployment that asks", got)
	}
}

func TestControllersCauseNoPreviews(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), open())
	must(t, workloadOf("Deployment", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	must(t, workloadOf("Job", "once", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	settled := func(generation string, pods int) {
		t.Helper()
		eventually(t, soon, func() error {
			d, err := client.AppsV1().Deployments(n.name).Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil && (d.Status.ObservedGeneration != d.Generation || d.Annotations["deployment.kubernetes.io/revision"] != generation || int(d.Status.Replicas) != pods) {
				err = fmt.Errorf("the Deployment has not settled: %s", pretty(d.Status))
			}
			return err
		})
	}
	settled("1", 1)
	// Neither scaling nor a label of somebody else's changes what pods meet.
	must(t, "", "kubectl", "-n", n.name, "scale", "deployment", "web", "--replicas=3")
	must(t, "", "kubectl", "-n", n.name, "label", "deployment", "web", "team=any")
	settled("1", 3)
	must(t, "", "kubectl", "-n", n.name, "set", "image", "deployment/web", "app=nginx:1.30")
	settled("2", 4) // one more than wanted: none becomes ready here
	if _, err := client.AppsV1().Deployments(n.name).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const byPeople = 4 // the namespace, the Deployment, the Job, the new image
	if got := n.reviews(t, "preview", byPeople); got != byPeople {
		t.Errorf("%d previews, want %d", got, byPeople)
	}
}

// The entries say what makes a preview harmless.
func TestThePreviewCanHoldNobodyUp(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{nil, {"webhook.scope=All"}} {
		found := 0
		for _, w := range only[admissionv1.ValidatingWebhookConfiguration](t, render(t, sets...), "ValidatingWebhookConfiguration").Webhooks {
			if !strings.HasPrefix(w.Name, "preview") {
				continue
			}
			found++
			if *w.FailurePolicy != admissionv1.Ignore || *w.TimeoutSeconds != 1 || *w.SideEffects != admissionv1.SideEffectClassNone {
				t.Errorf("%v: %s", sets, pretty(w))
			}
		}
		if found == 0 {
			t.Errorf("%v: there is no preview", sets)
		}
	}
	for _, object := range render(t, "preview.enabled=false", "clusterTemplates=false", "webhook.required.enabled=false") {
		if object.GetKind() == "ValidatingWebhookConfiguration" {
			t.Error("without previews and all that validates there is a configuration")
		}
	}
}

// Where nothing can come of it, API servers themselves say so.
func TestWhoAsksWherePillionIsNotCalledIsWarned(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	must(t, workloadOf("Pod", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	kubectl := func(args ...string) string {
		t.Helper()
		_, stderr, err := run(t, "", "kubectl", args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(stderr, " …\nWarning: … ", " ")
	}
	for _, excluded := range []string{"kube-system", "pillion-system"} {
		none := "the annotation pillion.dev/inject has no effect in the namespace " + excluded + ": Pillion keeps out of it"
		wantWarnings(t, kubectl("annotate", "namespace", excluded, "pillion.dev/inject=fluent-bit", "--dry-run=server"), none)
		wantWarnings(t, kubectl("annotate", "namespace", excluded, "pillion.dev/inject=false", "--dry-run=server"))
		in := &namespace{name: excluded}
		for _, kind := range []string{"Deployment", "CronJob", "Pod"} {
			wantWarnings(t, in.applyDry(t, workloadOf(kind, "asks", "", "pillion.dev/inject: fluent-bit", "")), none)
		}
	}
	// A running pod.
	wantWarnings(t, kubectl("-n", n.name, "annotate", "pod", "web", "pillion.dev/inject=fluent-bit"), "the pod web stays as it is: the annotation pillion.dev/inject is read when a pod is created")
	wantWarnings(t, kubectl("-n", n.name, "annotate", "pod", "web", "example.com/inject=fluent-bit"))
	wantWarnings(t, kubectl("-n", n.name, "label", "pod", "web", "team=web"))
	// Prefixes that look like Pillion's, once.
	for _, key := range []string{"pillion.io/inject", "pilion.dev/inject", "pillions.dev/inject", "pillino.dev/inject", "pillion/inject"} {
		wantWarnings(t, kubectl("annotate", "namespace", n.name, key+"=fluent-bit"), "the annotation "+key+" means nothing to Pillion; did you mean pillion.dev/inject?")
		wantWarnings(t, n.applyDry(t, workloadOf("Deployment", "asks", "", key+": fluent-bit", "")), "the annotation "+key+" means nothing")
	}
	for _, key := range []string{"sidecar.istio.io/inject", "linkerd.io/inject", "example.com/inject", "pillion.example.com/inject", "pillion.io/injects"} {
		wantWarnings(t, kubectl("annotate", "namespace", n.name, key+"=true"))
	}
	if got := n.reviews(t, "preview", 0); got != 0 {
		t.Errorf("%d previews in a namespace that never asked", got)
	}
	// The label alone, as for another injector.
	wantWarnings(t, kubectl("label", "namespace", n.name, injectionLabel+"=enabled"), "namespace "+n.name+": the label "+injectionLabel+" asks for no sidecar")
}

// docs/preview.md shows what kubectl prints.
func TestThePageAboutPreviewsShowsWhatKubectlPrints(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, asking("fluent-bit"), open())
	in := t.TempDir()
	show := func(commands ...string) string {
		t.Helper()
		var shown strings.Builder
		for _, command := range commands {
			args := strings.Fields(strings.ReplaceAll(command, " shop", " "+n.name))
			for i, a := range args {
				if strings.HasSuffix(a, ".yaml") {
					args[i] = filepath.Join(in, a)
				}
			}
			stdout, stderr, err := run(t, "", args[0], args[1:]...)
			if err != nil {
				t.Fatal(err)
			}
			shown.WriteString("$ " + command + "\n" + strings.ReplaceAll(stderr+stdout, n.name, "shop"))
		}
		return shown.String()
	}
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "$ cat " + name + "\n" + text
	}
	web := func(name, own, annotations, container string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: " + name + "\n" + own +
			"spec:\n  selector: {matchLabels: {app: " + name + "}}\n  template:\n    metadata:\n      labels: {app: " + name + "}\n" + annotations +
			"    spec:\n      containers:\n      - {name: app, image: nginx" + container + "}\n"
	}
	page := filepath.Join(checkout.Path("docs"), "preview.md")
	record := func(block, text string) {
		t.Helper()
		transcript.Recorded(t, page, block, *update, func(string) string { return text })
	}
	text := write("web.yaml", web("web", "", "      annotations:\n        fluent-bit.pillion.dev/log-level: loud\n", ""))
	text += show("kubectl -n shop apply -f web.yaml")
	record("workload", text)
	text = write("api.yaml", web("api", "  annotations:\n    pillion.dev/inject: +vault-agent\n", "      annotations:\n        pillion.dev/injcet: fluent-bit\n", ""))
	text += show("kubectl -n shop apply -f api.yaml")
	record("keys", text)
	// Whoever annotates a namespace that runs reads which workloads get no new pods.
	must(t, "", "kubectl", "-n", n.name, "delete", "deployments", "--all")
	must(t, "", "kubectl", "annotate", "namespace", n.name, "pillion.dev/inject-")
	for _, w := range []string{
		workloadOf("Deployment", "web", "", "", ""), workloadOf("Deployment", "api", "", "", "}, {name: fluent-bit, image: 'fluent/fluent-bit:3'"),
		workloadOf("StatefulSet", "db", "", "fluent-bit.pillion.dev/log-level: loud", ""),
	} {
		must(t, w, "kubectl", "-n", n.name, "apply", "-f", "-")
	}
	record("live", show("kubectl annotate namespace shop pillion.dev/inject=fluent-bit"))
	must(t, "", "kubectl", "-n", n.name, "delete", "deployments,statefulsets", "--all")
	record("namespace", show("kubectl annotate namespace shop pillion.dev/inject=+fluent-bit --overwrite", "kubectl annotate namespace shop pillion.dev/inject=fluent-bit fluent-bit.pillion.dev/log-levle=debug --overwrite"))
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// The tests of this file run what `pillion check`, docs/troubleshoot and docs/concepts name as
// remedies, against the damages that they are for, with Helm 3 and Helm 4. testdata/remedies.md has the
// table. They damage the release, so none runs in parallel.

// looks are the beginnings of commands that change nothing, unless a pipe leads on.
var looks = regexp.MustCompile(`^(kubectl|pillion)( -n \S+)? (get|describe|logs|auth|explain|status|lint|rollout status)\b`)

// mends runs the commands that change something, with what a reader writes for words in capitals.
func mends(t *testing.T, remedies []string, words ...string) {
	t.Helper()
	ran := 0
	for _, command := range remedies {
		if !looks.MatchString(command) || strings.Contains(command, "| kubectl ") {
			does(t, strings.NewReplacer(append([]string{"CHART", "charts/pillion"}, words...)...).Replace(command))
			ran++
		}
	}
	if ran == 0 {
		t.Errorf("no command changes anything: %q", remedies)
	}
}

// finds waits until a check finds something that names about, and returns the remedies of all that it
// finds, each once.
func finds(t *testing.T, check, about string) (remedies []string) {
	t.Helper()
	eventually(t, soon, func() error {
		c := checking(t)
		if _, found := c.find(check, about); len(found) == 0 || found[0].Remedy == "" {
			return fmt.Errorf("the check %s finds nothing about %q:\n%s", check, about, c.notOK())
		}
		_, all := c.find(check, "")
		for _, f := range all {
			if f.Remedy != "" && !slices.Contains(remedies, f.Remedy) {
				remedies = append(remedies, f.Remedy)
			}
		}
		return nil
	})
	return remedies
}

// releaseIs returns what the release's objects specify, or says which of them is missing.
func releaseIs(t *testing.T) (string, error) {
	t.Helper()
	manifest := must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace)
	out, _, err := run(t, manifest, "kubectl", "get", "-f", "-", "-o", "json")
	if err != nil {
		return "", err
	}
	var list unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return "", err
	}
	var all []string
	for _, o := range list.Items {
		o.Object["metadata"] = map[string]any{"name": o.GetName(), "namespace": o.GetNamespace(), "labels": o.GetLabels()}
		delete(o.Object, "status")
		if o.GetKind() == "Secret" {
			delete(o.Object, "data") // Pillion's
		}
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
		all = append(all, pretty(o.Object))
	}
	return strings.Join(all, "\n"), nil
}

// wholeRelease is releaseIs for a release that lacks nothing.
func wholeRelease(t *testing.T) string {
	t.Helper()
	waitRewritten(t)
	now, err := releaseIs(t)
	expectNoError(t, err)
	return now
}

// isBack waits until the release is as it was, and sound.
func isBack(t *testing.T, before string) {
	t.Helper()
	isAsBefore(t, before)
	soundly(t)
}

// isAsBefore waits until the release is as it was.
func isAsBefore(t *testing.T, before string) {
	t.Helper()
	eventually(t, soon, func() error {
		now, err := releaseIs(t)
		if err == nil && now != before {
			is, was := strings.Split(now, "\n"), strings.Split(before, "\n")
			err = fmt.Errorf("the release has %q, and had %q", besides(is, was), besides(was, is))
		}
		return err
	})
}

// besides are the lines that the others do not have.
func besides(lines, others []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(others, line) })
}

// patched patches an object by a JSON patch.
func patched(t *testing.T, object, patch string) {
	t.Helper()
	must(t, "", "kubectl", "patch", object, "--type=json", "-p", patch)
}

// entry is the index of an entry of a webhook configuration.
func entry(t *testing.T, object, name string) int {
	t.Helper()
	names := strings.Fields(must(t, "", "kubectl", "get", object, "-o", "jsonpath={.webhooks[*].name}"))
	i := slices.Index(names, name+".pillion.dev")
	if i < 0 {
		t.Fatalf("%s has the entries %s, want %s among them", object, names, name)
	}
	return i
}

const (
	mutating   = "mutatingwebhookconfiguration/" + configuration
	validating = "validatingwebhookconfiguration/" + configuration
	ofCluster  = "pillion"
)

// Each damage is done to the release, found by its check, and mended by all commands of the remedy,
// in order: then every object is as it was.
func TestTheRemediesOfCheckBringTheReleaseBack(t *testing.T) {
	soundly(t)
	t.Logf("a sound installation:\n%s", checkText(t))
	before := wholeRelease(t)
	away := func(objects ...string) func(t *testing.T) {
		return func(t *testing.T) { must(t, "", "kubectl", append([]string{"delete"}, objects...)...) }
	}
	for _, d := range []struct {
		damage       string
		do           func(t *testing.T)
		check, about string
	}{
		{"entries are edited and added, and one calls a URL", func(t *testing.T) {
			at := func(name string) string { return fmt.Sprintf("/webhooks/%d", entry(t, mutating, name)) }
			one := webhookConfiguration(t).Webhooks[entry(t, mutating, "pods")]
			one.Name = "more.example.com"
			text, err := json.Marshal(one)
			expectNoError(t, err)
			patched(t, mutating, `[{"op":"add","path":"`+at("requested")+`/objectSelector","value":{"matchLabels":{"a":"b"}}},
				{"op":"add","path":"`+at("enforced")+`/matchConditions","value":[{"name":"never","expression":"false"}]},
				{"op":"replace","path":"`+at("enforced")+`/timeoutSeconds","value":3},
				{"op":"replace","path":"`+at("pods")+`/clientConfig","value":{"url":"https://127.0.0.1:9/"}},
				{"op":"add","path":"/webhooks/0","value":`+string(text)+`}]`)
			patched(t, validating, fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/matchConditions/-","value":{"name":"never","expression":"false"}}]`, entry(t, validating, "required-enforced")))
		}, "registration", "has clientConfig.url"},
		{"an entry is taken away", func(t *testing.T) {
			patched(t, mutating, fmt.Sprintf(`[{"op":"remove","path":"/webhooks/%d"}]`, entry(t, mutating, "enforced")))
		}, "registration", "entry enforced.pillion.dev is missing"},
		{"both configurations are deleted", away(mutating, validating), "registration", "there is no validatingwebhookconfiguration"},
		{"the Service selects by one more label", func(t *testing.T) {
			must(t, "", "kubectl", "-n", ground.Namespace, "patch", "service", "pillion", "--type=merge", "-p", `{"spec":{"selector":{"color":"blue"}}}`)
		}, "registration", `spec.selector.color "blue"`},
		{"the Service has another port", func(t *testing.T) {
			must(t, "", "kubectl", "-n", ground.Namespace, "patch", "service", "pillion", "--type=json", "-p", `[{"op":"replace","path":"/spec/ports/0/port","value":444}]`)
		}, "registration", "port 444, and the chart renders 443"},
		{"a policy and a binding are deleted, and what binds another one only warns", func(t *testing.T) {
			away("validatingadmissionpolicy/"+ofCluster+"-namespaces", "validatingadmissionpolicybinding/"+ofCluster+"-proof")(t)
			patched(t, "validatingadmissionpolicybinding/"+ofCluster+"-labels", `[{"op":"replace","path":"/spec/validationActions","value":["Warn"]}]`)
			patched(t, "validatingadmissionpolicy/"+ofCluster+"-selectors", `[{"op":"add","path":"/spec/matchConditions","value":[{"name":"never","expression":"false"}]}]`)
		}, "policies", `spec.validationActions[0] "Warn"`},
		{"all policies are deleted", func(t *testing.T) {
			away("validatingadmissionpolicy,validatingadmissionpolicybinding", "-l", "app.kubernetes.io/instance="+ground.Release)(t)
		}, "policies", "there is no validatingadmissionpolicy/" + ofCluster + "-labels"},
		{"the rights are taken", func(t *testing.T) {
			patched(t, "clusterrole/"+ofCluster, `[{"op":"replace","path":"/rules","value":[]}]`)
			away("-n", ground.Namespace, "rolebinding/pillion")(t)
		}, "rights", "there is no rolebinding/pillion"},
		{"the CRD is deleted", away("crd/sidecartemplates.pillion.dev"), "crds", "there is no CustomResourceDefinition"},
	} {
		if !t.Run(d.damage, func(t *testing.T) {
			d.do(t)
			// What else a deleted CRD takes is tried by TestADeletedCRDTakesNoTemplateOutOfForce.
			remedies := finds(t, d.check, d.about)
			_, found := checking(t).find(d.check, d.about)
			t.Logf("%s\n  %s: %s\n  %s", d.damage, d.check, found[0].Message, strings.Join(remedies, "\n  "))
			mends(t, remedies)
			isBack(t, before)
		}) {
			return // what follows would begin with this damage
		}
	}
}

// What becomes of a pod.
const (
	injected = "injected"
	bare     = "bare"
	refused  = "refused"
)

// A podLoad creates pods by dry run all the time, until it is stopped or the test ends.
type podLoad struct {
	end   func() // returns when no pod is under way any more
	mu    sync.Mutex
	pods  map[string]int // by what became of them
	last  string         // what became of the last one
	row   int            // how many of the last ones became the same
	error error          // of the last one that was refused
}

func (l *podLoad) add(outcome string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[outcome]++
	l.row++
	if outcome != l.last {
		l.last, l.row = outcome, 1
	}
	if err != nil {
		l.error = err
	}
}

// take returns the counts since the last call.
func (l *podLoad) take() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.pods
	l.pods, l.error = map[string]int{}, nil
	return counts
}

func (l *podLoad) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.pods)
}

func (l *podLoad) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%v, the last %d %s (%v)", l.pods, l.row, l.last, l.error)
}

// becomes waits until thirty pods in a row become the same.
func (l *podLoad) becomes(t *testing.T, want string) {
	t.Helper()
	eventually(t, soon, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last != want || l.row < 30 {
			return fmt.Errorf("of the last pods %d are %s, want 30 %s (%v)", l.row, l.last, want, l.error)
		}
		return nil
	})
}

// stop ends the load, and fails the test if a pod did not get its sidecar.
func (l *podLoad) stop(t *testing.T) map[string]int {
	t.Helper()
	l.end()
	counts := l.counts()
	if counts[refused]+counts[bare] > 0 {
		t.Errorf("not all pods are injected: %s", l)
	}
	return counts
}

// underLoad begins a load of a namespace whose pods get a sidecar of that name.
func underLoad(t *testing.T, n *namespace, name string) *podLoad {
	t.Helper()
	return underLoadBy(t, n, name, 2)
}

// underLoadBy is underLoad by so many workers.
func underLoadBy(t *testing.T, n *namespace, name string, workers int) *podLoad {
	t.Helper()
	return newLoad(t, workers, 10*time.Millisecond, func(ctx context.Context, pod string) (outcome string, err error) {
		created, err := n.client.CoreV1().Pods(n.name).Create(ctx, newPod(pod, nil), dryRun)
		switch {
		case err != nil:
			return refused, err
		case sidecar(created, name) == nil:
			return bare, nil
		}
		return injected, nil
	})
}

// newLoad starts a load. Each of the workers creates a pod, records its outcome, pauses, and begins
// again.
func newLoad(t *testing.T, workers int, pause time.Duration, create func(ctx context.Context, name string) (outcome string, err error)) *podLoad {
	t.Helper()
	l := &podLoad{pods: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				time.Sleep(pause)
				outcome, err := create(ctx, fmt.Sprintf("load-%d-%d", worker, i))
				if ctx.Err() == nil {
					l.add(outcome, err)
				}
			}
		})
	}
	l.end = func() {
		stop()
		all.Wait()
	}
	t.Cleanup(l.end)
	return l
}

// The command that takes hand edits back leaves the caBundle alone, so no pod goes without its
// sidecar meanwhile, whether its namespace fails open or closed.
func TestNoPodLosesItsSidecarWhileEditsOfEntriesAreTakenBack(t *testing.T) {
	loose, strict := newNamespace(t, asking("fluent-bit"), open()), newNamespace(t, asking("fluent-bit"), enforced())
	m, required := newRequired(t, nil)
	injects(t, loose, "fluent-bit")
	injects(t, strict, "fluent-bit")
	eventually(t, soon, func() error { return errors.Join(required.hasInjection(t, "enforced"), required.hasLabel(t, true)) })
	loads := map[string]*podLoad{"fails open": underLoad(t, loose, "fluent-bit"), "is enforced": underLoad(t, strict, "fluent-bit"), "has a required template": underLoad(t, required, m.name)}
	before := wholeRelease(t)
	for range 2 {
		patched(t, mutating, fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/objectSelector","value":{"matchLabels":{"a":"b"}}}]`, entry(t, mutating, "pods")))
		patched(t, validating, fmt.Sprintf(`[{"op":"replace","path":"/webhooks/%d/timeoutSeconds","value":9}]`, entry(t, validating, "required-enforced")))
		mends(t, finds(t, "registration", "has objectSelector"))
		isAsBefore(t, before)
	}
	for what, l := range loads {
		l.becomes(t, injected)
		if c := l.counts(); c[refused]+c[bare] > 0 {
			t.Errorf("pods of a namespace that %s: %s", what, l)
		}
	}
}

const (
	upgrade  = "helm upgrade pillion charts/pillion -n pillion-system --reset-then-reuse-values"
	rollback = "helm -n pillion-system rollback pillion $(helm -n pillion-system history pillion --max 1 | awk 'END {print $1}')"
)

// What docs/troubleshoot/runbook.md and docs/concepts name for a release that lacks something.
func TestTheRollbackOfTheRunbookMakesAgainWhatIsGone(t *testing.T) {
	soundly(t)
	before := wholeRelease(t)
	must(t, "", "kubectl", "delete", mutating, validating, "clusterrole/"+ofCluster, "validatingadmissionpolicy/"+ofCluster+"-labels", "namespace/"+ground.Namespace+"-proof")
	must(t, "", "kubectl", "-n", ground.Namespace, "delete", "role/pillion", "configmap/pillion")
	does(t, rollback)
	isBack(t, before)
}

// The runbook's commands that set a value change that one only.
func TestTheRunbooksValuesTakeEffect(t *testing.T) {
	n := newNamespace(t, asking("fluent-bit"), enforced())
	t.Cleanup(func() {
		_, err := ground.Run(context.Background(), shared, "helm", upgradeOf(installed...)...)
		if err := errors.Join(err, shared.Scale(context.Background(), ground.Namespace, 1)); err != nil {
			t.Error(err)
		}
	})
	for _, set := range []string{"replicas=3", "coverage.every=0s", "parameterDefaults.fluent-bit.logLevel=debug"} {
		does(t, upgrade+" --set "+set)
	}
	expectNoError(t, shared.Scale(t.Context(), ground.Namespace, 1))
	out := must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace)
	for _, want := range []string{"replicas: 3", "countEvery: 0s", "name: \"debug-toolbox\""} {
		if !strings.Contains(out, want) {
			t.Errorf("the release lacks %q", want)
		}
	}
	n.previews(t, soon, newPod("probe", nil), func(pod *corev1.Pod) bool { return strings.Contains(pretty(pod), "debug") })
}

// What docs/troubleshoot/runbook.md names for namespaces and their pods, for a namespace called shop.
func TestTheRunbooksCommandsBringPodsTheirSidecar(t *testing.T) {
	t.Parallel()
	const names = "kubectl annotate namespace shop pillion.dev/inject=fluent-bit --overwrite"
	with := func(key, value string) map[string]string {
		a := asking("fluent-bit")
		a[key] = value
		return a
	}
	for _, c := range []struct {
		damage              string
		annotations, labels map[string]string
		remedy              string
	}{
		{"the annotation is not valid", asking("+fluent-bit"), nil, names},
		{"the namespace opts out", asking("false"), nil, names},
		{"nothing is injected by default", asking("true"), nil, names},
		{"there is no template of the name", asking("fluentbit"), nil, names},
		{"nobody asks", nil, nil, "kubectl annotate namespace shop pillion.dev/inject=fluent-bit"},
		{"a parameter has a wrong value", with("fluent-bit.pillion.dev/log-level", "loud"), nil, "kubectl annotate namespace shop fluent-bit.pillion.dev/log-level=info --overwrite"},
		{"there is no such parameter", with("fluent-bit.pillion.dev/loglevel", "info"), nil, "kubectl annotate namespace shop TEMPLATE.pillion.dev/PARAMETER-"},
		{"the namespace is switched off", asking("fluent-bit"), map[string]string{injectionLabel: "disabled"}, "kubectl label namespace shop pillion.dev/injection-"},
		{"the label has a value that means nothing", asking("fluent-bit"), map[string]string{injectionLabel: "true"}, "kubectl label namespace shop pillion.dev/injection-"},
	} {
		t.Run(c.damage, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, c.annotations, c.labels)
			if pod, err := n.preview(t, newPod("probe", nil)); err == nil && sidecar(pod, "fluent-bit") != nil {
				if c.labels[injectionLabel] != "true" {
					t.Fatal("the pod has its sidecar, so that this shows nothing")
				}
			}
			does(t, strings.NewReplacer("shop", n.name, "TEMPLATE", "fluent-bit", "PARAMETER", "loglevel").Replace(c.remedy))
			injects(t, n, "fluent-bit")
			if c.labels != nil {
				eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
			}
		})
	}
}

// While Pillion cannot write its label, a hand can.
func TestALabelSetByHandHasPodsInjectedWherePillionCouldNotSetIt(t *testing.T) {
	backToOne(t)
	kill(t)
	n := newNamespace(t, asking("fluent-bit"), nil)
	expectNoError(t, n.hasInjection(t, ""))
	does(t, "kubectl label namespace "+n.name+" pillion.dev/injection=enabled")
	scale(t, 1)
	injects(t, n, "fluent-bit")
}

// A token that was stolen from one of Pillion's pods ends with the pod, and the command of
// docs/troubleshoot/runbook.md replaces them one after the other.
func TestARestartEndsTheTokensOfPillionsPods(t *testing.T) {
	pods, err := client.CoreV1().Pods(ground.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pillion"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods of Pillion: %v", len(pods.Items), err)
	}
	pod := pods.Items[0]
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}}}
	token, err := client.CoreV1().ServiceAccounts(ground.Namespace).CreateToken(t.Context(), "pillion", request, metav1.CreateOptions{})
	expectNoError(t, err)
	thief := rest.AnonymousClientConfig(config)
	thief.BearerToken = token.Status.Token
	stolen, err := kubernetes.NewForConfig(thief)
	expectNoError(t, err)
	read := func() error {
		_, err := stolen.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		return err
	}
	if err := read(); err != nil {
		t.Fatalf("the token does not work, so that this shows nothing: %v", err)
	}
	does(t, "kubectl -n pillion-system rollout restart deployment/pillion")
	eventually(t, running, func() error {
		if err := othersAreReady(t, pod.Name); err != nil {
			return err
		}
		if err := read(); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("with the token: %v, want that it is refused", err)
		}
		return nil
	})
	rolledOut(t, ground.Namespace)
}

// othersAreReady has all pods of Pillion but one be ready, as a kubelet does. Without a kubelet, the
// Deployment keeps old pods where it counts too few that are available.
func othersAreReady(t *testing.T, but string) error {
	t.Helper()
	pods, err := client.CoreV1().Pods(ground.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pillion"})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Name == but || pod.Status.Phase == corev1.PodRunning {
			continue
		}
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		if _, err := client.CoreV1().Pods(ground.Namespace).UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// What check names where no Helm release is to be seen, for a copy that is not the installer's alone, and
// for a Deployment that wants no replica.
func TestTheOtherRemediesOfCheckMend(t *testing.T) {
	soundly(t)
	before := wholeRelease(t)
	// gone waits until a check finds nothing any more about something.
	gone := func(t *testing.T, check, about string) {
		t.Helper()
		eventually(t, soon, func() error {
			if _, found := checking(t).find(check, about); len(found) > 0 {
				return fmt.Errorf("%s still finds %v", check, found)
			}
			return nil
		})
	}
	t.Run("the Deployment wants no replica", func(t *testing.T) {
		scaled := func(n string) {
			must(t, "", "kubectl", "-n", ground.Namespace, "scale", "deployment", "pillion", "--replicas="+n)
		}
		// found is the finding about the Deployment, whose replicas are asked by their pods then.
		found := func() []finding {
			out, stderr, _ := run(t, "", "pillion", "check", "-o", "json")
			var c checked
			if err := json.Unmarshal([]byte(out), &c); err != nil {
				t.Fatalf("%v\n%s%s", err, out, stderr)
			}
			_, found := c.find("deployment", "wants no replica")
			return found
		}
		defer scaled("1")
		scaled("0")
		if got := found(); len(got) != 1 {
			t.Fatalf("found %+v", got)
		}
		does(t, found()[0].Remedy)
		if got := found(); len(got) != 0 {
			t.Errorf("it still finds %+v", got)
		}
	})
	t.Run("no Helm release is to be seen", func(t *testing.T) {
		file := inFile(t, "manifests.yaml", must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace))
		managed := func(by string) {
			must(t, "", "kubectl", "-n", ground.Namespace, "label", "deployment", "pillion", "app.kubernetes.io/managed-by="+by, "--overwrite")
		}
		managed("somebody")
		defer managed("Helm")
		patched(t, mutating, fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/objectSelector","value":{"matchLabels":{"a":"b"}}}]`, entry(t, mutating, "pods")))
		mends(t, finds(t, "registration", "has objectSelector"))
		gone(t, "registration", "has objectSelector")
		must(t, "", "kubectl", "delete", validating)
		mends(t, finds(t, "registration", "there is no validatingwebhookconfiguration"), "MANIFESTS", file)
		gone(t, "registration", "there is no")
	})
	t.Run("a copy calls others, too", func(t *testing.T) {
		c := webhookConfiguration(t)
		other := measure.PodWebhook("foreign.example.com", registrationv1.WebhookClientConfig{URL: new("https://foreign.example.com/")}, "nowhere", registrationv1.NeverReinvocationPolicy)
		name := unique("copy")
		registers(t, name, append(c.Webhooks, other)...)
		remedy := finds(t, "registration", name+" is not part of the chart")
		// An editor that does what the finding says.
		mends(t, []string{"KUBE_EDITOR='sh " + inFile(t, "editor", "sed -i 's/      name: pillion$/      name: elsewhere/' $1") + "' " + remedy[0]})
		gone(t, "registration", name)
	})
	isBack(t, before)
}

func TestTheRunbooksCommandsForAWorkloadDoWhatItSays(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, nil)
	// Both annotations, and a key with a slip.
	web := func(own, key string) string {
		return inFile(t, "web.yaml", fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %s, annotations: {%s}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {%q: fluent-bit}}
    spec: {containers: [{name: app, image: "registry.example.com/app:1"}]}
`, n.name, own, key))
	}
	if got := kubectlSays(t, "", "apply", "-f", web("pillion.dev/inject: fluent-bit", "pillion.dev/injct")); !strings.Contains(got, "has no effect on the Deployment itself") || !strings.Contains(got, "is not recognised") {
		t.Errorf("kubectl apply warns of\n%s", got)
	}
	if got := kubectlSays(t, "", "apply", "-f", web("", "pillion.dev/inject")); strings.Contains(got, "has no effect") || strings.Contains(got, "is not recognised") {
		t.Errorf("corrected, kubectl apply warns of\n%s", got)
	}
	// A new pod gets the image that the template has now.
	pod := func(image string, besides ...string) (name string) {
		eventually(t, running, func() error {
			pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
			if err != nil {
				return err
			}
			for _, p := range pods.Items {
				if c := sidecar(&p, m.name); c != nil && c.Image == image && sidecar(&p, "fluent-bit") != nil && !slices.Contains(besides, p.Name) {
					name = p.Name
					return nil
				}
			}
			return fmt.Errorf("none of %d pods has the image %s", len(pods.Items), image)
		})
		return name
	}
	probe, err := n.preview(t, newPod("probe", nil))
	expectNoError(t, err)
	old := pod(sidecar(probe, m.name).Image)
	patched(t, "sidecartemplate/"+m.name, `[{"op":"replace","path":"/spec/inject/spec/initContainers/0/image","value":"registry.example.com/other:2"}]`)
	n.previews(t, soon, newPod("probe", nil), func(pod *corev1.Pod) bool { return sidecar(pod, m.name).Image == "registry.example.com/other:2" })
	does(t, "kubectl -n "+n.name+" delete pod "+old)
	pod("registry.example.com/other:2", old)
}

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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		{"both configurations are deleted", away(mutating, validating), "registration", "there is no validatingwebhookconfiguration"},
		{"the Service has another port", func(t *testing.T) {
			must(t, "", "kubectl", "-n", ground.Namespace, "patch", "service", "pillion", "--type=json", "-p", `[{"op":"replace","path":"/spec/ports/0/port","value":444}]`)
		}, "registration", "port 444, and the chart renders 443"},
		{"a policy and a binding are deleted, and what binds another one only warns", func(t *testing.T) {
			away("validatingadmissionpolicy/"+ofCluster+"-namespaces", "validatingadmissionpolicybinding/"+ofCluster+"-proof")(t)
			patched(t, "validatingadmissionpolicybinding/"+ofCluster+"-labels", `[{"op":"replace","path":"/spec/validationActions","value":["Warn"]}]`)
			patched(t, "validatingadmissionpolicy/"+ofCluster+"-selectors", `[{"op":"add","path":"/spec/matchConditions","value":[{"name":"never","expression":"false"}]}]`)
		}, "policies", `spec.validationActions[0] "Warn"`},
		{"the rights are taken", func(t *testing.T) {
			patched(t, "clusterrole/"+ofCluster, `[{"op":"replace","path":"/rules","value":[]}]`)
			away("-n", ground.Namespace, "rolebinding/pillion")(t)
		}, "rights", "there is no rolebinding/pillion"},
		{"the CRD is deleted", away("crd/sidecartemplates.pillion.dev"), "crds", "there is no CustomResourceDefinition"},
	} {
		if !t.Run(d.damage, func(t *testing.T) {
			d.do(t)
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
		return n.outcome(ctx, newPod(pod, nil), name)
	})
}

// outcome creates the pod by dry run, and returns what becomes of it where its sidecar has that name.
func (n *namespace) outcome(ctx context.Context, pod *corev1.Pod, name string) (string, error) {
	created, err := n.client.CoreV1().Pods(n.name).Create(ctx, pod, dryRun)
	switch {
	case err != nil:
		return refused, err
	case sidecar(created, name) == nil:
		return bare, nil
	}
	return injected, nil
}

// newLoad starts a load. Each of the workers creates a pod, or something else, records its outcome, pauses, and
// begins again.
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

// What docs/troubleshoot/runbook.md names for a namespace called shop.
func TestTheRunbooksCommandsBringPodsTheirSidecar(t *testing.T) {
	t.Parallel()
	with := func(key, value string) map[string]string {
		return map[string]string{injectAnnotation: "fluent-bit", key: value}
	}
	for _, c := range []struct {
		damage      string
		annotations map[string]string
		remedy      string
	}{
		{"the namespace opts out", asking("false"), "kubectl annotate namespace shop pillion.dev/inject=fluent-bit --overwrite"},
		{"a parameter has a wrong value", with("fluent-bit.pillion.dev/log-level", "loud"), "kubectl annotate namespace shop fluent-bit.pillion.dev/log-level=info --overwrite"},
		{"there is no such parameter", with("fluent-bit.pillion.dev/loglevel", "info"), "kubectl annotate namespace shop fluent-bit.pillion.dev/loglevel-"},
	} {
		t.Run(c.damage, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, c.annotations, nil)
			if pod, err := n.preview(t, newPod("probe", nil)); err == nil && sidecar(pod, "fluent-bit") != nil {
				t.Fatal("the pod has its sidecar, so that this shows nothing")
			}
			does(t, strings.ReplaceAll(c.remedy, "shop", n.name))
			injects(t, n, "fluent-bit")
		})
	}
}

// mended waits until a check finds nothing any more about something.
func mended(t *testing.T, check, about string) {
	t.Helper()
	eventually(t, soon, func() error {
		if _, found := checking(t).find(check, about); len(found) > 0 {
			return fmt.Errorf("%s still finds %v", check, found)
		}
		return nil
	})
}

// Its replicas are asked by their pods, which a control plane has none of.
func TestADeploymentThatWantsNoReplicaIsScaledByTheRemedyOfCheck(t *testing.T) {
	found := func() []finding {
		t.Helper()
		out, _, _ := run(t, "", "pillion", "check", "-o", "json")
		var c checked
		expectNoError(t, json.Unmarshal([]byte(out), &c))
		_, found := c.find("deployment", "wants no replica")
		return found
	}
	scaled := func(n string) {
		must(t, "", "kubectl", "-n", ground.Namespace, "scale", "deployment", "pillion", "--replicas="+n)
	}
	defer scaled("1")
	scaled("0")
	got := found()
	if len(got) != 1 {
		t.Fatalf("found %+v", got)
	}
	does(t, got[0].Remedy)
	if got := found(); len(got) != 0 {
		t.Errorf("it still finds %+v", got)
	}
}

func TestWhereNoHelmReleaseIsToBeSeenTheRemediesOfCheckApplyManifests(t *testing.T) {
	before := wholeRelease(t)
	file := inFile(t, "manifests.yaml", must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace))
	managed := func(by string) {
		must(t, "", "kubectl", "-n", ground.Namespace, "label", "deployment", "pillion", "app.kubernetes.io/managed-by="+by, "--overwrite")
	}
	managed("somebody")
	must(t, "", "kubectl", "delete", validating)
	mends(t, finds(t, "registration", "there is no validatingwebhookconfiguration"), "MANIFESTS", file)
	mended(t, "registration", "there is no")
	managed("Helm")
	isBack(t, before)
}

func TestACopyOfAConfigurationIsDeletedOrEditedAsCheckSays(t *testing.T) {
	soundly(t)
	copied := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: unique("copy")}, Webhooks: webhookConfiguration(t).Webhooks}
	create(t, client.AdmissionregistrationV1().MutatingWebhookConfigurations(), copied)
	mends(t, finds(t, "registration", copied.Name+" is not part of the chart"))
	soundly(t)
	// It calls others, too.
	other := measure.PodWebhook("foreign.example.com", registrationv1.WebhookClientConfig{URL: new("https://foreign.example.com/")}, "nowhere", registrationv1.NeverReinvocationPolicy)
	name := unique("copy")
	registers(t, name, append(copied.Webhooks, other)...)
	remedy := finds(t, "registration", name+" is not part of the chart")
	// An editor that does what the finding says.
	does(t, "KUBE_EDITOR='sh "+inFile(t, "editor", "sed -i 's/      name: pillion$/      name: elsewhere/' $1")+"' "+remedy[0])
	mended(t, "registration", name)
}

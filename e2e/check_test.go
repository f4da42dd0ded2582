package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// checked is what `pillion check -o json` says.
type checked struct {
	Judged bool
	Sound  bool
	Counts map[string]int
	Checks []struct {
		Section, Name, Result string
		Findings              []finding
	}
	exit int
}

type finding struct {
	Result, Says string
	Remedy       []string
}

// checking runs `pillion check`, and returns what it says. The replicas are asked directly: on
// a control plane there are no pods of Pillion to ask.
func checking(t *testing.T, args ...string) checked {
	t.Helper()
	args = append([]string{"check", "-o", "json"}, args...)
	for _, r := range shared.Replicas(ground.Namespace) {
		args = append(args, "--replica", "http://"+r.Admin.String())
	}
	out, stderr, err := run(t, "", "pillion", args...)
	var c checked
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		c.exit = exit.ExitCode()
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr)
	}
	if (c.exit == 0) != c.Sound || (c.exit == 3) == c.Judged || c.exit == 2 || c.exit > 3 {
		t.Errorf("exit code %d, judged %v, sound %v", c.exit, c.Judged, c.Sound)
	}
	return c
}

// find returns the result of a check, and its findings that name something.
func (c checked) find(name, says string) (result string, found []finding) {
	for _, one := range c.Checks {
		if one.Name != name {
			continue
		}
		result = one.Result
		for _, f := range one.Findings {
			if strings.Contains(f.Says, says) {
				found = append(found, f)
			}
		}
	}
	return result, found
}

// notOK are the checks that are not as they should be.
func (c checked) notOK() string {
	var all []string
	for _, one := range c.Checks {
		if one.Result == "failed" || one.Result == "warning" {
			all = append(all, fmt.Sprintf("%s %s: %+v", one.Name, one.Result, one.Findings))
		}
	}
	return strings.Join(all, "\n")
}

// soundly waits until the check finds nothing but what is so on the ground: a single replica.
func soundly(t *testing.T) {
	t.Helper()
	eventually(t, soon, func() error {
		if c := checking(t); !c.Sound || c.Counts["warning"] > 0 {
			return errors.New(c.notOK())
		}
		return nil
	})
}

// does runs a command line of a remedy.
func does(t *testing.T, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -eo pipefail; "+command)
	cmd.Env = shared.Env()
	cmd.Dir = checkout.Path()
	out, err := cmd.CombinedOutput()
	if err != nil && strings.HasSuffix(command, "| kubectl replace -f -") && strings.Contains(string(out), "NotFound") {
		return // what is gone is brought back by the next command of the remedy
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
}

// foreignWebhook registers another program's webhook for the pods of a namespace.
func foreignWebhook(t *testing.T, name string, policy registrationv1.FailurePolicyType, namespace string) {
	t.Helper()
	w := measure.PodWebhook("foreign.example.com", registrationv1.WebhookClientConfig{URL: new("https://foreign.example.com/")}, namespace, registrationv1.NeverReinvocationPolicy)
	w.FailurePolicy = &policy
	registers(t, name, w)
}

// Each damage is found by its check, and the first command of the remedy mends it. What is done to the
// release itself, and by other programs, is told in remedies_test.go.
func TestCheckFindsWhatIsWrongAndItsRemedyMendsIt(t *testing.T) {
	soundly(t)
	own := func(annotations, labels map[string]string) func(t *testing.T) string {
		return func(t *testing.T) string { return newNamespace(t, annotations, labels).name }
	}
	// sameName applies a template that does what another injector does.
	sameName := func(t *testing.T, name string) {
		m := manifest{name: name, spec: sidecarSpec}
		m.apply(t)
		m.waitServed(t)
	}
	// Damages of one round are done together, and each is found by itself.
	for round, damages := range map[string][]struct {
		// do returns what the finding names.
		do            func(t *testing.T) string
		check, result string
		// remedy is what the command that is run begins with.
		remedy string
	}{
		"what teams do": {
			{own(asking("fluentbit"), nil), "template-names", "failed", "kubectl annotate namespace"},
			{own(asking("+fluent-bit"), nil), "template-names", "failed", "kubectl annotate namespace"},
			{own(asking("fluent-bit"), map[string]string{injectionLabel: "disabled"}), "labels-by-hand", "warning", "kubectl label namespace"},
			{own(nil, map[string]string{injectionLabel: "true"}), "labels-by-hand", "warning", "kubectl label namespace"},
			{func(t *testing.T) string {
				foreignWebhook(t, "istio-sidecar-injector", "Ignore", "nowhere")
				return newNamespace(t, asking("istio-proxy"), map[string]string{"istio-injection": "enabled"}).name
			}, "injectors", "failed", "kubectl label namespace"},
			{func(t *testing.T) string {
				foreignWebhook(t, "linkerd-proxy-injector", "Ignore", "nowhere")
				sameName(t, "linkerd-proxy")
				return newNamespace(t, map[string]string{injectAnnotation: "linkerd-proxy", "linkerd.io/inject": "enabled"}, nil).name
			}, "injectors", "failed", "kubectl annotate namespace"},
			{func(t *testing.T) string {
				foreignWebhook(t, "kuma-admission-mutating", "Ignore", "nowhere")
				sameName(t, "kuma-sidecar")
				return newNamespace(t, asking("kuma-sidecar"), map[string]string{"kuma.io/sidecar-injection": "enabled"}).name
			}, "injectors", "failed", "kubectl label namespace"},
			{func(t *testing.T) string {
				foreignWebhook(t, "opentelemetry-operator", "Ignore", "nowhere")
				return newNamespace(t, map[string]string{injectAnnotation: "opentelemetry-java", "instrumentation.opentelemetry.io/inject-java": "true"}, nil).name
			}, "injectors", "failed", "kubectl annotate namespace"},
			{func(t *testing.T) string {
				must(t, "", "kubectl", "annotate", "namespace", "kube-node-lease", injectAnnotation+"=fluent-bit")
				return "kube-node-lease"
			}, "labels", "warning", "kubectl annotate namespace"},
		},
		"the label alone": {
			{own(nil, map[string]string{injectionLabel: "enabled"}), "labels-by-hand", "warning", "kubectl annotate namespace"},
		},
		"a copy of a configuration": {
			{func(t *testing.T) string {
				all, ctx := client.AdmissionregistrationV1().MutatingWebhookConfigurations(), t.Context()
				c, err := all.Get(ctx, configuration, metav1.GetOptions{})
				expectNoError(t, err)
				copied := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: unique("copy")}, Webhooks: c.Webhooks}
				if _, err := all.Create(ctx, copied, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				return copied.Name + " is not part of the chart, and its entry"
			}, "entries", "failed", "kubectl delete mutatingwebhookconfiguration copy-"},
		},
	} {
		t.Run(round, func(t *testing.T) {
			about := make([]string, len(damages))
			for i, d := range damages {
				about[i] = d.do(t)
			}
			remedies := map[string]bool{}
			eventually(t, soon, func() error {
				clear(remedies)
				c := checking(t)
				for i, d := range damages {
					result, found := c.find(d.check, about[i])
					if severe := result == d.result || result == "failed"; !severe || len(found) != 1 || found[0].Result != d.result || len(found[0].Remedy) == 0 || c.Sound && d.result == "failed" {
						return fmt.Errorf("%s is %s, want %s about %s: %v; sound %v", d.check, result, d.result, about[i], found, c.Sound)
					}
					command := slices.IndexFunc(found[0].Remedy, func(command string) bool { return strings.HasPrefix(command, d.remedy) })
					if command < 0 {
						return fmt.Errorf("the remedy of %s is %q", d.check, found[0].Remedy)
					}
					remedies[found[0].Remedy[command]] = true
				}
				return nil
			})
			for command := range remedies {
				mends(t, []string{command}, "TEMPLATE", "fluent-bit")
			}
			soundly(t)
		})
	}
	soundly(t)
}

// A token is for the account with the UID of its time. Without the account, and with another one of
// its name, pods are injected and nothing is healed: check says so, and its remedy ends it. Not in
// parallel: the installation is everybody's.
func TestADeletedServiceAccountIsSaidAndItsRemedyMendsIt(t *testing.T) {
	soundly(t)
	n := newNamespace(t, asking("fluent-bit"), enforced())
	account := only[appsv1.Deployment](t, render(t), "Deployment").Spec.Template.Spec.ServiceAccountName
	must(t, "", "kubectl", "-n", ground.Namespace, "delete", "serviceaccount", account)
	said := func(says string, commands int) (remedy []string) {
		t.Helper()
		eventually(t, 2*soon, func() error {
			result, found := checking(t).find("account", says)
			if result != "failed" || len(found) != 1 || len(found[0].Remedy) != commands {
				return fmt.Errorf("account is %s: %v, want it failed, with %q", result, found, says)
			}
			remedy = found[0].Remedy
			return nil
		})
		return remedy
	}
	replica := shared.Replicas(ground.Namespace)[0]
	eventually(t, 2*soon, func() error { // an API server takes a token for good for ten seconds
		status, body, err := asked(replica, "/readyz")
		if err == nil && (status != http.StatusOK || !strings.Contains(body, "nothing is written: credentials: the API server does not accept Pillion's token")) {
			err = fmt.Errorf("/readyz: HTTP %d %s", status, body)
		}
		return err
	})
	must(t, "", "kubectl", "patch", "validatingwebhookconfiguration", configuration, "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	injects(t, n, "fluent-bit")
	remedy := said("is missing", 2)
	does(t, remedy[0])
	// The account is there, and the old token counts no more.
	remedy = said("not accepted", 2)
	if result, found := checking(t).find("ca-bundles", "has no certificate"); result != "failed" || len(found) != 1 {
		t.Errorf("ca-bundles is %s: %v, although nobody can write it", result, found)
	}
	injects(t, n, "fluent-bit")
	does(t, remedy[0])
	scale(t, 1) // there is no kubelet to follow the Deployment
	must(t, "", "kubectl", "-n", ground.Namespace, "get", "serviceaccount", account)
	soundly(t)
}

// A user without any right is told which to ask for, until nothing is left out: each with the
// commands that grant it.
func TestCheckNamesTheRightsThatItsUserLacks(t *testing.T) {
	n := newNamespace(t, nil, nil)
	kubeconfig := n.kubeconfig(t, "viewer")
	granted := map[string]bool{}
	t.Cleanup(func() {
		for command := range granted {
			words := strings.Fields(strings.Replace(command, " create ", " delete --ignore-not-found ", 1))
			words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") && w != "--ignore-not-found" })
			_ = exec.Command(shared.Tool("kubectl"), append([]string{"--kubeconfig", shared.Kubeconfig()}, words...)...).Run()
		}
	})
	last := checking(t, "--kubeconfig", kubeconfig)
	for round := 0; ; round++ {
		if last.Counts["failed"] > 0 || last.exit != 3 && round == 0 {
			t.Fatalf("exit code %d: %s", last.exit, last.notOK())
		}
		before := len(granted)
		for _, one := range last.Checks {
			for _, f := range one.Findings {
				for _, command := range f.Remedy {
					if one.Result == "skipped" && !granted[command] {
						granted[command] = true
						does(t, command)
					}
				}
			}
		}
		if len(granted) == before {
			break
		}
		if round == 0 && len(last.Checks) < 20 || round > 8 {
			t.Fatalf("round %d: %d checks; granted %v", round, len(last.Checks), granted)
		}
		eventually(t, soon, func() error { // rights count a moment later
			if last = checking(t, "--kubeconfig", kubeconfig); slices.ContainsFunc(slices.Collect(maps.Keys(granted)), func(command string) bool { return strings.Contains(fmt.Sprint(last.Checks), command) }) {
				return errors.New("a right that was granted is still missing")
			}
			return nil
		})
	}
	full := checking(t)
	if len(granted) < 20 || last.exit != 0 || last.Counts["ok"] != full.Counts["ok"] {
		t.Errorf("%d commands ran; exit code %d; %d checks are ok, an admin's %d\n%+v", len(granted), last.exit, last.Counts["ok"], full.Counts["ok"], last.Checks)
	}
}

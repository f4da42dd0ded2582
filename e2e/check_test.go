package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// checked is what `pillion check -o json` says.
type checked struct {
	Judged bool
	Sound  bool
	Counts map[string]int
	Checks []struct {
		Name, Description, Result string
		Findings                  []finding
	}
	exit int
}

type finding struct{ Result, Message, Remedy string }

// checking runs `pillion check`, and returns what it says. The replicas are asked directly: on
// a control plane there are no pods of Pillion to ask.
func checking(t *testing.T, args ...string) checked {
	t.Helper()
	args = append(append([]string{"check", "-o", "json"}, args...), ofReplicas()...)
	out, _, err := run(t, "", "pillion", args...)
	var c checked
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		c.exit = exit.ExitCode()
	}
	expectNoError(t, json.Unmarshal([]byte(out), &c))
	if (c.exit == 0) != c.Sound || c.exit > 1 || !c.Judged && c.Sound {
		t.Errorf("exit code %d, judged %v, sound %v", c.exit, c.Judged, c.Sound)
	}
	return c
}

// ofReplicas are the flags that name the replicas' admin ports.
func ofReplicas() (flags []string) {
	for _, r := range shared.Replicas(ground.Namespace) {
		flags = append(flags, "--replica", "http://"+r.Admin.String())
	}
	return flags
}

// find returns the result of a check, and its findings that name something.
func (c checked) find(name, says string) (result string, found []finding) {
	for _, one := range c.Checks {
		if one.Name != name {
			continue
		}
		result = one.Result
		for _, f := range one.Findings {
			if strings.Contains(f.Message, says) {
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

// What teams do to their namespaces is found, and the remedies mend it. Damages of the release are in remedies_test.go.
func TestCheckFindsWhatIsWrongAndItsRemedyMendsIt(t *testing.T) {
	soundly(t)
	must(t, "", "kubectl", "annotate", "namespace", "kube-node-lease", injectAnnotation+"=fluent-bit")
	damages := []struct {
		namespace             string
		check, result, remedy string // what the remedy begins with
	}{
		{newNamespace(t, asking("fluentbit"), nil).name, "template-names", "failed", "kubectl annotate namespace"},
		{newNamespace(t, asking("+fluent-bit"), nil).name, "template-names", "failed", "kubectl annotate namespace"},
		{newNamespace(t, asking("fluent-bit"), map[string]string{injectionLabel: "disabled"}).name, "labels", "warning", "kubectl label namespace"},
		{newNamespace(t, nil, map[string]string{injectionLabel: "true"}).name, "labels", "warning", "kubectl label namespace"},
		{newNamespace(t, nil, open()).name, "labels", "warning", "kubectl annotate namespace"},
		{"kube-node-lease", "labels", "warning", "kubectl annotate namespace"},
	}
	remedies := map[string]bool{}
	eventually(t, soon, func() error {
		clear(remedies)
		c := checking(t)
		for _, d := range damages {
			_, found := c.find(d.check, d.namespace)
			if len(found) != 1 || found[0].Result != d.result || !strings.HasPrefix(found[0].Remedy, d.remedy) || c.Sound {
				return fmt.Errorf("%s finds %v about %s, want it %s, with %s; sound %v", d.check, found, d.namespace, d.result, d.remedy, c.Sound)
			}
			remedies[found[0].Remedy] = true
		}
		return nil
	})
	for command := range remedies {
		mends(t, []string{command}, "TEMPLATE", "fluent-bit")
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
	var remedy string
	eventually(t, 2*soon, func() error {
		result, found := checking(t).find("account", "is missing")
		if result != "failed" || len(found) != 1 || !strings.HasPrefix(found[0].Remedy, "helm -n pillion-system rollback") {
			return fmt.Errorf("account is %s: %v, want it failed", result, found)
		}
		remedy = found[0].Remedy
		return nil
	})
	time.Sleep(15 * time.Second) // an API server takes a token for good for ten seconds
	must(t, "", "kubectl", "patch", "validatingwebhookconfiguration", configuration, "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	injects(t, n, "fluent-bit")
	does(t, remedy)
	// The account is there, and the old token counts no more. Here no pod tells how old its token is.
	if result, found := checking(t).find("certificates", "has no certificate"); result != "failed" || len(found) != 1 {
		t.Errorf("certificates is %s: %v, although nobody can write it", result, found)
	}
	injects(t, n, "fluent-bit")
	does(t, "kubectl -n pillion-system rollout restart deployment/pillion")
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
			for one := range strings.SplitSeq(command, " && ") {
				words := strings.Fields(strings.Replace(one, " create ", " delete --ignore-not-found ", 1))
				words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") && w != "--ignore-not-found" })
				_ = exec.Command(shared.Tool("kubectl"), append([]string{"--kubeconfig", shared.Kubeconfig()}, words...)...).Run()
			}
		}
	})
	last := checking(t, "--kubeconfig", kubeconfig)
	for round := 0; ; round++ {
		if last.Counts["failed"] > 0 || last.exit != 1 && round == 0 || round > 8 {
			t.Fatalf("round %d: exit code %d: %s", round, last.exit, last.notOK())
		}
		before := len(granted)
		for _, one := range last.Checks {
			for _, f := range one.Findings {
				if f.Result != "skipped" || f.Remedy == "" || granted[f.Remedy] {
					continue
				}
				granted[f.Remedy] = true
				does(t, f.Remedy)
			}
		}
		if len(granted) == before {
			break
		}
		eventually(t, soon, func() error { // rights count a moment later
			if last = checking(t, "--kubeconfig", kubeconfig); slices.ContainsFunc(slices.Collect(maps.Keys(granted)), func(command string) bool { return strings.Contains(fmt.Sprint(last.Checks), command) }) {
				return errors.New("a right that was granted is still missing")
			}
			return nil
		})
	}
	full := checking(t)
	if len(granted) < 12 || last.exit != 0 || last.Counts["ok"] != full.Counts["ok"] {
		t.Errorf("%d rights were granted; exit code %d; %d checks are ok, an admin's %d\n%+v", len(granted), last.exit, last.Counts["ok"], full.Counts["ok"], last.Checks)
	}
}

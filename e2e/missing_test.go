package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// askStatus runs pillion status about a template or namespace, with the replicas' own ports.
func askStatus(t *testing.T, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"status"}, args...)
	for _, r := range shared.Replicas(ground.Namespace) {
		args = append(args, "--replica", "http://"+r.Admin.String())
	}
	out, _, err := run(t, "", "pillion", args...)
	return out, err
}

// podCounts is what status -o json says about pods.
type podCounts struct {
	Pods struct {
		Namespaces []struct {
			Name, Injection                                   string
			Pods, Injected, Missing, Outdated, WouldBeRefused int
			RefusedLately                                     []struct{ Reason, About string }
		}
		Workloads []struct {
			Kind, Name, Namespace string
			Missing, Outdated     int
		}
	}
	Next []string
}

// counts waits until status says of a namespace what it should: pods, injected, missing,
// outdated.
func (n *namespace) counts(t *testing.T, of string, want [4]int) podCounts {
	t.Helper()
	var found podCounts
	eventually(t, soon, func() error {
		out, err := askStatus(t, of, "-o", "json")
		if err != nil {
			return err
		}
		found = podCounts{}
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			return fmt.Errorf("%w in %s", err, out)
		}
		for _, row := range found.Pods.Namespaces {
			if got := [4]int{row.Pods, row.Injected, row.Missing, row.Outdated}; row.Name == n.name && got != want {
				return fmt.Errorf("pods, injected, missing, outdated: %v, want %v in\n%s", got, want, out)
			} else if row.Name == n.name {
				return nil
			}
		}
		return fmt.Errorf("nothing about namespace %s in\n%s", n.name, out)
	})
	return found
}

func TestStatusSaysWhichPodsLackTheirSidecarAndWhichHaveAnOlderOne(t *testing.T) {
	t.Parallel()
	m := served(t, sidecarSpec)
	n := newNamespace(t, nil, nil)
	n.deploy(t, "web", 2, newPod("", nil).Spec)
	n.mustCreate(t, newPod("early", nil))
	n.mustCreate(t, newPod("quiet", map[string]string{injectAnnotation: "false"}))
	n.waitPods(t, 4, "")
	must(t, "", "kubectl", "annotate", "namespace", n.name, injectAnnotation+"="+m.name)
	injects(t, n, m.name)
	n.mustCreate(t, newPod("late", nil))

	found := n.counts(t, "ns/"+n.name, [4]int{5, 1, 3, 0})
	workloads := map[string]int{}
	for _, w := range found.Pods.Workloads {
		workloads[w.Kind+"/"+w.Name] = w.Missing
	}
	if workloads["Deployment/web"] != 2 || workloads["/"] != 1 || len(found.Next) != 1 || found.Next[0] != "pillion rollout ns/"+n.name+" --dry-run" {
		t.Errorf("the workloads that lack the sidecar are %v, and next comes %q", workloads, found.Next)
	}

	eventually(t, time.Minute, func() error {
		err := errors.New("there is no replica")
		for _, r := range shared.Replicas(ground.Namespace) {
			if err = metric(r, fmt.Sprintf("pillion_pods_missing_injection{pod_namespace=%q} 3\n", n.name)); err == nil {
				return metric(r, "pillion_coverage_last_success_timestamp_seconds ")
			}
		}
		return err
	})

	changed := manifest{name: m.name, spec: strings.Replace(m.spec, "NAME:1", "NAME:2", 1)}
	must(t, changed.yaml(), "kubectl", "apply", "-f", "-")
	n.counts(t, "sct/"+m.name, [4]int{4, 1, 3, 1})
	// A parameter of the namespace changes what its pods get, and the template does not.
	must(t, m.yaml(), "kubectl", "apply", "-f", "-")
	n.counts(t, "ns/"+n.name, [4]int{5, 1, 3, 0})
	must(t, "", "kubectl", "annotate", "namespace", n.name, m.name+".pillion.dev/log-level=debug")
	n.counts(t, "ns/"+n.name, [4]int{5, 1, 3, 1})
}

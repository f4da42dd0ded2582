package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// missing is what status -o json says of the pods of a namespace.
type missing struct {
	Pods struct {
		Namespaces []struct {
			Name                              string
			Pods, Injected, Missing, Outdated int
		}
		Workloads []struct {
			Kind, Name string
			Missing    int
		}
	}
	Next []string
}

func TestStatusAndTheMetricsSayWhichPodsLackTheirSidecar(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, nil, nil)
	n.deploy(t, "web", 2, newPod("", nil).Spec)
	n.mustCreate(t, newPod("early", nil))
	n.mustCreate(t, newPod("quiet", map[string]string{injectAnnotation: "false"}))
	n.waitPods(t, 4, "")
	must(t, "", "kubectl", "annotate", "namespace", n.name, injectAnnotation+"="+name)
	injects(t, n, name)
	n.mustCreate(t, newPod("late", nil))

	eventually(t, soon, func() error {
		out, _, err := run(t, "", "pillion", append([]string{"status", "ns/" + n.name, "-o", "json"}, ofReplicas()...)...)
		var found missing
		if err := errors.Join(err, json.Unmarshal([]byte(out), &found)); err != nil {
			return fmt.Errorf("%w in %s", err, out)
		}
		of := map[string]int{}
		for _, w := range found.Pods.Workloads {
			of[w.Kind+"/"+w.Name] = w.Missing
		}
		if said := fmt.Sprint(found.Pods.Namespaces, of, found.Next); said != fmt.Sprintf("[{%[1]s 5 1 3 0}] map[/:1 Deployment/web:2] [pillion rollout ns/%[1]s --dry-run]", n.name) {
			return fmt.Errorf("status says %s:\n%s", said, out)
		}
		return nil
	})

	eventually(t, time.Minute, func() error {
		err := errors.New("there is no replica")
		for _, r := range shared.Replicas(ground.Namespace) {
			if err = metric(r, fmt.Sprintf("pillion_pods_missing_injection{pod_namespace=%q} 3\n", n.name)); err == nil {
				return metric(r, "pillion_coverage_last_success_timestamp_seconds ")
			}
		}
		return err
	})
}

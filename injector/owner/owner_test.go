package owner

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

func TestTheTopmostOwnerIsTheSameForAllPodsOfAWorkload(t *testing.T) {
	for text, want := range map[string]Workload{
		`{"metadata": {"name": "web"}}`:                               {"Pod", "web"},
		`{"metadata": {"name": "web-x7k2p", "generateName": "web-"}}`: {"Pod", "web"},
		`{"metadata": {"generateName": "web-"}}`:                      {"Pod", "web"},
		`{"metadata": {"labels": {"pod-template-hash": "5d8f"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d8f", "controller": true}]}}`:                                       {"Deployment", "web"},
		`{"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d8f", "controller": true}]}}`:                                                                                {"ReplicaSet", "web-5d8f"},
		`{"metadata": {"ownerReferences": [{"kind": "Job", "name": "backup-29399999", "controller": true}]}}`:                                                                                {"CronJob", "backup"},
		`{"metadata": {"ownerReferences": [{"kind": "Job", "name": "backup-2939", "controller": true}]}}`:                                                                                    {"Job", "backup-2939"},
		`{"metadata": {"labels": {"rollouts-pod-template-hash": "5d8f"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d8f", "controller": true}]}}`:                              {"Rollout", "web"},
		`{"metadata": {"labels": {"rollouts-pod-template-hash": "5d8f", "pod-template-hash": "77aa"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web-77aa", "controller": true}]}}`: {"Deployment", "web"},
		`{"metadata": {"ownerReferences": [{"kind": "Job", "name": "backup-x7k2p", "controller": true}]}}`:                                                                                   {"Job", "backup"},
		`{"metadata": {"ownerReferences": [{"kind": "Job", "name": "backup-batch", "controller": true}]}}`:                                                                                   {"Job", "backup-batch"},
		`{"metadata": {"ownerReferences": [{"kind": "StatefulSet", "name": "web-x7k2p", "controller": true}]}}`:                                                                              {"StatefulSet", "web"},
		`{"metadata": {"ownerReferences": [{"kind": "Job", "name": "-29399999", "controller": true}]}}`:                                                                                      {"CronJob", ""},
		`{"metadata": {"name": "db-0", "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": true}]}}`:                                                                     {"StatefulSet", "db"},
		`{"metadata": []}`: {"Pod", ""},
	} {
		var pod map[string]any
		if err := json.Unmarshal([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		if got := Topmost(pod); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestADeploymentReplacesPodsOfAnotherPodTemplate(t *testing.T) {
	const deployment = `{"spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}`
	for replicaSet, want := range map[string]bool{
		deployment: false,
		`{"spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "5d8f"}, "annotations": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}`: false,
		`{"spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "5d8f"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}`:                            true,
		`{"spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}`:                              true,
		`{}`: true,
	} {
		var d, r map[string]any
		if err := errors.Join(json.Unmarshal([]byte(deployment), &d), json.Unmarshal([]byte(replicaSet), &r)); err != nil {
			t.Fatal(err)
		}
		if got := Superseded(d, r); got != want {
			t.Errorf("%s: %v, want %v", replicaSet, got, want)
		}
	}
}

func TestSharesAreUniform(t *testing.T) {
	const workloads = 10_000
	counts := make([]int, 100)
	for i := range workloads {
		counts[Share(fmt.Sprintf("team-%d", i%50), Workload{"Deployment", fmt.Sprintf("web-%d", i)})]++
	}
	below := 0
	for place, n := range counts {
		if n < 60 || n > 140 { // four standard deviations of 100
			t.Errorf("place %d has %d of %d workloads", place, n, workloads)
		}
		if below += n; below < (place+1)*100-200 || below > (place+1)*100+200 {
			t.Errorf("%d %% of %d workloads are %d", place+1, workloads, below)
		}
	}
	// What share a workload is in may not change from version to version.
	if got := Share("shop", Workload{"Deployment", "web"}); got != 96 {
		t.Errorf("deployment/web of shop has the place %d", got)
	}
}

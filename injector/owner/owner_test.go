package owner

import (
	"encoding/json"
	"testing"
)

func TestAPodBelongsToTheWorkloadThatAPersonRestarts(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "bare pods",
		`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]}}`:                                                                                "bare pods",
		`{"metadata": {"labels": {"pod-template-hash": "5d8f"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "controller": true}]}}`: "deployment/web",
		`{"metadata": {"labels": {"pod-template-hash": "aaaa"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "controller": true}]}}`: "replicaset/web-5d8f",
		`{"metadata": {"ownerReferences": [{"kind": "X"}, {"apiVersion": "batch/v1", "kind": "Job", "name": "once", "controller": true}]}}`:                                     "job/once",
		`{"metadata": {"ownerReferences": [1, {"controller": "yes", "kind": "Job"}]}}`:                                                                                          "bare pods",
	} {
		var pod map[string]any
		if err := json.Unmarshal([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		if got := WorkloadOf(pod).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

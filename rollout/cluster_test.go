package rollout_test

import (
	"testing"

	"github.com/pillion-dev/pillion/rollout"
)

func TestARollingUpdateIsAtItsEndWhenEveryPodIsNewAndAvailable(t *testing.T) {
	for _, test := range []struct {
		kind, object, want string
		stuck              bool
	}{
		{kind: "Deployment", object: `{"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": {"observedGeneration": 1}}`, want: "its controller has not seen the change yet"},
		{kind: "Deployment", object: `{"spec": {"replicas": 2}, "status": {"replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}}`, want: "1 old pods are still there"},
		{kind: "Deployment", object: `{"spec": {"replicas": 2}, "status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 2}}`, want: "1 of 2 pods are new"},
		{kind: "Deployment", object: `{"spec": {"replicas": 2}, "status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}}`, want: "1 of 2 pods are available"},
		{kind: "Deployment", object: `{"spec": {"replicas": 2}, "status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}}`},
		{kind: "Deployment", object: `{"spec": {"replicas": 2}, "status": {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet w has timed out"}]}}`,
			want: "it makes no progress: ReplicaSet w has timed out", stuck: true},
		{kind: "StatefulSet", object: `{"spec": {"replicas": 2}, "status": {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1, "readyReplicas": 2}}`, want: "1 of 2 pods are new"},
		{kind: "StatefulSet", object: `{"spec": {"replicas": 2}, "status": {"currentRevision": "b", "updateRevision": "b", "currentReplicas": 2, "readyReplicas": 2}}`},
		{kind: "DaemonSet", object: `{"status": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}}`, want: "1 of 2 pods are available"},
		{kind: "DaemonSet", object: `{"status": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}}`},
	} {
		if why, stuck := rollout.RolledOut(test.kind, decodePod(t, test.object)); why != test.want || stuck != test.stuck {
			t.Errorf("%s %s: %q, %v; want %q, %v", test.kind, test.object, why, stuck, test.want, test.stuck)
		}
	}
}

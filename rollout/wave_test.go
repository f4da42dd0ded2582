package rollout_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/rollout"
)

func drawnWorkloads(t *rapid.T) []rollout.Workload {
	all := make([]rollout.Workload, rapid.IntRange(0, 4).Draw(t, "workloads"))
	for i := range all {
		w := &all[i]
		w.Owner = rollout.Owner{Namespace: "shop", APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprint("w", i)}
		w.Desired, w.MaxUnavailable = rapid.IntRange(0, 6).Draw(t, "desired"), rapid.IntRange(1, 3).Draw(t, "max unavailable")
		w.Pods = make([]rollout.Pod, rapid.IntRange(0, 7).Draw(t, "pods"))
		for j := range w.Pods {
			w.Pods[j] = rollout.Pod{Namespace: "shop", Name: fmt.Sprint(w.Name, "-", j), UID: fmt.Sprint(i, j)}
			p := &w.Pods[j]
			p.Going = rapid.IntRange(0, 5).Draw(t, "going") == 0
			p.Ready = !p.Going && rapid.IntRange(0, 3).Draw(t, "ready") > 0
			if rapid.Bool().Draw(t, "behind") {
				p.Behind = "outdated"
				p.Free = rapid.IntRange(0, 4).Draw(t, "free") == 0
			}
		}
	}
	return all
}

// For any workloads: a wave has no more pods than it may, only pods that are behind and
// stay otherwise, each once; and no workload is left with fewer ready pods than it may do
// without, unless it had fewer before. A wave is empty only if every workload that has
// something to do lacks pods that are not its to replace.
func TestAWaveTakesNoMoreThanMayBeAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, size := drawnWorkloads(t), rapid.IntRange(1, 9).Draw(t, "size")
		wave := rollout.Next(all, size)
		if len(wave) > size {
			t.Fatalf("%d pods in a wave of %d", len(wave), size)
		}
		chosen := map[string]bool{}
		for _, p := range wave {
			if p.Behind == "" || p.Going || chosen[p.UID] {
				t.Fatalf("pod %+v is chosen", p)
			}
			chosen[p.UID] = true
		}
		for _, w := range all {
			before, after, costly, stuck, behind := 0, 0, 0, 0, 0
			for _, p := range w.Pods {
				if p.Ready {
					before++
				}
				if p.Ready && (!chosen[p.UID] || p.Free) {
					after++
				}
				if chosen[p.UID] && !p.Free {
					costly++
				}
				if p.Behind != "" && !p.Going {
					behind++
					if !p.Ready {
						stuck++
					}
				}
			}
			if after < before && after < w.Desired-w.MaxUnavailable {
				t.Fatalf("%s has %d of %d pods ready, %d after the wave, and %d may be away", w.Owner, before, w.Desired, after, w.MaxUnavailable)
			}
			if costly > w.MaxUnavailable {
				t.Fatalf("%d pods of %s in a wave, and %d may be away", costly, w.Owner, w.MaxUnavailable)
			}
			if len(wave) == 0 && behind > 0 && (stuck > 0 || w.Desired-before < w.MaxUnavailable) {
				t.Fatalf("nothing is chosen of %s: %d of %d ready, %d may be away", w.Owner, before, w.Desired, w.MaxUnavailable)
			}
		}
	})
}

func TestTheSizeOfAWave(t *testing.T) {
	for text, want := range map[string][2]int{"1": {1, 1}, "3": {3, 3}, "10%": {1, 5}, "100%": {3, 50}, "34%": {1, 17}} {
		w, err := rollout.ParseWave(text)
		if err != nil || w.Of(3) != want[0] || w.Of(50) != want[1] {
			t.Errorf("%s: %d of 3, %d of 50 (%v), want %v", text, w.Of(3), w.Of(50), err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "all", "1.5", "%"} {
		if _, err := rollout.ParseWave(text); err == nil || !strings.Contains(err.Error(), "allowed is") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAWorkloadSaysHowManyPodsItWantsAndCanDoWithout(t *testing.T) {
	for _, test := range []struct {
		kind, object string
		want         [2]int
	}{
		{"Deployment", `{"spec": {}}`, [2]int{1, 1}},
		{"Deployment", `{"spec": {"replicas": 10}}`, [2]int{10, 2}},
		{"Deployment", `{"spec": {"replicas": 10, "strategy": {"rollingUpdate": {"maxUnavailable": "50%"}}}}`, [2]int{10, 5}},
		{"Deployment", `{"spec": {"replicas": 10, "strategy": {"rollingUpdate": {"maxUnavailable": 0}}}}`, [2]int{10, 1}},
		{"Deployment", `{"spec": {"replicas": 10, "strategy": {"type": "Recreate"}}}`, [2]int{10, 1}},
		{"Deployment", `{"spec": {"replicas": 0}}`, [2]int{0, 1}},
		{"StatefulSet", `{"spec": {"replicas": 4}}`, [2]int{4, 1}},
		{"StatefulSet", `{"spec": {"replicas": 4, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}}`, [2]int{4, 2}},
		{"DaemonSet", `{"status": {"desiredNumberScheduled": 20}, "spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}}}`, [2]int{20, 2}},
		{"ReplicaSet", `{"spec": {"replicas": 8}}`, [2]int{8, 1}},
	} {
		desired, unavailable := rollout.Size(test.kind, object(t, test.object))
		if got := [2]int{desired, unavailable}; got != test.want {
			t.Errorf("%s %s: %v, want %v", test.kind, test.object, got, test.want)
		}
	}
}

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
		if why, stuck := rollout.RolledOut(test.kind, object(t, test.object)); why != test.want || stuck != test.stuck {
			t.Errorf("%s %s: %q, %v; want %q, %v", test.kind, test.object, why, stuck, test.want, test.stuck)
		}
	}
}

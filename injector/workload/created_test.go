package workload

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pillion-dev/pillion/injector/owner"
)

// createdOf returns the pod that is created of a workload, in the namespace shop.
func createdOf(t *testing.T, manifest string) (created map[string]any) {
	t.Helper()
	documents, err := Parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(documents[0].Object)
	if _, _, err := Change(documents[0].Object, func(p Pod) (map[string]any, error) {
		created = p.Created("shop")
		if !reflect.DeepEqual(created, p.Created("shop")) {
			t.Errorf("%s: two pods of one workload differ", p.Owner)
		}
		return p.Object, nil
	}); err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(documents[0].Object); string(after) != string(before) {
		t.Errorf("the workload was changed to %s", after)
	}
	return created
}

// Canaries choose by the workload of the pod, so the one of a file must be the cluster's.
func TestTheWorkloadOfACreatedPodIsThatOfThePodsToCome(t *testing.T) {
	const spec = `"spec":{"template":{"spec":{"containers":[]}}}`
	for in, want := range map[string]owner.Workload{
		`{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"name":"web"},` + spec + `}`:                  {Kind: "Rollout", Name: "web"},
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"backup-"},` + spec + `}`:                      {Kind: "Job", Name: "backup"},
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"backup-x7k2p"},` + spec + `}`:                         {Kind: "Job", Name: "backup"},
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generateName":"web-"},` + spec + `}`:                   {Kind: "Deployment", Name: "web"},
		`{"apiVersion":"example.com/v1","kind":"Unknown","metadata":{"name":"web"},` + spec + `}`:                        {Kind: "Pod"},
		`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"nightly"},"spec":{"jobTemplate":{` + spec + `}}}`: {Kind: "CronJob", Name: "nightly"},
	} {
		if got := owner.Topmost(createdOf(t, in)); got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}

package workload

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
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

// The end-to-end tests hold the same against the real controllers.
func TestAPodIsCreatedAsTheWorkloadsControllerDoes(t *testing.T) {
	const tolerations = `[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists"},{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists"},{"effect":"NoSchedule","key":"node.kubernetes.io/disk-pressure","operator":"Exists"},{"effect":"NoSchedule","key":"node.kubernetes.io/memory-pressure","operator":"Exists"},{"effect":"NoSchedule","key":"node.kubernetes.io/pid-pressure","operator":"Exists"},{"effect":"NoSchedule","key":"node.kubernetes.io/unschedulable","operator":"Exists"}]`
	for name, c := range map[string]struct{ in, metadata, spec string }{
		"pod": {`{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}`, `{"name":"a","namespace":"shop"}`, `{"containers":[]}`},
		"deployment": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","uid":"1"},"spec":{"template":{"metadata":{"name":"x","labels":{"app":"web"}},"spec":{"containers":[]}}}}`,
			`{"generateName":"web-HASH-","namespace":"shop","labels":{"app":"web","pod-template-hash":"HASH"},"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web-HASH","uid":"UID"}]}`, `{"containers":[]}`,
		},
		"rollout of Argo Rollouts": {
			`{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"name":"web","uid":"1"},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[]}}}}`,
			`{"generateName":"web-HASH-","namespace":"shop","labels":{"app":"web","rollouts-pod-template-hash":"HASH"},"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web-HASH","uid":"UID"}]}`, `{"containers":[]}`,
		},
		"stateful set": {
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"serviceName":"dbs","volumeClaimTemplates":[{"metadata":{"name":"data"}},{"metadata":{"name":"logs"}}],"template":{"spec":{"containers":[],"volumes":[{"name":"tmp","emptyDir":{}},{"name":"logs","emptyDir":{}}]}}}}`,
			`{"name":"db-0","generateName":"db-","namespace":"shop","labels":{"apps.kubernetes.io/pod-index":"0","controller-revision-hash":"db-HASH","statefulset.kubernetes.io/pod-name":"db-0"},"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"StatefulSet","name":"db","uid":"UID"}]}`,
			`{"containers":[],"hostname":"db-0","subdomain":"dbs","volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-db-0"}},{"name":"logs","persistentVolumeClaim":{"claimName":"logs-db-0"}},{"name":"tmp","emptyDir":{}}]}`,
		},
		"daemon set": {
			`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"agent"},"spec":{"template":{"metadata":{"annotations":{"a":"b"}},"spec":{"containers":[]}}}}`,
			`{"generateName":"agent-","namespace":"shop","annotations":{"a":"b"},"labels":{"controller-revision-hash":"HASH","pod-template-generation":"1"},"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"DaemonSet","name":"agent","uid":"UID"}]}`,
			`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["node"]}]}]}}},"containers":[],"tolerations":` + tolerations + `}`,
		},
		"job": {
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"work"},"spec":{"template":{"spec":{"containers":[]}}}}`,
			`{"generateName":"work-","namespace":"shop","finalizers":["batch.kubernetes.io/job-tracking"],"labels":{"batch.kubernetes.io/controller-uid":"UID","batch.kubernetes.io/job-name":"work","controller-uid":"UID","job-name":"work"},"ownerReferences":[{"apiVersion":"batch/v1","blockOwnerDeletion":true,"controller":true,"kind":"Job","name":"work","uid":"UID"}]}`, `{"containers":[]}`,
		},
		"indexed job": {
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"work"},"spec":{"completionMode":"Indexed","manualSelector":true,"template":{"spec":{"containers":[{"name":"a"}]}}}}`,
			`{"generateName":"work-0-","namespace":"shop","annotations":{"batch.kubernetes.io/job-completion-index":"0"},"finalizers":["batch.kubernetes.io/job-tracking"],"labels":{"batch.kubernetes.io/job-completion-index":"0"},"ownerReferences":[{"apiVersion":"batch/v1","blockOwnerDeletion":true,"controller":true,"kind":"Job","name":"work","uid":"UID"}]}`,
			`{"containers":[{"name":"a","env":[{"name":"JOB_COMPLETION_INDEX","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]}],"hostname":"work-0"}`,
		},
		"cron job": {
			`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"nightly"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[]}}}}}}`,
			`{"generateName":"nightly-29000000-","namespace":"shop","finalizers":["batch.kubernetes.io/job-tracking"],"labels":{"batch.kubernetes.io/controller-uid":"UID","batch.kubernetes.io/job-name":"nightly-29000000","controller-uid":"UID","job-name":"nightly-29000000"},"ownerReferences":[{"apiVersion":"batch/v1","blockOwnerDeletion":true,"controller":true,"kind":"Job","name":"nightly-29000000","uid":"UID"}]}`, `{"containers":[]}`,
		},
		"of another group": {
			`{"apiVersion":"example.com/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"metadata":{"name":"x"},"spec":{"containers":[]}}}}`, `{"name":"x","namespace":"shop"}`, `{"containers":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			created := createdOf(t, c.in)
			want, err := Parse([]byte(`{"metadata":` + c.metadata + `,"spec":` + c.spec + `}`))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(map[string]any{"metadata": created["metadata"], "spec": created["spec"]})
			labels := field(created, "metadata", "labels")
			hash, _ := cmp.Or(labels["pod-template-hash"], labels["rollouts-pod-template-hash"]).(string)
			if revision, ok := labels["controller-revision-hash"].(string); ok {
				hash = revision[strings.LastIndexByte(revision, '-')+1:]
			}
			text := strings.ReplaceAll(string(got), AssumedUID, "UID")
			if hash != "" {
				text = strings.ReplaceAll(text, hash, "HASH")
			}
			wanted, _ := json.Marshal(want[0].Object)
			if text != string(wanted) {
				t.Errorf("got\n%s\nwant\n%s", text, wanted)
			}
		})
	}
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

package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/rollout"
)

// served is a cluster whose API server is a function.
func served(t *testing.T, answer func(r *http.Request, body string) (int, any)) rollout.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		code, object := answer(r, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(server.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return rollout.Connect(client)
}

func TestPodsAreReadPageByPageWithTheirNumbersExact(t *testing.T) {
	c := served(t, func(r *http.Request, _ string) (int, any) {
		if r.URL.Path != "/api/v1/namespaces/shop/pods" || r.URL.Query().Get("limit") == "" {
			t.Errorf("asked %s", r.URL)
		}
		name, next := "a", "more"
		if r.URL.Query().Get("continue") == "more" {
			name, next = "b", ""
		}
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": map[string]any{"priority": json.Number("9007199254740993")}}
		return 200, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"continue": next}, "items": []any{pod}}
	})
	var names []string
	err := c.Pods(t.Context(), "shop", func(pod map[string]any) error {
		names = append(names, fmt.Sprint(pod["metadata"].(map[string]any)["name"], pod["spec"].(map[string]any)["priority"]))
		return nil
	})
	if got := strings.Join(names, " "); err != nil || got != "a9007199254740993 b9007199254740993" {
		t.Errorf("%s (%v)", got, err)
	}
}

// The API server forbids what a right is missing for, and what a webhook or policy refuses.
// Only of the first is it said that a right is missing.
func TestAMissingRightIsToldFromARefusal(t *testing.T) {
	for _, missing := range []bool{true, false} {
		c := served(t, func(r *http.Request, _ string) (int, any) {
			says := "it is forbidden"
			if missing {
				verb := map[string]string{"POST": "create", "PATCH": "patch", "GET": "get"}[r.Method]
				says += `: User "jane" cannot ` + verb + ` resource "anything" in API group "" in the namespace "shop"`
			}
			return 403, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Message: says, Code: 403}
		})
		pod, owner := rollout.Pod{Namespace: "shop", Name: "web"}, rollout.Owner{Namespace: "shop", Kind: "Deployment", Name: "web"}
		_, podErr := c.Pod(t.Context(), "shop", "web")
		_, objectErr := c.Object(t.Context(), owner)
		_, nsErr := c.Namespace(t.Context(), "shop")
		for doing, err := range map[string]error{
			"changing pod web in namespace shop":          c.Patch(t.Context(), pod, []byte("[]"), true),
			"restarting deployment/web in namespace shop": c.Restart(t.Context(), owner, time.Now(), true),
			"listing pods":                             c.Pods(t.Context(), "", func(map[string]any) error { return nil }),
			"reading pod web in namespace shop":        podErr,
			"reading deployment/web in namespace shop": objectErr,
			"reading namespace shop":                   nsErr,
		} {
			var named *rights.MissingError
			if err == nil || missing == strings.HasPrefix(err.Error(), doing+": ") || !strings.Contains(err.Error(), doing+": ") || !strings.Contains(err.Error(), "it is forbidden") || errors.As(err, &named) != missing {
				t.Errorf("%s, for which a right is missing (%v): %v", doing, missing, err)
			}
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
		if why, stuck := rollout.RolledOut(test.kind, decodePod(t, test.object)); why != test.want || stuck != test.stuck {
			t.Errorf("%s %s: %q, %v; want %q, %v", test.kind, test.object, why, stuck, test.want, test.stuck)
		}
	}
}

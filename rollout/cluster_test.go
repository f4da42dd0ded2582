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
	for _, may := range []bool{true, false} {
		c := served(t, func(r *http.Request, body string) (int, any) {
			if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
				return 201, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": map[string]any{"allowed": may}}
			}
			return 403, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Message: "it is forbidden", Code: 403}
		})
		pod, owner := rollout.Pod{Namespace: "shop", Name: "web"}, rollout.Owner{Namespace: "shop", APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		_, podErr := c.Pod(t.Context(), "shop", "web")
		_, objectErr := c.Object(t.Context(), owner)
		_, nsErr := c.Namespace(t.Context(), "shop")
		for right, err := range map[string]error{
			"create pods/eviction in namespace shop":   c.Evict(t.Context(), pod, true),
			"patch pods in namespace shop":             c.Patch(t.Context(), pod, []byte("[]"), true),
			"patch deployments.apps in namespace shop": c.Restart(t.Context(), owner, time.Now(), true),
			"list pods in all namespaces":              c.Pods(t.Context(), "", func(map[string]any) error { return nil }),
			"get pods in namespace shop":               podErr,
			"get deployments.apps in namespace shop":   objectErr,
			"get namespaces in all namespaces":         nsErr,
		} {
			var missing *rollout.MissingRightError
			if err == nil || !strings.Contains(err.Error(), "it is forbidden") || errors.As(err, &missing) == may || !may && !strings.Contains(err.Error(), "you lack the right to "+right) {
				t.Errorf("%s, which the user has (%v): %v", right, may, err)
			}
		}
	}
}

func TestAnEvictionIsOfOnePodOnly(t *testing.T) {
	c := served(t, func(r *http.Request, body string) (int, any) {
		if r.URL.Path != "/api/v1/namespaces/shop/pods/web/eviction" || r.URL.Query().Get("dryRun") != "" || !strings.Contains(body, `"preconditions":{"uid":"17"}`) {
			t.Errorf("asked %s, %s", r.URL, body)
		}
		return 201, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"}
	})
	if err := c.Evict(t.Context(), rollout.Pod{Namespace: "shop", Name: "web", UID: "17"}, false); err != nil {
		t.Error(err)
	}
}

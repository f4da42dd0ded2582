package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/templates"
)

// apiServer answers lists from objects, JSON by kind, in pages of two.
type apiServer struct {
	objects map[string][]string
	// fail answers instead of a list, if it returns true.
	fail  func(w http.ResponseWriter, r *http.Request) bool
	mu    sync.Mutex
	asked []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.String()+" "+r.Header.Get("Accept"))
	s.mu.Unlock()
	if s.fail != nil && s.fail(w, r) {
		return
	}
	all := s.objects[strings.TrimSuffix(path.Base(r.URL.Path), "s")]
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to, next := min(from+2, len(all)), ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	fmt.Fprintf(w, `{"kind":"List","metadata":{"continue":%q,"remainingItemCount":1},"items":[%s]}`, next, strings.Join(all[from:to], ","))
}

func forbid(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
}

func (s *apiServer) workloads(t *testing.T, rules Rules) *Workloads {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := clientset.New(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return NewWorkloads(client.CoreV1().RESTClient(), rules, func(name string) (templates.Namespace, bool) {
		if name == "off" {
			return templates.Namespace{Name: name, Labels: map[string]string{"pillion.dev/injection": "disabled"}}, true
		}
		return templates.Namespace{Name: name}, name == "shop"
	})
}

// ownedBy is an object's controller, for workload.
func ownedBy(kind, name string) string {
	return fmt.Sprintf(`metadata.ownerReferences=[{"kind":%q,"name":%q,"controller":true}]`, kind, name)
}

// workload is the JSON of one whose pods have an annotation.
func workload(t *testing.T, kind, namespace, name, value string, more ...string) string {
	t.Helper()
	pod := map[string]any{"metadata": map[string]any{"annotations": map[string]string{"pillion.dev/inject": value}}}
	metadata := map[string]any{"name": name, "namespace": namespace}
	o := map[string]any{"metadata": metadata, "spec": map[string]any{"template": pod}}
	switch kind {
	case "cronjob":
		o["spec"] = map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": pod}}}
	case "pod":
		metadata["annotations"] = pod["metadata"].(map[string]any)["annotations"]
		delete(o, "spec")
	}
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		var parsed any
		if err := json.Unmarshal([]byte(value), &parsed); err != nil {
			t.Fatal(err)
		}
		if at, ok := strings.CutPrefix(key, "metadata."); ok {
			metadata[at] = parsed
		} else {
			o[key] = parsed
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWorkloadsAndPodsThatNameATemplateAreFound(t *testing.T) {
	s := &apiServer{objects: map[string][]string{
		"deployment": {
			workload(t, "deployment", "shop", "web", "vault"), workload(t, "deployment", "shop", "other", "fluent-bit"),
			workload(t, "deployment", "cart", "api", "+vault,-fluent-bit"), workload(t, "deployment", "cart", "without", "-vault"),
			workload(t, "deployment", "kube-system", "dns", "vault"), workload(t, "deployment", "off", "web", "vault"), workload(t, "deployment", "cart", "bad", "vault,"),
		},
		"statefulset": {workload(t, "statefulset", "shop", "db", "vault")},
		"daemonset":   {workload(t, "daemonset", "shop", "agent", "true")},
		"cronjob":     {workload(t, "cronjob", "shop", "nightly", "vault,fluent-bit")},
		"job": {
			workload(t, "job", "shop", "nightly-1", "vault", ownedBy("CronJob", "nightly")),
			workload(t, "job", "shop", "done", "vault", `status={"conditions":[{"type":"Complete","status":"True"}]}`),
			workload(t, "job", "shop", "import", "vault", `status={"conditions":[{"type":"Complete","status":"False"}]}`),
		},
		"pod": {
			workload(t, "pod", "shop", "web-7f-x", "vault", ownedBy("ReplicaSet", "web-7f"), `metadata.labels={"pod-template-hash":"7f"}`),
			workload(t, "pod", "shop", "db-0", "vault", ownedBy("StatefulSet", "db")),
			workload(t, "pod", "shop", "rollout-1-x", "vault", ownedBy("ReplicaSet", "rollout-1"), `metadata.labels={"pod-template-hash":"1"}`),
			workload(t, "pod", "shop", "bare", "vault"), workload(t, "pod", "shop", "other", "fluent-bit"),
		},
	}}
	w := s.workloads(t, Rules{Excluded: []string{"kube-system"}})
	got := w.Naming(t.Context(), "vault", false)
	want := []string{"deployment shop/web", "deployment cart/api", "statefulset shop/db", "cronjob shop/nightly", "job shop/import", "pod shop/rollout-1-x", "pod shop/bare"}
	if !slices.Equal(got.Names, want) || got.Total != len(want) || got.Unread != nil {
		t.Errorf("found %+v, want %v", got, want)
	}
	if got := w.Naming(t.Context(), "vault", true); got.Total != len(want)+1 || !slices.Contains(got.Names, "daemonset shop/agent") {
		t.Errorf("of a template that is injected by default: %+v", got)
	}
	last := s.asked[len(s.asked)-1]
	if !strings.Contains(last, "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed") || !strings.Contains(last, "as=PartialObjectMetadataList") || !strings.Contains(last, "limit=500") {
		t.Errorf("pods are read by %s", last)
	}
}

func TestOnlyTheFirstTenAreNamed(t *testing.T) {
	var all []string
	for i := range 25 {
		all = append(all, workload(t, "deployment", "shop", fmt.Sprint("web-", i), "vault"))
	}
	got := (&apiServer{objects: map[string][]string{"deployment": all}}).workloads(t, Rules{}).Naming(t.Context(), "vault", false)
	if len(got.Names) != 10 || got.Total != 25 {
		t.Errorf("%+v", got)
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	found := []string{workload(t, "deployment", "shop", "web", "vault")}
	ctx, cancel := context.WithCancel(t.Context())
	s := &apiServer{objects: map[string][]string{"deployment": found}, fail: func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/apis/apps/v1/statefulsets":
			forbid(w)
		case "/apis/batch/v1/cronjobs":
			fmt.Fprint(w, `{"items":[{"metadata":`)
		case "/apis/batch/v1/jobs":
			fmt.Fprint(w, `[]`)
		case "/api/v1/pods":
			cancel()
			<-r.Context().Done()
		default:
			return false
		}
		return true
	}}
	got := s.workloads(t, Rules{}).Naming(ctx, "vault", false)
	if !slices.Equal(got.Names, []string{"deployment shop/web"}) || len(got.Unread) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{"statefulsets (missing permission: the verb list)", "cronjobs (", "jobs (", "pods (there was no time left)"} {
		if !strings.HasPrefix(got.Unread[i], want) {
			t.Errorf("unread %q, want %q", got.Unread[i], want)
		}
	}
}

// Of a namespace each workload comes once: not the Job of a CronJob, nor one that has ended, nor a
// pod, which nobody makes again.
func TestTheWorkloadsOfANamespaceAreThoseThatMakePods(t *testing.T) {
	s := &apiServer{objects: map[string][]string{
		"deployment":  {workload(t, "deployment", "shop", "web", "vault"), workload(t, "deployment", "shop", "api", ""), workload(t, "deployment", "shop", "owned", "", ownedBy("Site", "shop"))},
		"statefulset": {workload(t, "statefulset", "shop", "db", "")},
		"cronjob":     {workload(t, "cronjob", "shop", "nightly", "")},
		"job":         {workload(t, "job", "shop", "nightly-1", "", ownedBy("CronJob", "nightly")), workload(t, "job", "shop", "done", "", `status={"conditions":[{"type":"Complete","status":"True"}]}`), workload(t, "job", "shop", "import", "")},
		"pod":         {workload(t, "pod", "shop", "bare", "")},
	}, fail: func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/daemonsets") {
			return false
		}
		forbid(w)
		return true
	}}
	var got []string
	unlooked := s.workloads(t, Rules{}).In(t.Context(), "shop", func(apiVersion, kind string, raw json.RawMessage) {
		var o struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Error(err)
		}
		got = append(got, apiVersion+" "+kind+" "+o.Metadata.Name)
	})
	slices.Sort(got)
	want := []string{"apps/v1 Deployment api", "apps/v1 Deployment web", "apps/v1 StatefulSet db", "batch/v1 CronJob nightly", "batch/v1 Job import"}
	if !slices.Equal(got, want) || !slices.Equal(unlooked, []string{"daemonsets (missing permission: the verb list)"}) {
		t.Errorf("%q, not looked at %q; want %q", got, unlooked, want)
	}
	if slices.ContainsFunc(s.asked, func(url string) bool { return !strings.Contains(url, "/namespaces/shop/") }) {
		t.Errorf("asked %q", s.asked)
	}
}

func TestOneReadingRunsAtATime(t *testing.T) {
	w := (&apiServer{}).workloads(t, Rules{})
	w.slot <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got := w.Naming(ctx, "vault", false); len(got.Unread) != 1 {
		t.Errorf("%+v", got)
	}
	<-w.slot
	if got := w.Naming(t.Context(), "vault", false); got.Unread != nil || got.Total != 0 {
		t.Errorf("%+v", got)
	}
}

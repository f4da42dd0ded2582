package workloads

import (
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

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
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

func (s *apiServer) list(t *testing.T) List {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := clientset.New(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return NewList(client.CoreV1().RESTClient())
}

// named returns the JSON of an object, with more fields of its metadata and behind these.
func named(name, metadata, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop"%s}%s}`, name, metadata, more)
}

func ownedBy(kind, name string) string {
	return fmt.Sprintf(`,"ownerReferences":[{"kind":%q,"name":%q,"controller":true}]`, kind, name)
}

// Of a namespace each workload comes once: not the Job of a CronJob, nor one that has ended, nor a
// pod, which nobody makes again.
func TestTheWorkloadsOfANamespaceAreThoseThatMakePods(t *testing.T) {
	s := &apiServer{objects: map[string][]string{
		"deployment":  {named("web", "", ""), named("api", "", ""), named("owned", ownedBy("Site", "shop"), "")},
		"statefulset": {named("db", "", "")},
		"cronjob":     {named("nightly", "", "")},
		"job":         {named("nightly-1", ownedBy("CronJob", "nightly"), ""), named("done", "", `,"status":{"conditions":[{"type":"Complete","status":"True"}]}`), named("import", "", "")},
		"pod":         {named("bare", "", "")},
	}, fail: func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/daemonsets") {
			return false
		}
		forbid(w)
		return true
	}}
	var got []string
	unchecked := s.list(t)(t.Context(), "shop", func(apiVersion, kind string, raw json.RawMessage) {
		var o struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Error(err)
		}
		got = append(got, apiVersion+" "+kind+" "+o.Metadata.Name)
	})
	slices.Sort(got)
	want := []string{"apps/v1 Deployment api", "apps/v1 Deployment web", "apps/v1 StatefulSet db", "batch/v1 CronJob nightly", "batch/v1 Job import"}
	if !slices.Equal(got, want) || !slices.Equal(unchecked, []string{"daemonsets (missing permission: the verb list)"}) {
		t.Errorf("%q, not looked at %q; want %q", got, unchecked, want)
	}
	if slices.ContainsFunc(s.asked, func(url string) bool { return !strings.Contains(url, "/namespaces/shop/") }) {
		t.Errorf("asked %q", s.asked)
	}
}

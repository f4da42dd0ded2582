package injector

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/pillion-dev/pillion/injector/effects"
	"github.com/pillion-dev/pillion/templates"
)

const logShipper = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: shipper}
spec:
  parameters:
  - {name: logLevel, type: string, enum: [info, debug], default: info}
  inject:
    spec:
      containers:
      - name: shipper
        image: example.com/shipper:1
        env: [{name: LOG_LEVEL, value: "${params.logLevel}"}]
`

type oneNamespace struct {
	namespace templates.Namespace
	err       error
}

func (o oneNamespace) Get(context.Context, string) (templates.Namespace, error) {
	return o.namespace, o.err
}

type recorded struct {
	mu       sync.Mutex
	outcomes []effects.Outcome
}

func (r *recorded) Record(o effects.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

type fixture struct {
	*Handler
	effects  *recorded
	registry *prometheus.Registry
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	template, _, err := templates.Compile([]byte(logShipper), templates.Options{Source: "shipper.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	set := templates.NewSet([]templates.Entry{{Name: "shipper", Template: template}})
	f := &fixture{effects: &recorded{}, registry: prometheus.NewRegistry()}
	o := Options{
		Pipeline:   NewPipeline(Config{ExcludedNamespaces: []string{"kube-system"}}),
		Namespaces: oneNamespace{namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}},
		Templates:  func() *templates.Set { return set },
		Effects:    f.effects, Metrics: NewMetrics(f.registry), Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	f.Handler = NewHandler(o)
	return f
}

func (f *fixture) post(t *testing.T, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mutate?timeout=2s", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

const podWithToken = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"1","controller":true}]%s},"spec":{"containers":[{"name":"web","image":"nginx"}],"future":12345678901234567890}}`

func reviewOf(version, annotations string, dryRun bool) string {
	pod := fmt.Sprintf(podWithToken, annotations)
	return fmt.Sprintf(`{"apiVersion":%q,"kind":"AdmissionReview","request":{"uid":"42","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"shop","operation":"CREATE","dryRun":%v,"object":%s}}`, version, dryRun, pod)
}

func decodeAnswer(t *testing.T, w *httptest.ResponseRecorder) admissionv1.AdmissionReview {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return review
}

func TestAReviewIsAnsweredInItsOwnVersionWithItsUID(t *testing.T) {
	f := newFixture(t, nil)
	for _, version := range []string{v1Version, v1beta1Version} {
		review := decodeAnswer(t, f.post(t, reviewOf(version, "", false)))
		r := review.Response
		if review.APIVersion != version || r.UID != "42" || !r.Allowed || r.PatchType == nil || *r.PatchType != admissionv1.PatchTypeJSONPatch {
			t.Errorf("%s: %+v", version, review)
		}
		if !bytes.Contains(r.Patch, []byte("shipper")) || !strings.HasPrefix(r.AuditAnnotations["templates"], "shipper=") {
			t.Errorf("patch %s, audit %v", r.Patch, r.AuditAnnotations)
		}
	}
}

func TestNoChangeHasNeitherPatchNorPatchType(t *testing.T) {
	f := newFixture(t, nil)
	w := f.post(t, reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"false"}`, false))
	r := decodeAnswer(t, w).Response
	if !r.Allowed || r.Patch != nil || r.PatchType != nil || strings.Contains(w.Body.String(), "patch") {
		t.Errorf("%s", w.Body)
	}
}

func TestARefusalSaysWhatToDoAndEndsInItsReason(t *testing.T) {
	f := newFixture(t, nil)
	r := decodeAnswer(t, f.post(t, reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud"}`, false))).Response
	if r.Allowed || r.Result == nil || r.Result.Code != http.StatusForbidden {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{"shipper.pillion.dev/log-level", "loud", "info, debug", "BadParameter", "pillion explain"} {
		if !strings.Contains(r.Result.Message, want) {
			t.Errorf("%q lacks %q", r.Result.Message, want)
		}
	}
	if len(f.effects.outcomes) != 1 || f.effects.outcomes[0].DryRun {
		t.Errorf("effects %+v", f.effects.outcomes)
	}
}

func TestHostileAnnotationValuesGetAPrintableAnswer(t *testing.T) {
	f := newFixture(t, nil)
	for _, value := range []string{"\x00\x1b[31m", strings.Repeat("x", 200000), "\u2028\"'${params}`$(id)", "a\r\nX-Header: 1", ",,,,", "💥"} {
		encoded, _ := json.Marshal(value)
		for _, key := range []string{"pillion.dev/inject", "shipper.pillion.dev/log-level", "shipper.pillion.dev/nope", "pillion.dev/status"} {
			w := f.post(t, reviewOf(v1Version, fmt.Sprintf(`,"annotations":{%q:%s}`, key, encoded), false))
			r := decodeAnswer(t, w).Response
			texts := r.Warnings
			if r.Result != nil {
				texts = append(texts, r.Result.Message)
			}
			for _, text := range texts {
				if text != printable(text) || len(text) > 4096 {
					t.Errorf("%s: %q is not fit to print", key, text)
				}
			}
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestWhatIsNoReviewIsRefusedWithAReason(t *testing.T) {
	f := newFixture(t, nil)
	good := reviewOf(v1Version, "", false)
	for name, c := range map[string]struct {
		method, contentType, query string
		body                       io.Reader
		status                     int
		want                       string
	}{
		"a GET":                 {http.MethodGet, "application/json", "", nil, 405, "POST"},
		"text":                  {"", "text/plain", "", strings.NewReader(good), 415, "application/json"},
		"no content type":       {"", "", "", strings.NewReader(good), 415, "application/json"},
		"nothing":               {"", "application/json", "", strings.NewReader(" \n"), 400, "empty"},
		"an endless body":       {"", "application/json", "", endless{}, 413, "larger than"},
		"a broken connection":   {"", "application/json", "", broken{}, 400, "connection reset"},
		"garbage":               {"", "application/json", "", strings.NewReader("{{{"), 400, "not an AdmissionReview"},
		"a list":                {"", "application/json", "", strings.NewReader("[]"), 400, "not an AdmissionReview"},
		"another kind":          {"", "application/json", "", strings.NewReader(`{"kind":"Pod","apiVersion":"v1"}`), 400, `"Pod"`},
		"another version":       {"", "application/json", "", strings.NewReader(strings.Replace(good, "/v1\"", "/v2\"", 1)), 400, "v1beta1"},
		"no request":            {"", "application/json", "", strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`), 400, "no request"},
		"no uid":                {"", "application/json", "", strings.NewReader(strings.Replace(good, `"uid":"42"`, `"uid":""`, 1)), 400, "uid"},
		"a review of a Service": {"", "application/json", "", strings.NewReader(strings.Replace(good, `"kind":"Pod"},"resource"`, `"kind":"Service"},"resource"`, 1)), 400, "Service"},
		"another resource":      {"", "application/json", "", strings.NewReader(strings.Replace(good, `"resource":"pods"`, `"resource":"services"`, 1)), 400, "services"},
		"an object of a kind":   {"", "application/json", "", strings.NewReader(strings.Replace(good, `"object":{"apiVersion":"v1","kind":"Pod"`, `"object":{"apiVersion":"v1","kind":"Service"`, 1)), 400, "Service"},
		"no object":             {"", "application/json", "", strings.NewReader(good[:strings.Index(good, `,"object"`)] + "}}"), 400, "no object"},
		"an object of a string": {"", "application/json", "", strings.NewReader(good[:strings.Index(good, `,"object"`)] + `,"object":"x"}}`), 400, "not a pod"},
		"a bad timeout":         {"", "application/json", "?timeout=never", strings.NewReader(good), 400, "never"},
		"a negative timeout":    {"", "application/json", "?timeout=-1s", strings.NewReader(good), 400, "-1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			r := httptest.NewRequest(c.method, "/mutate"+c.query, c.body)
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("status %d: %s; want %d and %q", w.Code, w.Body, c.status, c.want)
			}
		})
	}
	if !decodeAnswer(t, f.post(t, good)).Response.Allowed {
		t.Error("the handler does not go on")
	}
}

func TestPillionsOwnFailureIsA500WithoutRetryAfter(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"the namespace cannot be read": func(o *Options) { o.Namespaces = oneNamespace{err: errors.New("no route to host")} },
		"a panic":                      func(o *Options) { o.Templates = func() *templates.Set { panic("a bug") } },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, change)
			w := f.post(t, reviewOf(v1Version, "", false))
			if w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") != "" {
				t.Errorf("status %d, header %v: %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

func TestNotReadyAndOverloadedAskTheAPIServerToTryAgain(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Ready = func() error { return errors.New("templates are not loaded") } })
	w := f.post(t, reviewOf(v1Version, "", false))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" || !strings.Contains(w.Body.String(), "not loaded") {
		t.Errorf("not ready: %d %v %s", w.Code, w.Header(), w.Body)
	}

	f = newFixture(t, func(o *Options) { o.MaxInFlight = 1 })
	f.slots <- struct{}{}
	if w := f.post(t, reviewOf(v1Version, "", false)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("overloaded: %d %v", w.Code, w.Header())
	}
	<-f.slots
	if w := f.post(t, reviewOf(v1Version, "", false)); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d", w.Code)
	}
}

func TestADryRunIsMarkedForTheEffectsAndNotCountedAsAnInjection(t *testing.T) {
	f := newFixture(t, nil)
	f.post(t, reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud"}`, true))
	if len(f.effects.outcomes) != 1 || !f.effects.outcomes[0].DryRun {
		t.Errorf("effects %+v", f.effects.outcomes)
	}
	f.post(t, reviewOf(v1Version, "", true))
	if n := testutil.CollectAndCount(f.registry, "pillion_injections_total"); n != 0 {
		t.Errorf("%d injections counted on dry runs", n)
	}
	f.post(t, reviewOf(v1Version, "", false))
	if n := testutil.CollectAndCount(f.registry, "pillion_injections_total"); n != 1 {
		t.Errorf("%d injections counted", n)
	}
}

func TestASecondCallThatChangesNothingSaysNothing(t *testing.T) {
	f := newFixture(t, nil)
	first := decodeAnswer(t, f.post(t, reviewOf(v1Version, "", false)))
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(first.Response.Patch, &operations); err != nil {
		t.Fatal(err)
	}
	out, err := f.Pipeline.Inject(Request{Operation: "CREATE", Pod: mustPod(t, fmt.Sprintf(podWithToken, "")), Namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}, Templates: f.Templates()})
	if err != nil {
		t.Fatal(err)
	}
	injected, _ := json.Marshal(out.Pod)
	second := strings.Replace(reviewOf(v1Version, "", false), fmt.Sprintf(podWithToken, ""), string(injected), 1)
	r := decodeAnswer(t, f.post(t, second)).Response
	if r.Patch != nil || len(r.AuditAnnotations) > 0 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
}

func mustPod(t *testing.T, text string) map[string]any {
	t.Helper()
	pod, err := DecodePod([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestWarningsFitWhatTheAPIServerPassesOn(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("%d\n%s", i, strings.Repeat("ü", 400)))
	}
	total := 0
	for _, w := range boundWarnings(append(many, "", "0")) {
		if n := len([]rune(w)); n >= 256 || w != printable(w) {
			t.Errorf("%d characters: %q", n, w)
		}
		total += len([]rune(w))
	}
	if total >= 4096 || total < 2000 {
		t.Errorf("%d characters in all", total)
	}
}

func FuzzHandlerAnswersAnything(f *testing.F) {
	f.Add([]byte(reviewOf(v1Version, "", false)))
	f.Add([]byte(reviewOf(v1beta1Version, `,"annotations":{"pillion.dev/status":"{\"templates\":[]}"}`, true)))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"operation":"CREATE","object":{"apiVersion":"v1","kind":"Pod","spec":{"containers":[1,null,{}]}}}}`))
	template, _, err := templates.Compile([]byte(logShipper), templates.Options{})
	if err != nil {
		f.Fatal(err)
	}
	set := templates.NewSet([]templates.Entry{{Name: "shipper", Template: template}})
	h := NewHandler(Options{
		Pipeline: NewPipeline(Config{}), Effects: &recorded{}, Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
		Namespaces: oneNamespace{namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}},
		Templates:  func() *templates.Set { return set },
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/mutate", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("500 for a body: %s\n%s", w.Body, base64.StdEncoding.EncodeToString(body))
		}
	})
}

func TestTheServerStopsInOrder(t *testing.T) {
	s := NewServer(ServerOptions{Checks: []Check{{"things", func() error { return nil }}}, Logger: slog.New(slog.DiscardHandler), Gatherer: prometheus.NewRegistry()})
	probe := func(path string) int {
		w := httptest.NewRecorder()
		s.adminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if probe("/readyz") != 200 || probe("/healthz") != 200 {
		t.Error("not ready at first")
	}
	s.stopping.Store(true)
	if probe("/readyz") != 503 || probe("/healthz") != 200 {
		t.Error("still ready while stopping, or not alive")
	}
}

func TestTheMemoryOfBodiesIsBoundedInSumAndOrdinaryReviewsStillPass(t *testing.T) {
	f := newFixture(t, nil)
	f.bodies.held.Store(maxBodies)
	if w := f.post(t, reviewOf(v1Version, "", false)); w.Code != http.StatusOK {
		t.Errorf("an ordinary review: %d %s", w.Code, w.Body)
	}
	large := reviewOf(v1Version, `,"annotations":{"example.com/large":"`+strings.Repeat("x", 2*freeBody)+`"}`, false)
	if w := f.post(t, large); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a large review: %d %s", w.Code, w.Body)
	}
	if held := f.bodies.held.Load(); held != maxBodies {
		t.Errorf("%d bytes are held, want %d: what was read is given back", held, maxBodies)
	}
	f.bodies.held.Store(0)
	if w := f.post(t, large); w.Code != http.StatusOK {
		t.Errorf("a large review beside none: %d %s", w.Code, w.Body)
	}
	if held := f.bodies.held.Load(); held != 0 {
		t.Errorf("%d bytes are held after the answer", held)
	}
}

package webhook

import (
	"bytes"
	"context"
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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
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

func (o oneNamespace) Get(context.Context, string, func(templates.Namespace) bool) (templates.Namespace, error) {
	return o.namespace, o.err
}

// anywhere is an entry that selects every namespace.
var anywhere = entries.Entry{Name: "any"}

type recorded struct {
	mu       sync.Mutex
	outcomes []events.Event
}

func (r *recorded) Record(o events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

// parts are what a fixture is made of.
type parts struct {
	Options
	Pods
}

// fixture has the webhooks for pods behind one middleware.
type fixture struct {
	parts
	*Middleware
	mutate, verify http.Handler
	effects        *recorded
	registry       *prometheus.Registry
	log            *bytes.Buffer
}

func newFixture(t testing.TB, change func(*parts)) *fixture {
	t.Helper()
	set := templatestest.Set(t, logShipper)
	f := &fixture{effects: &recorded{}, registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	f.parts = parts{
		Options: Options{
			Effects: f.effects, Metrics: NewMetrics(f.registry), Logger: slog.New(slog.NewTextHandler(f.log, nil)),
			Timeout: time.Hour, Memory: MemoryFor(256 << 20), // the chart's memory, and no hurry
		},
		Pods: Pods{
			Pipeline:   injector.NewPipeline(injector.Config{ExcludedNamespaces: []string{"kube-system"}}),
			Namespaces: oneNamespace{namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}},
			Templates:  func() *templates.Set { return set },
		},
	}
	if change != nil {
		change(&f.parts)
	}
	f.Middleware = NewMiddleware(f.Options)
	f.mutate, f.verify = f.Handler(NewMutate(f.Pods, anywhere)), f.Handler(NewVerify(f.Pods, anywhere))
	return f
}

// post sends a review to the mutating webhook.
func (f *fixture) post(body string) *httptest.ResponseRecorder {
	return postTo(f.mutate, body)
}

// postTo posts a body to a webhook.
func postTo[T string | []byte](to http.Handler, body T) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/any", bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
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
		review := decodeAnswer(t, f.post(reviewOf(version, "", false)))
		r := review.Response
		if review.APIVersion != version || r.UID != "42" || !r.Allowed || r.PatchType == nil || *r.PatchType != admissionv1.PatchTypeJSONPatch {
			t.Errorf("%s: %+v", version, review)
		}
		if !bytes.Contains(r.Patch, []byte("shipper")) || !strings.HasPrefix(r.AuditAnnotations["templates"], "shipper=") {
			t.Errorf("patch %s, audit %v", r.Patch, r.AuditAnnotations)
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
		"an endless body":       {"", "application/json", "", endless{}, 411, "no Content-Length"},
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
		"an object of a string": {"", "application/json", "", strings.NewReader(good[:strings.Index(good, `,"object"`)] + `,"object":"x"}}`), 400, "the review's object is not a pod"},
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
			if c.body == (broken{}) {
				r.ContentLength = 100
			}
			w := httptest.NewRecorder()
			f.mutate.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("status %d: %s; want %d and %q", w.Code, w.Body, c.status, c.want)
			}
		})
	}
	if !decodeAnswer(t, f.post(good)).Response.Allowed {
		t.Error("the handler does not go on")
	}
}

func TestPillionsOwnFailureIsA500WithoutRetryAfter(t *testing.T) {
	f := newFixture(t, func(o *parts) {
		o.Namespaces = oneNamespace{err: apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "shop", nil)}
	})
	if w := f.post(reviewOf(v1Version, "", false)); w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") != "" {
		t.Errorf("status %d, header %v: %s", w.Code, w.Header(), w.Body)
	}
}

func TestNotReadyAsksTheAPIServerToTryAgain(t *testing.T) {
	f := newFixture(t, func(o *parts) { o.Ready = func() error { return errors.New("templates are not loaded") } })
	w := f.post(reviewOf(v1Version, "", false))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" || !strings.Contains(w.Body.String(), "not loaded") {
		t.Errorf("not ready: %d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestAFailureIsCountedForTheWebhookThatFailed(t *testing.T) {
	body := reviewOf(v1Version, "", false)
	panics := func(o *parts) { o.Templates = func() *templates.Set { panic("a bug") } }
	for name, c := range map[string]struct {
		change                func(*parts)
		body, outcome, reason string
	}{
		"a panic":          {panics, body, "error", "InternalError"},
		"garbage":          {nil, "{{{", "malformed", ""},
		"an endless body":  {nil, strings.Repeat(" ", maxBody+1), "malformed", ""},
		"a wrong resource": {nil, strings.Replace(body, `"resource":"pods"`, `"resource":"services"`, 1), "malformed", ""},
	} {
		f := newFixture(t, c.change)
		for webhook, handler := range map[string]http.Handler{"mutate": f.mutate, "verify": f.verify} {
			postTo(handler, c.body)
			if n := testutil.ToFloat64(f.Metrics.requests.WithLabelValues(webhook, c.outcome, c.reason, "false")); n != 1 {
				t.Errorf("%s of %s: counted %v times", name, webhook, n)
			}
		}
		if n := testutil.CollectAndCount(f.registry, "pillion_admission_duration_seconds"); n != 2 {
			t.Errorf("%s: %d histograms, want one for each webhook", name, n)
		}
	}
}

func TestAnAnswerIsCountedForItsWebhook(t *testing.T) {
	f := newFixture(t, withAudit(t))
	f.post(reviewOf(v1Version, "", false))
	postTo(f.verify, reviewOf(v1Version, "", true))
	f.options.Ready = func() error { return errors.New("stopping") }
	postTo(f.verify, reviewOf(v1Version, "", false))
	want := `
# HELP pillion_admission_requests_total Admission reviews answered. One pod may have several; those answered with 503 are not among them.
# TYPE pillion_admission_requests_total counter
pillion_admission_requests_total{dry_run="false",outcome="error",reason="InternalError",webhook="mutate"} 0
pillion_admission_requests_total{dry_run="false",outcome="error",reason="InternalError",webhook="verify"} 0
pillion_admission_requests_total{dry_run="false",outcome="injected",reason="Injected",webhook="mutate"} 1
pillion_admission_requests_total{dry_run="true",outcome="denied",reason="RequiredMissing",webhook="verify"} 1
# HELP pillion_admission_unavailable_total Reviews answered with 503 because this replica was not ready, was overloaded, or lacked data; the API server tries again.
# TYPE pillion_admission_unavailable_total counter
pillion_admission_unavailable_total{webhook="mutate"} 0
pillion_admission_unavailable_total{webhook="verify"} 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "pillion_admission_requests_total", "pillion_admission_unavailable_total"); err != nil {
		t.Error(err)
	}
}

// A panic costs one review, and the log says which.
func TestAPanicIsLoggedWithTheReviewsUIDAndTheNextReviewIsAnswered(t *testing.T) {
	broken := true
	f := newFixture(t, func(o *parts) {
		set := o.Templates
		o.Templates = func() *templates.Set {
			if broken {
				panic("a bug")
			}
			return set()
		}
	})
	w := f.post(reviewOf(v1Version, "", true))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "a bug") {
		t.Errorf("HTTP %d: %s", w.Code, w.Body)
	}
	for _, want := range []string{"uid=42", "webhook=mutate", "namespace=shop", "dryRun=true", "a bug", "mutate.go"} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, f.log)
		}
	}
	broken = false
	decodeAnswer(t, f.post(reviewOf(v1Version, "", false)))
	f.allFree(t)
}

type silent struct{}

func (silent) Name() string { return "silent" }

func (silent) Review(context.Context, *Review) (Response, error) { return Response{}, nil }

func TestAWebhookWithoutAnAnswerAllowsNothing(t *testing.T) {
	f := newFixture(t, nil)
	if w := postTo(f.Handler(silent{}), reviewOf(v1Version, "", false)); w.Code != http.StatusInternalServerError {
		t.Errorf("HTTP %d: %s", w.Code, w.Body)
	}
}

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
)

// maxFuzzed bounds the reviews of a target. Their sizes have tests of their own.
const maxFuzzed = 8 << 10

type noEffects struct{}

func (noEffects) Record(events.Event) {}

// forgetful leaves out what a fixture remembers of each review.
func forgetful(change func(*parts)) func(*parts) {
	return func(p *parts) {
		p.Effects, p.Logger = noEffects{}, slog.New(slog.DiscardHandler)
		if change != nil {
			change(p)
		}
	}
}

// lawful posts a body twice, and checks what holds for every answer: it is the same both
// times; a body that is no review is the client's mistake, which the answer explains; any
// other is answered with its version and UID; a refusal has a code, and texts are fit to
// print. It returns nil for a mistake.
func lawful(t *testing.T, to http.Handler, body []byte) *admissionv1.AdmissionReview {
	t.Helper()
	w, again := postTo(to, body), postTo(to, body)
	if w.Code != again.Code || !bytes.Equal(w.Body.Bytes(), again.Body.Bytes()) {
		t.Fatalf("%d %s, and then %d %s", w.Code, w.Body, again.Code, again.Body)
	}
	version, asked, err := decodeReview(body)
	if w.Code == http.StatusBadRequest && strings.TrimSpace(w.Body.String()) != "" {
		return nil
	}
	if w.Code != http.StatusOK || err != nil {
		t.Fatalf("HTTP %d for a review that is read with the error %v: %s", w.Code, err, w.Body)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	r := review.Response
	if review.APIVersion != version || review.Kind != "AdmissionReview" || r.UID != asked.UID {
		t.Fatalf("the answer %s to the review %s of %s", w.Body, asked.UID, version)
	}
	texts := r.Warnings
	if !r.Allowed {
		if r.Result == nil || r.Patch != nil {
			t.Fatalf("a refusal: %s", w.Body)
		}
		if _, ok := reason.OfRefusal(&apierrors.StatusError{ErrStatus: *r.Result}); !ok {
			t.Fatalf("a refusal without a code: %s", w.Body)
		}
		texts = append(texts, strings.Split(r.Result.Message, "\n")...)
	}
	for _, text := range texts {
		if text != printable(text) || len([]rune(text)) > maxMessage {
			t.Fatalf("%q is not fit to print", text)
		}
	}
	return &review
}

// again checks the patch of a mutating webhook: an API server can apply it, and the
// webhook leaves the resulting pod as it is.
func again(t *testing.T, to http.Handler, body []byte, first *admissionv1.AdmissionReview) {
	t.Helper()
	if first == nil || first.Response.Patch == nil {
		return
	}
	_, review, err := decodeReview(body)
	errtest.ExpectNone(t, err)
	patch, err := jsonpatch.DecodePatch(first.Response.Patch)
	errtest.ExpectNone(t, err)
	pod, err := patch.Apply(review.Object)
	if err != nil {
		t.Fatalf("the patch %s cannot be applied to %s: %v", first.Response.Patch, review.Object, err)
	}
	review.Object, review.pod = pod, nil
	second, err := json.Marshal(map[string]any{"apiVersion": v1Version, "kind": "AdmissionReview", "request": review})
	errtest.ExpectNone(t, err)
	answer := lawful(t, to, second)
	if answer == nil || !answer.Response.Allowed || answer.Response.Patch != nil {
		t.Fatalf("a second call with %s is answered with %+v", second, answer)
	}
}

func addReviews(f *testing.F, change func(string) string) {
	for _, body := range []string{
		"", " ", "null", "[]", "{", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":""}}`,
		reviewOf(v1Version, "", false), reviewOf(v1beta1Version, `,"annotations":{"pillion.dev/status":"{\"v\":1,\"templates\":{}}"}`, true),
		reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"+shipper,-none"}`, false), reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud","shipper.pillion.dev/nope":""}`, false),
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"operation":"CREATE","object":{"apiVersion":"v1","kind":"Pod","spec":{"containers":[1,null,{}]}}}}`,
	} {
		f.Add([]byte(change(body)))
	}
}

// FuzzMutateAnswersAnything posts any bytes to the mutating webhook.
func FuzzMutateAnswersAnything(f *testing.F) {
	addReviews(f, func(s string) string { return s })
	mutate := newFixture(f, forgetful(nil)).mutate
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) <= maxFuzzed {
			again(t, mutate, body, lawful(t, mutate, body))
		}
	})
}

// FuzzVerifyAnswersAnything posts any bytes to the webhook for the final pod.
func FuzzVerifyAnswersAnything(f *testing.F) {
	addReviews(f, func(s string) string { return s })
	addReviews(f, func(s string) string {
		return strings.Replace(s, `"operation":"CREATE"`, `"subResource":"ephemeralcontainers","operation":"UPDATE","oldObject":{"spec":{"initContainers":[{"name":"audit"}]}}`, 1)
	})
	verify := newFixture(f, forgetful(withAudit(f))).verify
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) <= maxFuzzed {
			if r := lawful(t, verify, body); r != nil && r.Response.Patch != nil {
				t.Fatalf("a patch of a validating webhook: %s", r.Response.Patch)
			}
		}
	})
}

// FuzzGuardAnswersAnything posts any bytes to the webhook for SidecarTemplates.
//
//fuzz:slow compiles the template of each review that has a sound one, about 1 ms
func FuzzGuardAnswersAnything(f *testing.F) {
	compiled, _, err := templates.Compile([]byte(logShipper), templates.Options{})
	errtest.ExpectNone(f, err)
	set := templates.NewSet([]templates.Entry{{Name: "shipper", Template: compiled}})
	guard := newFixture(f, forgetful(nil)).Handler(NewGuard(GuardOptions{
		Templates: func() *templates.Set { return set },
		Namespaces: func() iter.Seq[templates.Namespace] {
			return slices.Values([]templates.Namespace{{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}})
		},
	}))
	object := `{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"%s"},"spec":{"parameters":[{"name":"a","type":"json","default":{"b":1}}],"inject":{"metadata":{"labels":{"l":"${params.%s}"}}}}}`
	for _, operation := range []string{
		`"operation":"CREATE","object":` + fmt.Sprintf(object, "t", "a"), `"operation":"CREATE","object":` + fmt.Sprintf(object, "T", "b"), `"operation":"DELETE","oldObject":{"metadata":{"name":"shipper"}}`, `"operation":"DELETE"`,
		`"operation":"UPDATE","object":` + fmt.Sprintf(object, "t", "a") + `,"oldObject":` + fmt.Sprintf(object, "t", "b"), `"operation":"UPDATE","object":{"spec":1},"oldObject":{"spec":1.0}`, `"operation":"CONNECT"`,
	} {
		f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","name":"t","kind":{"group":"pillion.dev","version":"v1alpha1","kind":"SidecarTemplate"},` + operation + `}}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) <= maxFuzzed {
			lawful(t, guard, body)
		}
	})
}

// FuzzRequests holds for any method, query and content type: the review is answered, or the
// request is the client's mistake, which the answer explains.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", "timeout=2s", "application/json"}, {"POST", "", "application/json; charset=utf-8"}, {"GET", "", ""}, {"POST", "timeout=0", "application/json"}, {"POST", "timeout=1ns", "application/json"},
		{"POST", "timeout=9999999h", "APPLICATION/JSON"}, {"POST", "timeout=-1s&timeout=2s", "application/json"}, {"POST", "%zz;", "application/json;;"}, {"PUT", "timeout=2", "text/plain"}, {"post", "", "application/yaml"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	mutate := newFixture(f, forgetful(nil)).mutate
	body := reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"false"}`, false)
	f.Fuzz(func(t *testing.T, method, query, contentType string) {
		if len(method)+len(query)+len(contentType) > 1<<10 {
			return
		}
		r := &http.Request{Method: method, URL: &url.URL{Path: "/any", RawQuery: query}, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
		w := httptest.NewRecorder()
		mutate.ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusOK && method == http.MethodPost && strings.Contains(strings.ToLower(contentType), "application/json"):
		case w.Code == http.StatusMethodNotAllowed && method != http.MethodPost && w.Header().Get("Allow") == http.MethodPost:
		case w.Code == http.StatusUnsupportedMediaType, w.Code == http.StatusBadRequest && r.URL.Query().Get("timeout") != "":
		case w.Code == http.StatusServiceUnavailable && r.URL.Query().Get("timeout") != "" && w.Header().Get("Retry-After") != "": // too short
		default:
			t.Fatalf("%q %q %q: HTTP %d %s", method, query, contentType, w.Code, w.Body)
		}
		if strings.TrimSpace(w.Body.String()) == "" {
			t.Fatalf("%q %q %q: HTTP %d without a word", method, query, contentType, w.Code)
		}
	})
}

// FuzzAnnotationsAreAnswered holds for any text of each annotation that Pillion reads, on a
// pod or a namespace: the review is answered, and a patch is the last one.
//
//fuzz:slow posts each review twice, and the patched pod twice, through the whole pipeline
func FuzzAnnotationsAreAnswered(f *testing.F) {
	keys := []string{"pillion.dev/inject", "pillion.dev/status", "shipper.pillion.dev/log-level", "shipper.pillion.dev/nope", "pillion.dev/unknown"}
	for i := range keys {
		for _, value := range []string{"", "true", "false", "shipper", "+shipper", "-shipper,+a", "debug", `{"v":1,"templates":{"shipper":"0"},"pod":{"spec":{"containers":{"name=shipper":{"$added":true}}}}}`, "\x00\x1b[31m", "\u2028\"'${params}", strings.Repeat("x", 1000)} {
			f.Add(uint8(i), value, true)
			f.Add(uint8(i), value, false)
		}
	}
	var namespace oneNamespace
	fixture := newFixture(f, forgetful(nil))
	pods := fixture.Pods
	pods.Namespaces = &namespace
	mutate := fixture.Handler(NewMutate(pods, anywhere))
	f.Fuzz(func(t *testing.T, which uint8, value string, onPod bool) {
		if len(value) > maxFuzzed {
			return
		}
		annotations := map[string]string{"pillion.dev/inject": "shipper"}
		namespace.namespace = templates.Namespace{Name: "shop", Annotations: annotations}
		if onPod {
			annotations = map[string]string{}
		}
		annotations[keys[int(which)%len(keys)]] = value
		text := ""
		if onPod {
			encoded, err := json.Marshal(annotations)
			errtest.ExpectNone(t, err)
			text = `,"annotations":` + string(encoded)
		}
		body := []byte(strings.Replace(reviewOf(v1Version, "@", false), "@", text, 1))
		first := lawful(t, mutate, body)
		if first == nil {
			t.Fatalf("a pod of an API server counts as malformed: %s", body)
		}
		again(t, mutate, body, first)
	})
}

// MarshalJSON has the tests write a [Review].
func (p part) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	return p, nil
}

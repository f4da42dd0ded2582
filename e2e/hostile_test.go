package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// goodReview is the review of a pod that nothing asks about.
const goodReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",
"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},
"namespace":"default","operation":"CREATE","userInfo":{},
"object":{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}}}`

// endless is a body without an end: spaces, which JSON lets stand anywhere.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestHostileReviewsGetAReasonAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	replica := shared.Replicas(ground.Namespace)[0]
	r := newReviewer(t, replica)
	change := func(old, new string) io.Reader { return strings.NewReader(strings.Replace(goodReview, old, new, 1)) }
	text := strings.NewReader
	tests := []struct {
		name        string
		method      string // POST unless it says otherwise
		contentType string // application/json unless it says otherwise
		body        io.Reader
		status      int
		say         string // in the answer
	}{
		{name: "an empty body", body: text(""), status: 400, say: "empty"},
		{name: "only spaces", body: text("  \n"), status: 400, say: "empty"},
		{name: "garbage", body: text("\x00\xff{{{{"), status: 400, say: "pillion"},
		{name: "half a review", body: text(goodReview[:len(goodReview)/2]), status: 400, say: "pillion"},
		{name: "no JSON object", body: text(`[1,2,3]`), status: 400, say: "pillion"},
		{name: "brackets a million deep", body: text(strings.Repeat("[", 1_000_000)), status: 400, say: "pillion"},
		{name: "no request", body: text(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), status: 400, say: "request"},
		{name: "another kind", body: change(`"kind":"AdmissionReview"`, `"kind":"ConversionReview"`), status: 400, say: "ConversionReview"},
		{name: "an unknown version", body: change("admission.k8s.io/v1", "admission.k8s.io/v9"), status: 400, say: "v9"},
		{name: "a review of another resource", body: change(`"kind":"Pod"}`, `"kind":"Service"}`), status: 400, say: "Service"},
		{name: "an object that is a list", body: change(`"object":{`, `"object":[],"ignored":{`), status: 400, say: "object"},
		{name: "no object", body: change(`"object":{`, `"ignored":{`), status: 400, say: "object"},
		{name: "a wrong content type", contentType: "text/yaml", body: text(goodReview), status: 415, say: "application/json"},
		{name: "a GET", method: http.MethodGet, body: http.NoBody, status: 405, say: "POST"},
		{name: "40 MiB", body: bytes.NewReader(bytes.Repeat([]byte(" "), 40<<20)), status: 413, say: "larger"},
		{name: "no end", body: endless{}, status: 413, say: "larger"},
		{name: "a control character in what is told back", contentType: "a/b\tc", body: text(goodReview), status: 415, say: "application/json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, answer := r.post(t, test.method, test.contentType, test.body)
			if status != test.status || !strings.Contains(answer, test.say) {
				t.Errorf("the answer is %d %q, want %d with %q", status, answer, test.status, test.say)
			}
			if strings.ContainsAny(strings.TrimSpace(answer), "\t\n\r\x00") {
				t.Errorf("the answer has control characters: %q", answer)
			}
			r.works(t)
		})
	}
	if now := shared.Replicas(ground.Namespace); len(now) != 1 || now[0].PID != replica.PID {
		t.Errorf("Pillion was %+v, and is %+v now", replica, now)
	}
}

// Not in parallel: where it fails, it holds up every other test.
func TestClientsThatNeverFinishHoldUpNobody(t *testing.T) {
	replica := shared.Replicas(ground.Namespace)[0]
	r := newReviewer(t, replica)
	for range 300 { // more than are answered at once
		conn, err := (&tls.Dialer{Config: serverTLS(t)}).DialContext(t.Context(), "tcp", replica.Serve.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(goodReview), goodReview[:20]); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	began := time.Now()
	r.works(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("beside clients that never finish a review takes %s", took)
	}
}

func TestBothVersionsOfTheReviewAreAnsweredInTheirOwn(t *testing.T) {
	t.Parallel()
	r := newReviewer(t, shared.Replicas(ground.Namespace)[0])
	for _, version := range []string{"admission.k8s.io/v1", "admission.k8s.io/v1beta1"} {
		status, answer := r.post(t, "", "", strings.NewReader(strings.Replace(goodReview, "admission.k8s.io/v1", version, 1)))
		var review struct {
			APIVersion, Kind string
			Response         struct {
				UID     string
				Allowed bool
			}
		}
		err := json.Unmarshal([]byte(answer), &review)
		if err != nil || status != 200 || review.APIVersion != version || review.Kind != "AdmissionReview" || review.Response.UID != "u-1" || !review.Response.Allowed {
			t.Errorf("a review of version %s is answered with %d %s (%v)", version, status, answer, err)
		}
	}
}

// post sends one request and returns the status and the beginning of the answer.
func (r reviewer) post(t *testing.T, method, contentType string, body io.Reader) (int, string) {
	t.Helper()
	if method == "" {
		method = http.MethodPost
	}
	if contentType == "" {
		contentType = "application/json"
	}
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+"?timeout=5s", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header["Content-Type"] = []string{contentType}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return response.StatusCode, string(answer)
}

// works fails the test unless a good review is answered.
func (r reviewer) works(t *testing.T) {
	t.Helper()
	if status, answer := r.post(t, "", "", strings.NewReader(goodReview)); status != 200 || !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("a good review is answered with %d %s", status, answer)
	}
}

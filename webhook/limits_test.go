package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/templates"
)

// variables is a review of a pod with n variables, the form that takes most memory for
// its bytes.
func variables(n int, annotations string) string {
	env := strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, n), ",")
	return strings.Replace(reviewOf(v1Version, annotations, false), `"image":"nginx"`, `"image":"nginx","env":[`+env+`]`, 1)
}

// A share that grows takes memory from another one.
func TestTheSharesOfTheMemoryAreNotMoreThanThereIs(t *testing.T) {
	for _, limit := range []int64{256 << 20, 512 << 20, 4 << 30} {
		reviews, side := MemoryFor(limit), SideMemoryFor(limit)
		total := int64(reviews.Connections)*connectionMemory + Share(limit, CacheShare) + Share(limit, TemplateShare) + Share(limit, ProcessShare)
		for _, m := range []Memory{reviews, side, side} {
			total += m.Bodies + m.Slots*slotMemory
		}
		if total > limit {
			t.Errorf("%d MiB: %d MiB in all", limit>>20, total>>20)
		}
		if reviews.Connections < 512 || reviews.Slots < 16 {
			t.Errorf("%d MiB: %+v", limit>>20, reviews)
		}
	}
}

// etcd stores objects of 1.5 MiB. A variable with a name of one letter takes 7 bytes
// there, so a stored pod has 224,000 at most. Such a pod fits into the memory that the
// chart gives, and one with twice as many is refused, not let through.
func TestTheLargestPodThatCanBeStoredIsInjectedAndALargerOneIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	if r := decodeAnswer(t, f.post(strings.Replace(variables(224_000, ""), `"a"`, `"b"`, 1))).Response; !r.Allowed || r.Patch == nil {
		t.Errorf("224,000 variables: %+v", r.Result)
	}
	r := decodeAnswer(t, f.post(variables(450_000, ""))).Response
	if r.Allowed || r.UID != "42" || !strings.HasSuffix(r.Result.Message, "(TemplateTooExpensive)") || !strings.Contains(r.Result.Message, "resources.limits.memory") {
		t.Errorf("450,000 variables: %+v", r)
	}
	if n := len(f.effects.outcomes); n != 1 || f.effects.outcomes[0].Pod["metadata"] == nil {
		t.Errorf("events %+v, want one about the refusal", f.effects.outcomes)
	}
	if !strings.Contains(f.log.String(), "TemplateTooExpensive") {
		t.Errorf("the log does not tell: %s", f.log)
	}
	if n := testutil.ToFloat64(f.Metrics.pods.WithLabelValues("denied", "TemplateTooExpensive")); n != 1 {
		t.Errorf("the refused pod is counted %v times", n)
	}
	f.allFree(t)
}

// Go writes '<' as six bytes, so a review can be six times what an API server was sent.
func TestAPodIsNotLetThroughForTheBytesOfItsReview(t *testing.T) {
	f := newFixture(t, nil)
	for _, n := range []int{13 * 100_000, 3 << 20} {
		text := strings.Repeat(`\u003c`, n)
		body := strings.Replace(reviewOf(v1Version, "", false), `"image":"nginx"`, `"image":"nginx","args":["`+text+`"]`, 1)
		if r := decodeAnswer(t, f.post(body)).Response; !r.Allowed || r.Patch == nil {
			t.Errorf("%d characters: %+v", n, r.Result)
		}
	}
	f.allFree(t)
}

// Where Pillion has no say, the size of a pod is not its affair.
func TestALargePodThatNobodyWantsAnythingInPasses(t *testing.T) {
	f := newFixture(t, nil)
	if r := decodeAnswer(t, f.post(variables(450_000, `,"annotations":{"pillion.dev/inject":"false"}`))).Response; !r.Allowed || r.Patch != nil {
		t.Errorf("a pod that opts out: %+v", r.Result)
	}
	f = newFixture(t, func(o *parts) { o.Namespaces = oneNamespace{namespace: templates.Namespace{Name: "shop"}} })
	if r := decodeAnswer(t, f.post(variables(450_000, ""))).Response; !r.Allowed || r.Patch != nil {
		t.Errorf("a namespace that never asked: %+v", r.Result)
	}
}

func TestALargePodIsVerifiedOrRefused(t *testing.T) {
	f := newFixture(t, withAudit(t))
	r := decodeAnswer(t, postTo(f.verify, variables(450_000, ""))).Response
	if r.Allowed || !strings.Contains(r.Result.Message, "TemplateTooExpensive") {
		t.Errorf("a new pod: %+v", r.Result)
	}
	if n := testutil.ToFloat64(f.Metrics.pods.WithLabelValues("denied", "TemplateTooExpensive")); n != 0 {
		t.Errorf("its verification counts as %v pods", n)
	}
	image := func(pod, image string) string {
		return strings.Replace(pod, `"containers":`, `"initContainers":[{"name":"audit","image":"`+image+`","restartPolicy":"Always"}],"containers":`, 1)
	}
	before := variables(224_000, "")
	old := before[strings.Index(before, `"object":`)+len(`"object":`) : len(before)-2]
	update := strings.Replace(image(before, "evil:1"), `"CREATE"`, `"UPDATE"`, 1)
	update = update[:len(update)-2] + `,"oldObject":` + image(old, "registry.example.com/audit:1") + "}}"
	if r = decodeAnswer(t, postTo(f.verify, update)).Response; r.Allowed || !strings.Contains(r.Result.Message, "evil:1") {
		t.Errorf("another image in a pod of the largest size: %+v", r.Result)
	}
	f.allFree(t)
}

// An API server gives up after its timeout, and lets the pod through where failures are
// ignored. A large pod that had to wait is refused just before.
func TestALargePodThatWaitsInVainIsRefusedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *parts) { o.Timeout = 3 * time.Second })
		release := mustTake(t, f.room, "other", f.room.largest)
		r := decodeAnswer(t, f.post(variables(80_000, ""))).Response
		if r.Allowed || !strings.Contains(r.Result.Message, "busy with other large objects") || !strings.HasSuffix(r.Result.Message, "(TemplateTooExpensive)") {
			t.Errorf("%+v", r.Result)
		}
		if r := decodeAnswer(t, f.post(reviewOf(v1Version, "", false))).Response; !r.Allowed || r.Patch == nil {
			t.Errorf("a small pod meanwhile: %+v", r.Result)
		}
		release()
		f.allFree(t)
	})
}

// An API server that waits no longer lets a pod through, and a required template may select this one.
func TestAPodThatWaitsInVainIsRefusedWhereATemplateIsRequired(t *testing.T) {
	for name, c := range map[string]struct {
		labels  map[string]string
		err     error
		refused bool
	}{
		"a required template selects the namespace": {map[string]string{"team": "shop"}, nil, true},
		"none does":                        {map[string]string{"team": "other"}, nil, false},
		"it is not known whether one does": {nil, errors.New("the API server is away"), true},
		"no template is required":          {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(o *parts) {
					if c.labels != nil || c.err != nil {
						withAudit(t)(o)
					}
					o.Timeout = time.Second
					o.Namespaces = &lateNamespaces{templates.Namespace{Name: "shop", Labels: c.labels}, c.err}
				})
				fill(t, f.room, false)
				w := f.post(reviewOf(v1Version, "", false))
				if !c.refused {
					if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
						t.Errorf("it is not tried again: HTTP %d: %s", w.Code, w.Body)
					}
					return
				}
				if r := decodeAnswer(t, w).Response; r.Allowed || !strings.HasSuffix(r.Result.Message, "(TemplateTooExpensive)") {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// lateNamespaces has a namespace, or waits until the caller gives up.
type lateNamespaces struct {
	namespace templates.Namespace
	err       error
}

func (l *lateNamespaces) Get(ctx context.Context, _ string, _ func(templates.Namespace) bool) (templates.Namespace, error) {
	if l.err != nil {
		<-ctx.Done()
		return templates.Namespace{}, l.err
	}
	return l.namespace, nil
}

// No part of a review but the objects has a size worth naming; what has is refused.
func TestTheRestOfAReviewIsBoundedToo(t *testing.T) {
	f := newFixture(t, nil)
	good, long := reviewOf(v1Version, "", false), strings.Repeat("x", 1<<20)
	for name, body := range map[string]string{
		"uid":       strings.Replace(good, `"uid":"42"`, `"uid":"`+long+`"`, 1),
		"namespace": strings.Replace(good, `"namespace":"shop"`, `"namespace":"`+long+`"`, 1),
		"operation": strings.Replace(good, `"CREATE"`, `"`+long+`"`, 1),
		"kind":      strings.Replace(good, `"kind":"Pod"},"resource"`, `"kind":"`+long+`"},"resource"`, 1),
		"resource":  strings.Replace(good, `"resource":"pods"`, `"resource":"`+long+`"`, 1),
		"user":      strings.Replace(good, `"operation"`, `"userInfo":{"groups":["`+strings.Repeat(`a","`, maxUserInfo/4)+`"]},"operation"`, 1),
		"version":   strings.Replace(good, v1Version, long, 1),
	} {
		w := f.post(body)
		if w.Code != http.StatusBadRequest || w.Body.Len() > maxMessage+100 {
			t.Errorf("%s of %d bytes: HTTP %d, an answer of %d bytes: %.200s", name, len(long), w.Code, w.Body.Len(), w.Body)
		}
	}
	if f.log.Len() > 64<<10 {
		t.Errorf("the log has %d bytes", f.log.Len())
	}
}

// namespacesThatHang are those of an API server that does not answer.
type namespacesThatHang struct {
	asked atomic.Int64
	end   chan struct{}
}

func (n *namespacesThatHang) Get(ctx context.Context, name string, _ func(templates.Namespace) bool) (templates.Namespace, error) {
	if name == "shop" {
		return templates.Namespace{Name: name}, nil
	}
	n.asked.Add(1)
	select {
	case <-ctx.Done():
		return templates.Namespace{}, ctx.Err()
	case <-n.end:
		return templates.Namespace{}, errors.New("the connection broke")
	}
}

func TestReviewsThatWaitForTheirNamespaceHoldNothingThatOthersNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := &namespacesThatHang{end: make(chan struct{})}
		f := newFixture(t, func(o *parts) { o.Namespaces = hanging })
		ended := make(chan bool)
		forged := strings.Replace(reviewOf(v1Version, "", false), `"namespace":"shop"`, `"namespace":"none"`, 1)
		for range 320 {
			go func() { f.post(forged); ended <- true }()
		}
		synctest.Wait()
		if n := hanging.asked.Load(); n != 320 {
			t.Errorf("%d of 320 reviews wait for their namespace", n)
		}
		for range 10 {
			decodeAnswer(t, f.post(reviewOf(v1Version, "", false)))
		}
		close(hanging.end)
		for range 320 {
			<-ended
		}
		f.allFree(t)
	})
}

func TestAnUnknownNamespaceIsTheSendersMistakeAndABusyReaderIsNot(t *testing.T) {
	for want, err := range map[int]error{
		http.StatusNotFound:           apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "none"),
		http.StatusServiceUnavailable: apierrors.NewTooManyRequests("too many", 1),
	} {
		f := newFixture(t, func(o *parts) { o.Namespaces = oneNamespace{err: fmt.Errorf("reading: %w", err)} })
		if w := f.post(reviewOf(v1Version, "", false)); w.Code != want {
			t.Errorf("%v: HTTP %d, want %d", err, w.Code, want)
		}
	}
}

// A client may ask for less time than the admin registered, and not for more.
func TestTheTimeoutIsNeverLongerThanTheRegisteredOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *parts) { o.Timeout = 2 * time.Second })
		for query, want := range map[string]time.Duration{"": 1800 * time.Millisecond, "?timeout=30s": 1800 * time.Millisecond, "?timeout=1s": 900 * time.Millisecond} {
			r, err := http.NewRequest(http.MethodPost, "/mutate"+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel, err := f.withTimeout(r, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left != want {
				t.Errorf("%q: %s are left, want %s", query, left, want)
			}
			cancel()
		}
	})
}

func TestAReviewWhoseClientWentAwayIsNoError(t *testing.T) {
	f := newFixture(t, func(o *parts) { o.Namespaces = &namespacesThatHang{} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mutate", strings.NewReader(strings.Replace(reviewOf(v1Version, "", false), `"namespace":"shop"`, `"namespace":"none"`, 1)))
	r.Header.Set("Content-Type", "application/json")
	f.mutate.ServeHTTP(httptest.NewRecorder(), r)
	if n := testutil.ToFloat64(f.Metrics.requests.WithLabelValues("mutate", "abandoned", "", "false")); n != 1 || strings.Contains(f.log.String(), "ERROR") {
		t.Errorf("counted %v times as abandoned; the log: %s", n, f.log)
	}
}

// checkingWriter looks at the memory when the answer is written.
type checkingWriter struct {
	http.ResponseWriter
	check func()
}

func (w checkingWriter) Write(p []byte) (int, error) {
	w.check()
	return w.ResponseWriter.Write(p)
}

// A client may take as long as it likes to read its answer. Others do not wait for that.
func TestAnAnswerIsWrittenWhenTheReviewHoldsNothingAnyMore(t *testing.T) {
	f := newFixture(t, nil)
	written := 0
	for _, body := range []string{reviewOf(v1Version, "", false), variables(80_000, ""), variables(450_000, ""), "{"} {
		r := httptest.NewRequest(http.MethodPost, "/mutate", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		f.mutate.ServeHTTP(checkingWriter{httptest.NewRecorder(), func() { written++; f.allFree(t) }}, r)
	}
	if written < 4 {
		t.Errorf("%d answers are written, want 4", written)
	}
}

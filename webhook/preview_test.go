package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/injector/entries"
)

// previewFixture serves previews, in which a workload is its own pod. change may be nil.
func previewFixture(t *testing.T, change func(*parts, *PreviewOptions)) http.Handler {
	t.Helper()
	options := PreviewOptions{Created: func(object map[string]any, _ string) (template, pod map[string]any, err error) {
		return object, object, nil
	}}
	f := newFixture(t, func(p *parts) {
		p.Advice, p.Memory = true, SideMemoryFor(256<<20)
		options.Pods = p.Pods
		if change != nil {
			change(p, &options)
		}
		options.Pods = p.Pods
	})
	return f.Handler(NewPreview(options, []entries.Entry{anywhere})[0])
}

// deploymentReview is a review of a Deployment with metadata and containers.
func deploymentReview(operation, metadata, containers string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"42","kind":{"group":"apps","version":"v1","kind":"Deployment"},"namespace":"shop","operation":%q,`+
		`"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"%s},"spec":{"containers":[%s]}}}}`, operation, metadata, containers)
}

const (
	misspelt = `,"annotations":{"pillion.dev/inject":"shiper"}`
	oneApp   = `{"name":"web","image":"nginx"}`
)

// say returns how many warnings a preview has, which must let the object pass.
func say(t *testing.T, to http.Handler, body string) int {
	t.Helper()
	answer := decodeAnswer(t, postTo(to, body))
	if !answer.Response.Allowed || answer.Response.Patch != nil || answer.Response.Result != nil {
		t.Fatalf("%+v", answer.Response)
	}
	return len(answer.Response.Warnings)
}

func TestAPreviewSpeaksOfWhatIsWrittenAndOfNothingElse(t *testing.T) {
	to := previewFixture(t, nil)
	for operation, want := range map[string]bool{"CREATE": true, "UPDATE": true, "DELETE": false, "CONNECT": false} {
		if got := say(t, to, deploymentReview(operation, misspelt, oneApp)); (got > 0) != want {
			t.Errorf("%s: %d warnings", operation, got)
		}
	}
}

// Whatever keeps a preview from its answer, the object passes, and nobody waits.
func TestAPreviewBeyondItsBoundsLetsTheObjectPassWithoutAWord(t *testing.T) {
	large := strings.Repeat(`{"name":"web","image":"nginx","env":[{"name":"A","value":"b"},{"name":"C","value":"d"}]},`, 8000) + oneApp
	for title, test := range map[string]struct {
		change     func(*parts, *PreviewOptions)
		containers string
	}{
		"too many":  {func(_ *parts, o *PreviewOptions) { o.Rate = rate.NewLimiter(0, 0) }, oneApp},
		"too large": {nil, large},
		"a namespace that is not known": {func(p *parts, _ *PreviewOptions) {
			p.Pods.Namespaces = oneNamespace{err: errors.New("the cache is old")}
		}, oneApp},
		"no time": {func(p *parts, o *PreviewOptions) {
			o.Created = func(object map[string]any, _ string) (template, pod map[string]any, err error) {
				time.Sleep(previewTime + 200*time.Millisecond)
				return object, object, nil
			}
		}, oneApp},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if got := say(t, previewFixture(t, test.change), deploymentReview("CREATE", misspelt, test.containers)); got != 0 {
					t.Errorf("%d warnings", got)
				}
				if took := time.Since(began); took > previewTime+200*time.Millisecond {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestPreviewsWaitForOneAnotherOnlyForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, end := make(chan struct{}, 8), make(chan struct{})
		to := previewFixture(t, func(_ *parts, o *PreviewOptions) {
			created := o.Created
			o.Created = func(object map[string]any, namespace string) (template, pod map[string]any, err error) {
				began <- struct{}{}
				<-end
				return created(object, namespace)
			}
		})
		first := make(chan struct{})
		go func() { defer close(first); say(t, to, deploymentReview("CREATE", "", oneApp)) }()
		<-began // the first holds the only place
		if got := say(t, to, deploymentReview("CREATE", misspelt, oneApp)); got != 0 {
			t.Errorf("a preview that has to wait says %d things", got)
		}
		close(end)
		<-first
		if got := say(t, to, deploymentReview("CREATE", misspelt, oneApp)); got == 0 {
			t.Error("the place is not given back")
		}
	})
}

// An API server that is told to try again keeps somebody waiting for advice.
func TestAPreviewThatIsNotReadyIsNotTriedAgain(t *testing.T) {
	to := previewFixture(t, func(p *parts, _ *PreviewOptions) { p.Ready = func() error { return errors.New("loading") } })
	w := postTo(to, deploymentReview("CREATE", "", oneApp))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "" {
		t.Errorf("HTTP %d, %v", w.Code, w.Header())
	}
}

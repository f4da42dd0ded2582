package webhook

import (
	"net/http"
	"strings"
	"testing"
)

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

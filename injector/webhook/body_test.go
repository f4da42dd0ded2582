package webhook

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// large is a review of a pod with an annotation of n bytes.
func large(n int) string {
	return reviewOf(v1Version, `,"annotations":{"example.com/large":"`+strings.Repeat("x", n)+`"}`, false)
}

// allFree fails the test if a body or a review still holds memory.
func (f *fixture) allFree(t *testing.T) {
	t.Helper()
	if small, rest := f.bodies.free(); small != f.Memory.Bodies || rest != f.Memory.LargeBodies {
		t.Errorf("bodies: %d and %d bytes are free, want %d and %d", small, rest, f.Memory.Bodies, f.Memory.LargeBodies)
	}
	if small, large := f.budget.Taken(); small != 0 || large != 0 {
		t.Errorf("reviews: %d and %d bytes are taken", small, large)
	}
}

func TestBodiesHoldNoMoreThanTheyMayAndOrdinaryReviewsStillPass(t *testing.T) {
	f := newFixture(t, nil)
	held := f.Memory.LargeBodies
	if err := f.bodies.rest.take(&bodyReader{stop: func(time.Time) error { return nil }, slow: time.Now().Add(time.Hour)}, held); err != nil {
		t.Fatal(err)
	}
	if w := f.post(t, reviewOf(v1Version, "", false)); w.Code != http.StatusOK {
		t.Errorf("an ordinary review: %d %s", w.Code, w.Body)
	}
	if w := f.post(t, large(2*smallBody)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a large review: %d %s", w.Code, w.Body)
	}
	f.bodies.rest.give(held)
	if w := f.post(t, large(2*smallBody)); w.Code != http.StatusOK {
		t.Errorf("a large review beside none: %d %s", w.Code, w.Body)
	}
	f.allFree(t)
}

// Whatever size a body has, announced or not, it is read whole and its memory comes back.
func TestBodiesOfAllSizesAreReadWholeAndGivenBack(t *testing.T) {
	f := newFixture(t, nil)
	for _, size := range []int{0, 1, 4095, 4096, 4097, smallBody - 1, smallBody, smallBody + 1, 3 << 20, maxUnannounced, maxUnannounced + 1, maxBody - 1, maxBody, maxBody + 1} {
		for _, announced := range []bool{true, false} {
			text := strings.Repeat(" ", size)
			r := httptest.NewRequest(http.MethodPost, "/mutate", strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			if !announced {
				r.ContentLength = -1
			}
			body, release, err := f.bodies.read(httptest.NewRecorder(), r)
			most := maxBody
			if !announced {
				most = maxUnannounced
			}
			if size > most != (err != nil) || err == nil && string(body) != text {
				t.Errorf("%d bytes, announced %v: %d are read, %v", size, announced, len(body), err)
			}
			release()
			f.allFree(t)
		}
	}
}

// stall has clients begin a review, send size bytes of it, and not finish it. Those that
// trickle send a byte every few milliseconds.
func stall(t *testing.T, address string, clients, size int, trickle bool) {
	t.Helper()
	head := fmt.Sprintf("POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", smallBody-1)
	for range clients {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, head+strings.Repeat(" ", size)); err != nil {
			t.Fatal(err)
		}
		if trickle {
			go func() {
				for {
					if _, err := io.WriteString(c, " "); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
		}
	}
}

func TestSlowSendersGiveWayToOthers(t *testing.T) {
	for name, trickle := range map[string]bool{"that pause": false, "that go on byte by byte": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *parts) { o.Memory.Bodies = 4 * smallBody })
			server := httptest.NewTLSServer(f.mutate)
			t.Cleanup(server.Close)
			stall(t, server.Listener.Addr().String(), 3, smallBody-1024, trickle)
			eventuallyFree(t, f, func(small int64) bool { return small == smallBody }, "the bodies are not held")
			sending := &bodyReader{slow: time.Now().Add(time.Hour)}
			if err := f.bodies.small.take(sending, smallBody-100); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // as an API server does after a 503
				answer, err := server.Client().Post(server.URL, "application/json", strings.NewReader(reviewOf(v1Version, "", false)))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("a review beside three slow ones: %s", answer.Status)
				}
			}
			eventuallyFree(t, f, func(small int64) bool { return small >= smallBody }, "the memory of the bodies that were given up does not come back")
		})
	}
}

// eventuallyFree waits until so much memory for small bodies is free.
func eventuallyFree(t *testing.T, f *fixture, enough func(small int64) bool, otherwise string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		small, _ := f.bodies.free()
		if enough(small) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d bytes are free", otherwise, small)
		}
	}
}

// A client that is told why gets the answer before its connection ends.
func TestABodyThatIsTooLongIsRefusedBeforeItIsRead(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f.mutate)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", maxBody+1)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%v, %v", answer, err)
	}
}

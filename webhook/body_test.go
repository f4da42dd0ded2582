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

	"github.com/pillion-dev/pillion/internal/errtest"
)

// large is a review of a pod with an annotation of n bytes.
func large(n int) string {
	return reviewOf(v1Version, `,"annotations":{"example.com/large":"`+strings.Repeat("x", n)+`"}`, false)
}

// allFree fails the test if a body or a review still holds memory.
func (f *fixture) allFree(t *testing.T) {
	t.Helper()
	if !f.bodies.all.TryAcquire(f.bodies.size) {
		t.Error("a body is still held")
	} else {
		f.bodies.all.Release(f.bodies.size)
	}
	if !f.room.all.TryAcquire(f.room.size) || len(f.room.namespaces) > 0 {
		t.Error("a review still holds memory")
	} else {
		f.room.all.Release(f.room.size)
	}
}

func TestBodiesHoldNoMoreThanTheyMayAndOrdinaryReviewsStillPass(t *testing.T) {
	f := newFixture(t, nil)
	errtest.ExpectNone(t, f.bodies.all.Acquire(t.Context(), f.bodies.size))
	if w := f.post(reviewOf(v1Version, "", false)); w.Code != http.StatusOK {
		t.Errorf("an ordinary review: %d %s", w.Code, w.Body)
	}
	if w := f.post(large(2 * ordinaryBody)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a large review: %d %s", w.Code, w.Body)
	}
	f.bodies.all.Release(f.bodies.size)
	if w := f.post(large(2 * ordinaryBody)); w.Code != http.StatusOK {
		t.Errorf("a large review beside none: %d %s", w.Code, w.Body)
	}
	f.allFree(t)
}

// Whatever size a body has, it is read whole and its memory comes back. API servers say how long one is.
func TestBodiesOfAllSizesAreReadWholeAndGivenBack(t *testing.T) {
	f := newFixture(t, nil)
	for _, size := range []int{0, 1, ordinaryBody - 1, ordinaryBody, ordinaryBody + 1, 3 << 20, maxBody - 1, maxBody, maxBody + 1} {
		for _, announced := range []bool{true, false} {
			text := strings.Repeat(" ", size)
			r := httptest.NewRequest(http.MethodPost, "/mutate", strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			if !announced {
				r.ContentLength = -1
			}
			body, release, err := f.bodies.read(httptest.NewRecorder(), r)
			if (size > maxBody || !announced) != (err != nil) || err == nil && string(body) != text {
				t.Errorf("%d bytes, announced %v: %d are read, %v", size, announced, len(body), err)
			}
			release()
			f.allFree(t)
		}
	}
}

// begin has a client begin a review that is larger than it sends, byte by byte if it trickles.
func begin(t *testing.T, address string, announced, size int, trickle bool) net.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	errtest.ExpectNone(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", announced, strings.Repeat(" ", size)); err != nil {
		t.Fatal(err)
	}
	go func() {
		for trickle {
			if _, err := io.WriteString(c, " "); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return c
}

// A network that loses packets for a second refuses no pod.
func TestAReviewThatComesTooSlowlyIsTriedAgain(t *testing.T) {
	server := httptest.NewTLSServer(newFixture(t, nil).mutate)
	defer server.Close()
	c := begin(t, server.Listener.Addr().String(), 2*ordinaryBody, 1, false)
	defer func() { _ = c.Close() }() // before the server, which waits for it
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	errtest.ExpectNone(t, err)
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("HTTP %d, %v; want 503, after which API servers try again", answer.StatusCode, answer.Header)
	}
}

// Clients that stop, or go on byte by byte, keep their memory for a bounded time. Ordinary reviews
// do not wait for it, and large ones are tried again, as an API server does after a 503.
func TestSlowSendersGiveWayToOthers(t *testing.T) {
	for name, trickle := range map[string]bool{"that pause": false, "that go on byte by byte": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *parts) { o.Memory.Bodies = 4 * ordinaryBody })
			server := httptest.NewTLSServer(f.mutate)
			t.Cleanup(server.Close)
			for range 2 {
				begin(t, server.Listener.Addr().String(), 2*ordinaryBody, ordinaryBody, trickle)
			}
			post := func(body string) int {
				answer, err := server.Client().Post(server.URL, "application/json", strings.NewReader(body))
				errtest.ExpectNone(t, err)
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				return answer.StatusCode
			}
			for deadline := time.Now().Add(10 * time.Second); f.bodies.all.TryAcquire(1); time.Sleep(time.Millisecond) {
				f.bodies.all.Release(1)
				if time.Now().After(deadline) {
					t.Fatal("the slow bodies hold nothing")
				}
			}
			if code := post(reviewOf(v1Version, "", false)); code != http.StatusOK {
				t.Errorf("an ordinary review beside slow ones: HTTP %d", code)
			}
			for deadline := time.Now().Add(2 * bodyTime); ; time.Sleep(10 * time.Millisecond) {
				if code := post(large(ordinaryBody)); code == http.StatusOK {
					break
				} else if code != http.StatusServiceUnavailable || time.Now().After(deadline) {
					t.Fatalf("a large review beside slow ones: HTTP %d", code)
				}
			}
		})
	}
}

// A client that is told why gets the answer before its connection ends.
func TestABodyThatIsTooLongIsRefusedBeforeItIsRead(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f.mutate)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	errtest.ExpectNone(t, err)
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", maxBody+1)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%v, %v", answer, err)
	}
}

package webhook

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sender is a client that sends a body by a script, in the time of the test.
type sender struct {
	crowd *crowd
	// size is what is sent in all, in portions with a pause before each. Then the body ends,
	// or the client stalls.
	size, portion, sent int
	pause               time.Duration
	stalls              bool

	stop chan struct{} // closed where the server gives the body up
	once sync.Once
	has  int // bytes of memory that the server has for it
}

func (s *sender) Read(p []byte) (int, error) {
	s.crowd.holds(s, s.sent+cap(p))
	if s.sent == s.size && !s.stalls {
		return 0, io.EOF
	}
	pause := s.pause
	if s.sent == s.size {
		pause = 10 * time.Second // the server's ReadTimeout
	}
	if pause > 0 {
		select {
		case <-s.stop:
			return 0, errors.New("the deadline has passed")
		case <-time.After(pause):
		}
	}
	if s.sent == s.size {
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), s.portion, s.size-s.sent)
	s.sent += n
	return n, nil
}

// deadlineWriter is a ResponseWriter whose connection can have its deadline set.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	sender *sender
}

func (w deadlineWriter) SetReadDeadline(time.Time) error {
	w.sender.once.Do(func() { close(w.sender.stop) })
	return nil
}

// crowd are clients that send bodies to one server.
type crowd struct {
	t           *testing.T
	bodies      *bodies
	small, rest int64 // the pools

	mu   sync.Mutex
	held int
	most int
}

// holds notes the memory that the server has for a sender, and fails the test where all have
// more than there is.
func (c *crowd) holds(s *sender, bytes int) {
	c.mu.Lock()
	c.held += bytes - s.has
	s.has = bytes
	c.most = max(c.most, c.held)
	if int64(c.held) > c.small+c.rest {
		c.t.Errorf("bodies have %d KiB of memory; the pools have %d KiB", c.held>>10, (c.small+c.rest)>>10)
	}
	c.mu.Unlock()
	if small, rest := c.bodies.free(); small < 0 || rest < 0 || small > c.small || rest > c.rest {
		c.t.Errorf("%d of %d and %d of %d bytes are free", small, c.small, rest, c.rest)
	}
}

// send has the server read one body, and keep it for a while as if it were reviewed.
func (c *crowd) send(s *sender, announced int, reviewed time.Duration) error {
	s.crowd, s.stop = c, make(chan struct{})
	r := httptest.NewRequest(http.MethodPost, "/mutate", s)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(announced)
	body, release, err := c.bodies.read(deadlineWriter{httptest.NewRecorder(), s}, r)
	if err == nil {
		time.Sleep(reviewed)
		if len(body) != s.size {
			c.t.Errorf("%d bytes of %d are read", len(body), s.size)
		}
	}
	c.holds(s, 0)
	release()
	return err
}

// Whatever clients announce, send, trickle and leave unfinished, the bodies that are admitted
// have no more memory than there is, and small reviews get through: an API server, which tries ten
// times, tries three times at most.
func TestBodiesNeverHaveMoreMemoryThanThereIs(t *testing.T) {
	tries := map[int]int{}
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 22))
				c := &crowd{t: t, small: 8 * smallBody, rest: 2 << 20}
				c.bodies = newBodies(c.small, c.rest)
				var all sync.WaitGroup
				var mu sync.Mutex
				for range 20 + random.IntN(80) {
					kind, most, reviewed := random.IntN(5), int(c.rest), time.Duration(random.IntN(50))*time.Millisecond
					if random.IntN(2) == 0 {
						most = 2 * smallBody
					}
					s := &sender{size: 1 + random.IntN(most), stalls: true}
					s.portion = s.size
					announced := s.size + 1 + random.IntN(most)
					switch kind {
					case 0: // an ordinary review
						s = &sender{size: 1 + random.IntN(smallBody/2), portion: smallBody}
						announced = s.size
					case 1: // a large one
						s.stalls, announced = false, s.size
					case 2: // it trickles
						s.portion, s.pause = 1+random.IntN(8<<10), time.Duration(1+random.IntN(100))*time.Millisecond
					case 3: // it grows, and nobody knows how far
						s.size, announced = min(s.size, maxUnannounced), -1
						s.portion, s.pause = 1+random.IntN(64<<10), time.Duration(random.IntN(20))*time.Millisecond
					case 4: // it stalls
					}
					all.Go(func() {
						err := c.send(s, announced, reviewed)
						if kind != 0 {
							return
						}
						n := 1
						for ; err != nil && n < 3; n++ {
							time.Sleep(time.Second)
							err = c.send(&sender{size: s.size, portion: s.portion}, announced, reviewed)
						}
						if err != nil {
							t.Errorf("a review of %d bytes did not get through: %v", s.size, err)
						}
						mu.Lock()
						defer mu.Unlock()
						tries[n]++
					})
					if random.IntN(3) > 0 {
						time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
					}
				}
				all.Wait()
				if small, rest := c.bodies.free(); small != c.small || rest != c.rest {
					t.Errorf("%d of %d and %d of %d bytes are free in the end", small, c.small, rest, c.rest)
				}
			})
		})
	}
	t.Logf("small reviews by the times that they were sent: %v", tries)
}

// Each of ten slow bodies counts as slow a little later than the one before. A large body comes
// each time, and stalls, too, when all but its last byte has come.
func TestTenStallingClientsHaveNoMoreMemoryThanThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := MemoryFor(256<<20, 2)
		c := &crowd{t: t, small: memory.Bodies, rest: memory.LargeBodies}
		c.bodies = newBodies(c.small, c.rest)
		var all sync.WaitGroup
		for i := range 20 {
			s := &sender{size: smallBody + 1000, stalls: true}
			if i >= 10 {
				s.size = maxBody - 1
			}
			s.portion = s.size
			all.Go(func() { _ = c.send(s, s.size+1, 0) })
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
		t.Logf("a pool of %d MiB admitted %d MiB", c.rest>>20, c.most>>20)
	})
}

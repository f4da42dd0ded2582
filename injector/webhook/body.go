package webhook

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxObject bounds the JSON of an object that an API server sends. A request to it
	// has 3 MiB at most, and Go's encoding/json writes one byte, such as '<', as six.
	maxObject = 6 * 3 << 20
	// maxOldObject does the same for an object as it was: etcd stores 1.5 MiB at most.
	maxOldObject = 6 * 3 << 19
	// maxBody bounds a review: both objects, and a rest for the review itself.
	maxBody = maxObject + maxOldObject + 1<<20
	// maxUnannounced bounds a body without a Content-Length. API servers always send one.
	maxUnannounced = 1 << 20
	// smallBody is the part of each body that counts as small: all of an ordinary
	// review, of a few KiB.
	smallBody = 64 << 10
	// A body whose sender is slow gives way where others need its memory: later than
	// slowStart, with less than slowRate bytes a second since, or with nothing for slowPause.
	// An API server sends a review in one go.
	slowStart = 100 * time.Millisecond
	slowRate  = 1 << 20
	slowPause = time.Second
	// A body waits for memory for patience at most. By then a small body whose sender has
	// stopped is slow. It looks for slow ones every slowCheck.
	patience  = 250 * time.Millisecond
	slowCheck = 20 * time.Millisecond
)

// errTooMuch means that the bodies being read have used up their memory.
var errTooMuch = errors.New("the reviews being read hold as much memory as they may")

// bodies bounds the memory of the bodies of reviews, from their first byte to their
// answer. Small bodies, and the first part of each other, have memory of their own.
// Where memory runs out, bodies whose senders are slow are given up, and others wait until
// that memory is back.
type bodies struct{ small, rest pool }

func newBodies(small, rest int64) *bodies {
	return &bodies{small: newPool(small), rest: newPool(rest)}
}

// free returns how many bytes no body holds.
func (b *bodies) free() (small, rest int64) { return b.small.left(), b.rest.left() }

// read reads a review's body. The caller calls release when it is done with the body,
// also after an error. An error is a [MalformedError] or an unavailableError.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	release = func() {}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, release, malformed(http.StatusMethodNotAllowed, "method %s; allowed is POST", r.Method)
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, release, malformed(http.StatusUnsupportedMediaType, "content type %q; allowed is application/json", r.Header.Get("Content-Type"))
	}
	reader := &bodyReader{bodies: b, from: r.Body, declared: r.ContentLength, stop: http.NewResponseController(w).SetReadDeadline, slow: time.Now().Add(slowStart)}
	defer reader.done()
	release = reader.release
	if reader.declared > maxBody {
		return nil, release, reader.tooLong()
	}
	body, err = reader.readAll()
	var malformed *MalformedError
	switch {
	case errors.Is(err, errTooMuch):
		return nil, release, &unavailableError{err}
	case errors.As(err, &malformed):
		return nil, release, err
	case err != nil:
		return nil, release, Malformed("reading the body: %v", err)
	}
	return body, release, nil
}

// isJSON reports whether a content type is that of JSON.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true // as API servers write it
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// pooledBody is the size of the memory that bodies of ordinary reviews use one after the
// other. Nothing that a review leaves behind shares it.
const pooledBody = 4 << 10

var pooledBodies = sync.Pool{New: func() any { return new([pooledBody]byte) }}

// bodyReader reads one body and holds the memory for it.
type bodyReader struct {
	bodies   *bodies
	from     io.Reader
	declared int64 // the Content-Length, or -1
	stop     func(time.Time) error

	buffer []byte
	// pooled is the memory of the first buffer, nil if it is not from the pool.
	pooled      *[pooledBody]byte
	small, rest int64 // what it holds of each pool

	mu sync.Mutex
	// slow is when its sender counts as slow unless more comes.
	slow time.Time
	// waits says that it waits for memory. Its sender is not slow then.
	waits, evicted bool
}

func (r *bodyReader) most() int {
	if r.declared < 0 {
		return maxUnannounced
	}
	return maxBody
}

func (r *bodyReader) tooLong() error {
	if r.declared < 0 {
		return malformed(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes, and has no Content-Length", r.most())
	}
	return malformed(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes, which is more than an API server sends", r.most())
}

// readAll reads to the end.
func (r *bodyReader) readAll() ([]byte, error) {
	if err := r.grow(4 << 10); err != nil {
		return nil, err
	}
	for {
		if len(r.buffer) == cap(r.buffer) {
			if err := r.grow(2 * cap(r.buffer)); err != nil {
				return nil, err
			}
		}
		n, err := r.from.Read(r.buffer[len(r.buffer):cap(r.buffer)])
		r.buffer = r.buffer[:len(r.buffer)+n]
		switch {
		case len(r.buffer) > r.most():
			return nil, r.tooLong()
		case errors.Is(err, io.EOF):
			return r.buffer, nil
		case err != nil && r.wasEvicted():
			return nil, errTooMuch
		case err != nil:
			return nil, err
		}
		r.moved(n)
	}
}

// grow makes room for size bytes, and never for more than the body can have. A small
// body's buffer grows with the bytes that have come. That of a large body gets the
// announced size at once: the pool has no room for a second one while it is copied.
func (r *bodyReader) grow(size int) error {
	if r.declared >= 0 {
		whole := max(int(r.declared), len(r.buffer)) + 1 // one more, to see the end
		if size = min(size, whole); size > smallBody {
			size = whole
		}
	}
	size = min(size, r.most()+1)
	if r.buffer == nil && size <= pooledBody {
		r.pooled = pooledBodies.Get().(*[pooledBody]byte)
	}
	held := r.small + r.rest
	small, rest := min(int64(size), smallBody), max(int64(size)-smallBody, 0)
	// The old buffer is held until it has been copied.
	if err := r.bodies.small.take(r, small); err != nil {
		return err
	}
	r.small += small
	if err := r.bodies.rest.take(r, rest); err != nil {
		return err
	}
	r.rest += rest
	if r.buffer == nil && r.pooled != nil {
		r.buffer = r.pooled[:0:size]
		return nil
	}
	grown := make([]byte, len(r.buffer), size)
	copy(grown, r.buffer)
	r.buffer = grown
	r.unpool()
	if held > 0 {
		r.bodies.small.give(min(held, smallBody))
		r.bodies.rest.give(max(held-smallBody, 0))
		r.small, r.rest = small, rest
	}
	return nil
}

// moved notes that bytes have come.
func (r *bodyReader) moved(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = r.slow.Add(time.Duration(bytes) * time.Second / slowRate)
	if latest := time.Now().Add(slowPause); r.slow.After(latest) {
		r.slow = latest
	}
}

func (r *bodyReader) wasEvicted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.evicted
}

// done says that nothing more is read: the body can no longer be evicted.
func (r *bodyReader) done() {
	r.bodies.small.forget(r)
	r.bodies.rest.forget(r)
}

func (r *bodyReader) release() {
	r.buffer = nil
	r.unpool()
	r.bodies.small.give(r.small)
	r.bodies.rest.give(r.rest)
	r.small, r.rest = 0, 0
}

func (r *bodyReader) unpool() {
	if r.pooled != nil {
		pooledBodies.Put(r.pooled)
		r.pooled = nil
	}
}

// wait notes that the body waits for memory, and returns what ends that. It reports false if
// the body was given up.
func (r *bodyReader) wait() (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := time.Now()
	r.waits = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waits, r.slow = false, r.slow.Add(time.Since(since))
	}, !r.evicted
}

// evict ends the reading if its sender is slow.
func (r *bodyReader) evict(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.evicted || r.waits || now.Before(r.slow) {
		return
	}
	r.evicted = r.stop(time.Unix(1, 0)) == nil
}

// pool is memory that bodies share, in bytes. It never gives more than it has.
type pool struct {
	mu         sync.Mutex
	size, free int64
	readers    map[*bodyReader]struct{} // those that hold some and still read
	waiting    []*claim                 // in the order in which they get memory
}

// claim is memory that a body waits for.
type claim struct {
	bytes   int64
	granted chan struct{} // closed when the body has it
}

func newPool(bytes int64) pool {
	return pool{size: bytes, free: bytes, readers: map[*bodyReader]struct{}{}}
}

func (p *pool) left() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// take takes memory. Where there is none left, bodies whose senders are slow are given
// up, and the body waits for the memory of these and of others.
func (p *pool) take(r *bodyReader, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 && p.free >= bytes {
		p.free -= bytes
	} else if !p.wait(r, bytes) {
		return errTooMuch
	}
	p.readers[r] = struct{}{}
	return nil
}

// wait reports whether a body got memory in time. The caller has locked the pool, which is open
// while the body waits.
func (p *pool) wait(r *bodyReader, bytes int64) bool {
	if bytes > p.size {
		return false
	}
	end, ok := r.wait()
	defer end()
	if !ok {
		return false
	}
	c := &claim{bytes: bytes, granted: make(chan struct{})}
	p.waiting = append(p.waiting, c)
	check := time.NewTicker(slowCheck)
	defer check.Stop()
	for last := time.Now().Add(patience); ; {
		if p.waiting[0] == c {
			p.evict()
		}
		p.mu.Unlock()
		select {
		case <-c.granted:
		case <-check.C:
		}
		p.mu.Lock()
		i := slices.Index(p.waiting, c)
		if i < 0 {
			return true
		}
		if time.Now().After(last) {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			p.serve()
			return false
		}
	}
}

// serve gives memory to those that wait, in their order: a large body is not kept waiting by
// small ones that come after it.
func (p *pool) serve() {
	for len(p.waiting) > 0 && p.free >= p.waiting[0].bytes {
		p.free -= p.waiting[0].bytes
		close(p.waiting[0].granted)
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

func (p *pool) give(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += bytes
	p.serve()
}

func (p *pool) forget(r *bodyReader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers, r)
}

// evict ends the reading of all bodies whose senders are slow.
func (p *pool) evict() {
	now := time.Now()
	for r := range p.readers {
		r.evict(now)
	}
}

package webhook

import (
	"errors"
	"io"
	"mime"
	"net/http"
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
	// slowStart, with less than slowRate bytes a second since. An API server sends a
	// review in one go.
	slowStart = 100 * time.Millisecond
	slowRate  = 1 << 20
)

// errTooMuch means that the bodies being read have used up their memory.
var errTooMuch = errors.New("the reviews being read hold as much memory as they may")

// bodies bounds the memory of the bodies of reviews, from their first byte to their
// answer. Small bodies, and the first part of each other, have memory of their own.
// Where memory runs out, bodies whose senders are slow are given up.
type bodies struct{ small, rest pool }

func newBodies(small, rest int64) *bodies {
	return &bodies{small: pool{free: small, readers: map[*bodyReader]struct{}{}}, rest: pool{free: rest, readers: map[*bodyReader]struct{}{}}}
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
	reader := &bodyReader{bodies: b, from: r.Body, declared: r.ContentLength, stop: http.NewResponseController(w).SetReadDeadline}
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

	mu       sync.Mutex
	began    time.Time
	received int64
	evicted  bool
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
	r.moved(0)
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
	if held > 0 {
		r.bodies.small.give(min(held, smallBody))
		r.bodies.rest.give(max(held-smallBody, 0))
		r.small, r.rest = small, rest
	}
	return nil
}

func (r *bodyReader) moved(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = time.Now()
	}
	r.received += int64(bytes)
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
	r.bodies.small.give(r.small)
	r.bodies.rest.give(r.rest)
	r.small, r.rest, r.buffer = 0, 0, nil
	if r.pooled != nil {
		pooledBodies.Put(r.pooled)
		r.pooled = nil
	}
}

// evict ends the reading if its sender is slow, and reports whether it has.
func (r *bodyReader) evict(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	allowed := slowStart + time.Duration(r.received)*time.Second/slowRate
	if r.evicted || now.Sub(r.began) < allowed {
		return false
	}
	r.evicted = r.stop(time.Unix(1, 0)) == nil
	return r.evicted
}

// pool is memory that bodies share, in bytes.
type pool struct {
	mu      sync.Mutex
	free    int64
	readers map[*bodyReader]struct{} // those that hold some and still read
}

func (p *pool) left() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// take takes memory. Where there is none left, bodies whose senders are slow are given
// up. Their memory comes back a moment later, and is overdrawn until then.
func (p *pool) take(r *bodyReader, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free < bytes && !p.evict(r) {
		return errTooMuch
	}
	p.free -= bytes
	p.readers[r] = struct{}{}
	return nil
}

func (p *pool) give(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += bytes
}

func (p *pool) forget(r *bodyReader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers, r)
}

// evict ends the reading of all bodies whose senders are slow, and reports whether there
// was one.
func (p *pool) evict(but *bodyReader) (any bool) {
	now := time.Now()
	for r := range p.readers {
		if r != but && r.evict(now) {
			any = true
		}
	}
	return any
}

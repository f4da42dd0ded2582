package webhook

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxObject bounds the JSON of an object that an API server sends. A request to it
	// has 3 MiB at most, and Go's encoding/json writes one byte, such as '<', as six.
	maxObject = 6 * 3 << 20
	// maxOldObject does the same for an object as it was: etcd stores 1.5 MiB at most.
	maxOldObject = 6 * 3 << 19
	// maxBody bounds a review: both objects, and a rest for the review itself.
	maxBody = maxObject + maxOldObject + 1<<20
	// ordinaryBody is the size up to which a body is read without waiting. Each connection has
	// one at most.
	ordinaryBody = 16 << 10
	// bodyWait is how long a larger body waits for memory.
	bodyWait = 250 * time.Millisecond
	// A larger body has to arrive within bodyTime plus its size divided by bodyRate (bytes a
	// second), because other bodies may wait for its memory. An API server sends a review
	// without a pause.
	bodyTime = time.Second
	bodyRate = 4 << 20
)

var (
	// errTooMuch means that the bodies being read have used up their memory.
	errTooMuch = errors.New("the reviews being read use all of the memory for bodies")
	// errTooSlow means that a body did not arrive in time. The API server tries again.
	errTooSlow = errors.New("the review came too slowly")
)

// bodies bounds the memory of the larger bodies of reviews, from their first byte to their answer.
type bodies struct {
	size int64
	all  *semaphore.Weighted
}

func newBodies(size int64) *bodies { return &bodies{size, semaphore.NewWeighted(size)} }

// read reads a review's body. The caller calls release when it does not need the body any
// more, also after an error. The error is a [MalformedError] or an [unavailableError].
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	release = func() {}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, release, malformed(http.StatusMethodNotAllowed, "method %s; allowed is POST", r.Method)
	}
	contentType := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(contentType); contentType != "application/json" && (err != nil || media != "application/json") {
		return nil, release, malformed(http.StatusUnsupportedMediaType, "content type %q; allowed is application/json", contentType)
	}
	size := r.ContentLength
	switch {
	case size < 0: // API servers always send one
		return nil, release, malformed(http.StatusLengthRequired, "the request has no Content-Length")
	case size > maxBody:
		return nil, release, malformed(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes, which is more than an API server sends", maxBody)
	case size > ordinaryBody:
		if release, err = b.acquire(r.Context(), size); err != nil {
			return nil, func() {}, err
		}
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Now().Add(bodyTime + time.Duration(size)*time.Second/bodyRate))
		defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	}
	body = make([]byte, size)
	switch _, err = io.ReadFull(r.Body, body); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, release, &unavailableError{errTooSlow}
	case err != nil:
		return nil, release, Malformed("reading the body: %v", err)
	}
	return body, release, nil
}

// acquire waits up to bodyWait for the memory of a body. After that, the API server tries again.
func (b *bodies) acquire(ctx context.Context, size int64) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, bodyWait)
	defer cancel()
	if err := b.all.Acquire(ctx, size); err != nil {
		return nil, &unavailableError{errTooMuch}
	}
	return func() { b.all.Release(size) }, nil
}

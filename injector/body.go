package injector

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
)

const (
	// maxBody bounds a review's size in bytes: etcd's limit of 1.5 MiB for an
	// object, twice (object and oldObject), as JSON that may be twice as large as
	// what is stored, and a rest for the review itself.
	maxBody = 7 << 20
	// freeBody is how much of each body is not counted. Ordinary reviews, of a few
	// KiB, pass whatever others send.
	freeBody = 64 << 10
	// maxBodies bounds what all bodies hold beyond freeBody, in bytes.
	maxBodies = 16 << 20
)

// errTooMuch means that the bodies being read have used up their memory.
var errTooMuch = errors.New("the reviews being read hold as much memory as they may")

// bodies counts the memory of the bodies being read and answered.
type bodies struct{ held atomic.Int64 }

// read reads a review's body. The caller gives back with release, also after an
// error. The status is that of the answer to an error.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), status int, err error) {
	release = func() {}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, release, http.StatusMethodNotAllowed, fmt.Errorf("method %s; allowed is POST", printable(r.Method))
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, release, http.StatusUnsupportedMediaType, fmt.Errorf("content type %q; allowed is application/json", printable(r.Header.Get("Content-Type")))
	}
	counted := &countedReader{from: http.MaxBytesReader(w, r.Body, maxBody), bodies: b}
	release = func() { b.held.Add(-counted.held) }
	body, err = io.ReadAll(counted)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, release, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, errTooMuch):
		return nil, release, http.StatusServiceUnavailable, err
	case err != nil:
		return nil, release, http.StatusBadRequest, fmt.Errorf("reading the body: %w", err)
	}
	return body, release, 0, nil
}

// countedReader charges what it reads beyond freeBody.
type countedReader struct {
	from       io.Reader
	bodies     *bodies
	read, held int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read += int64(n)
	if over := c.read - freeBody - c.held; over > 0 {
		c.held += over
		if c.bodies.held.Add(over) > maxBodies {
			return n, errTooMuch
		}
	}
	return n, err
}

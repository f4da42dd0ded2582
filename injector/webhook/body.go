package webhook

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
)

const (
	// maxBody bounds a review's size in bytes: etcd's limit of 1.5 MiB for an
	// object, twice (object and oldObject), as JSON that may be twice as large as
	// the stored form, and a rest for the review itself.
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

// read reads a review's body. The caller calls release when it is done with the body,
// also after an error. An error is a [MalformedError] or an unavailableError.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	release = func() {}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, release, malformed(http.StatusMethodNotAllowed, "method %s; allowed is POST", r.Method)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, release, malformed(http.StatusUnsupportedMediaType, "content type %q; allowed is application/json", r.Header.Get("Content-Type"))
	}
	counted := &countedReader{from: http.MaxBytesReader(w, r.Body, maxBody), bodies: b}
	release = func() { b.held.Add(-counted.held) }
	body, err = io.ReadAll(counted)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, release, malformed(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, errTooMuch):
		return nil, release, &unavailableError{err}
	case err != nil:
		return nil, release, Malformed("reading the body: %v", err)
	}
	return body, release, nil
}

// countedReader charges the bytes that it reads beyond freeBody.
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

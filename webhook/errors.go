package webhook

import (
	"fmt"
	"net/http"
)

// MalformedError is a mistake in a review, or in the HTTP request that brings it.
// Its text goes into the answer.
type MalformedError struct {
	// status is the HTTP status of the answer.
	status int
	text   string
}

// Malformed returns a [MalformedError] that is answered with HTTP 400.
func Malformed(format string, args ...any) error {
	return malformed(http.StatusBadRequest, format, args...)
}

func malformed(status int, format string, args ...any) error {
	return &MalformedError{status: status, text: fmt.Sprintf(format, args...)}
}

func (e *MalformedError) Error() string { return e.text }

// unavailableError is the reason why a review cannot be answered now.
type unavailableError struct{ why error }

func (e *unavailableError) Error() string { return "pillion cannot answer now: " + e.why.Error() }

// panicError is a panic on the way to an answer.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

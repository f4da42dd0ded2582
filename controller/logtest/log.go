// Package logtest has the log of a test: it can be read while others write to it.
//
// In: lines of a log. Out: their text. Imports: nothing of this module; only tests import it.
package logtest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Log is a buffer for the log of a test. The zero Log is empty. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often a text was written.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// Logger returns a logger that writes to the log, as lines of text.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

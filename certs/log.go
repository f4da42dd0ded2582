package certs

import (
	"context"
	"log/slog"
)

// quiet passes errors and warnings of libraries on as they are, and everything
// else as debug messages: cert-manager and client-go report as information what
// only matters to someone who looks for a fault in them.
type quiet struct {
	slog.Handler
}

// Enabled follows slog.Handler, for the level at which the record will be written.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, demoted(level))
}

// Handle follows slog.Handler.
func (q quiet) Handle(ctx context.Context, record slog.Record) error {
	record.Level = demoted(record.Level)
	return q.Handler.Handle(ctx, record)
}

// WithAttrs follows slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs)}
}

// WithGroup follows slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name)}
}

func demoted(level slog.Level) slog.Level {
	if level >= slog.LevelWarn {
		return level
	}
	return min(level, slog.LevelDebug)
}

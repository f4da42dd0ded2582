package certs

import (
	"context"
	"crypto/x509"
	"log/slog"
	"sync/atomic"
	"time"
)

// trustLog logs every change of the trusted CAs, with fingerprint and reason. Only the loop
// uses it.
type trustLog struct {
	log *slog.Logger

	// origin is where CAs come from that this replica did not make: the Secret, or the
	// caBundle that somebody else writes.
	origin string

	// known are the CAs at the last call.
	known []trusted

	// made are the CAs that this replica made, and count is their number.
	made  map[Fingerprint]bool
	count atomic.Int64

	// begun reports whether there have been trusted CAs before.
	begun bool
}

// own notes that this replica made a CA.
func (l *trustLog) own(c *ca) {
	l.made[FingerprintOf(c.cert)] = true
	l.count.Add(1)
}

// note compares the trusted CAs with those of the last call. What this replica does by
// itself is information; what somebody else has done is a warning.
func (l *trustLog) note(a authorities, now time.Time) {
	all := a.all()
	for _, ca := range all {
		switch {
		case contains(l.known, ca.cert):
		case l.made[FingerprintOf(ca.cert)]:
			l.line(slog.LevelInfo, "a CA is trusted", ca.cert, "made by this replica")
		case !l.begun:
			l.line(slog.LevelInfo, "a CA is trusted", ca.cert, l.origin)
		default:
			l.line(slog.LevelWarn, "a CA is trusted", ca.cert, l.origin)
		}
	}
	for _, ca := range l.known {
		switch {
		case contains(all, ca.cert):
		case a.revoked.has(ca.cert):
			l.line(slog.LevelWarn, "a CA is trusted no more", ca.cert, "revocation")
		case !ca.until.IsZero() && !now.Before(ca.until) || expired(ca.cert, now):
			l.line(slog.LevelInfo, "a CA is trusted no more", ca.cert, "its time is over")
		default:
			l.line(slog.LevelWarn, "a CA is trusted no more", ca.cert, l.origin)
		}
	}
	l.known, l.begun = all, l.begun || len(all) > 0
}

func (l *trustLog) line(level slog.Level, message string, cert *x509.Certificate, source string) {
	l.log.Log(context.Background(), level, message, "fingerprint", FingerprintOf(cert), "source", source, "subject", cert.Subject.String(), "ends", timestamp(cert.NotAfter))
}

package certs

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"
)

// trust is what a provider knows of the CAs that API servers trust.
type trust struct {
	// origin is where the CAs come from: the Secret, or the caBundle that somebody else
	// writes.
	origin string

	// signing is the CA that signs, next the staged one; nil if there is none.
	signing, next *x509.Certificate

	// cas are all CAs of the bundle.
	cas []trusted

	// revoked are the revoked CAs. Some of them may be in cas for a moment.
	revoked revocations
}

// The origins of trusted CAs, in the log.
const (
	fromSecret   = "secret"
	fromCABundle = "caBundle"
	fromOwnCA    = "made by this replica"
	byRevocation = "revocation"
	byItsEnd     = "it has expired"
)

// trust returns what the Secret says.
func (a authorities) trust() trust {
	t := trust{origin: fromSecret, revoked: a.revoked}
	if a.current == nil {
		return t
	}
	t.signing = a.current.cert
	t.cas = append(t.cas, trusted{cert: t.signing})
	if a.next != nil {
		t.next = a.next.cert
		t.cas = append(t.cas, trusted{cert: t.next})
	}
	t.add(a.trusted)
	return t
}

// add adds the CAs that are not in the list yet.
func (t *trust) add(list []trusted) {
	for _, ca := range list {
		if !contains(t.cas, ca.cert) {
			t.cas = append(t.cas, ca)
		}
	}
}

// publishedTrust returns the CAs of all caBundles, for a provider that does not write them.
// l is the provider's leaf, nil while there is none.
func (v *verifier) publishedTrust(l *leaf) trust {
	t := trust{origin: fromCABundle}
	for _, c := range v.configurations {
		if r, ok := c.get(); ok {
			for _, e := range r.entries {
				t.add(parseTrusted(e.caBundle))
			}
		}
	}
	if l != nil {
		t.signing = anchor(l, t.cas)
	}
	return t
}

// authorities returns the trust for Status.
func (t trust) authorities() []Authority {
	var list []Authority
	for _, ca := range t.cas {
		a := Authority{FingerprintOf(ca.cert), TrustedAuthority, ca.until}
		if a.Until.IsZero() {
			a.Until = ca.cert.NotAfter
		}
		switch {
		case t.revoked.leaves(ca.cert):
			continue
		case t.signing != nil && t.signing.Equal(ca.cert):
			a.State = SigningAuthority
		case t.next != nil && t.next.Equal(ca.cert):
			a.State = NextAuthority
		}
		list = append(list, a)
	}
	for _, r := range t.revoked {
		list = append(list, Authority{r.fingerprint, RevokedAuthority, r.from})
	}
	return list
}

// trustLog logs every change of the trusted CAs, with fingerprint and reason. Only the loop
// uses it.
type trustLog struct {
	log *slog.Logger

	// known are the CAs at the last call.
	known []trusted

	// made are the CAs that this replica made.
	made map[Fingerprint]bool

	// begun reports whether there have been trusted CAs before.
	begun bool
}

// note compares the trusted CAs with those of the last call. What this replica does by
// itself is information; what somebody else has done is a warning.
func (l *trustLog) note(t trust, now time.Time) {
	for _, ca := range t.cas {
		if contains(l.known, ca.cert) {
			continue
		}
		level, source := slog.LevelWarn, t.origin
		switch {
		case l.made[FingerprintOf(ca.cert)]:
			level, source = slog.LevelInfo, fromOwnCA
		case !l.begun:
			level = slog.LevelInfo
		}
		l.line(level, "a CA is trusted", ca.cert, source)
	}
	for _, ca := range l.known {
		if contains(t.cas, ca.cert) {
			continue
		}
		level, source := slog.LevelWarn, t.origin
		switch {
		case t.revoked.leaves(ca.cert):
			source = byRevocation
		case !ca.until.IsZero() && !now.Before(ca.until) || expired(ca.cert, now):
			level, source = slog.LevelInfo, byItsEnd
		}
		l.line(level, "a CA is no longer trusted", ca.cert, source)
	}
	l.known, l.begun = t.cas, l.begun || len(t.cas) > 0
}

func (l *trustLog) line(level slog.Level, message string, cert *x509.Certificate, source string) {
	l.log.Log(context.Background(), level, message, "fingerprint", FingerprintOf(cert), "source", source, "subject", cert.Subject.String(), "ends", timestamp(cert.NotAfter))
}

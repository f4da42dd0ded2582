package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// secretRevokedKey holds the revoked CAs: a line each with the fingerprint and, once a
// replica has seen the line, the time from which no caBundle has the CA.
const secretRevokedKey = "revoked"

// maxRevoked bounds the list of revoked CAs.
const maxRevoked = 100

const (
	// revokedGrace is how long a revoked CA stays published if it is the CA that signs:
	// so long the replicas have to serve leaves of another CA.
	revokedGrace = 4 * time.Second

	// revokedSettle is the settling time of the CA that takes over from a revoked CA.
	revokedSettle = time.Second
)

// revocation is one revoked CA.
type revocation struct {
	fingerprint Fingerprint

	// from is the time from which the CA is trusted no more. It is zero until a replica
	// has decided: then the CA is trusted only where it is the CA that signs.
	from time.Time
}

// revocations is the list of revoked CAs. It holds each CA once.
type revocations []revocation

// parseRevocations reads the list. Lines that are not revocations are left out, and so is
// what is more than maxRevoked: the error names them, and the list is good all the same.
func parseRevocations(data []byte) (revocations, error) {
	var list revocations
	var wrong []error
	number := 0
	for line := range bytes.Lines(data) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		if len(list) == maxRevoked {
			wrong = append(wrong, fmt.Errorf("more than %d revoked CAs: those from line %d on are ignored", maxRevoked, number))
			break
		}
		r, err := parseRevocation(fields)
		if err != nil {
			if len(wrong) < 3 {
				wrong = append(wrong, fmt.Errorf("line %d is ignored: %w", number, err))
			}
			continue
		}
		list = list.with(r)
	}
	return list, errors.Join(wrong...)
}

// parseRevocation reads the fields of one line.
func parseRevocation(fields []string) (revocation, error) {
	fingerprint, err := ParseFingerprint(fields[0])
	if err != nil {
		return revocation{}, errors.New("it does not begin with a SHA-256 fingerprint")
	}
	r := revocation{fingerprint: fingerprint}
	if len(fields) > 1 {
		if r.from, err = time.Parse(time.RFC3339, fields[1]); err != nil || len(fields) > 2 {
			return revocation{}, errors.New("after the fingerprint there may be one time, such as 2006-01-02T15:04:05Z")
		}
	}
	return r, nil
}

// encode is the inverse of parseRevocations.
func (l revocations) encode() []byte {
	var out bytes.Buffer
	for _, r := range l {
		out.WriteString(r.fingerprint.String())
		if !r.from.IsZero() {
			out.WriteString(" " + r.from.UTC().Format(time.RFC3339))
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// with returns the list with one more revocation. Of two revocations of one CA the earlier
// counts. A full list stays as it is: all replicas must read the same from one Secret.
func (l revocations) with(r revocation) revocations {
	for i, known := range l {
		if known.fingerprint != r.fingerprint {
			continue
		}
		if r.from.IsZero() || !known.from.IsZero() && !r.from.Before(known.from) {
			return l
		}
		out := append(revocations{}, l...)
		out[i].from = r.from
		return out
	}
	if len(l) == maxRevoked {
		return l
	}
	return append(l[:len(l):len(l)], r)
}

// union returns the list with all revocations of the other list.
func (l revocations) union(other revocations) revocations {
	for _, r := range other {
		l = l.with(r)
	}
	return l
}

// of returns the revocation of a CA, nil if the CA is not revoked.
func (l revocations) of(cert *x509.Certificate) *revocation {
	if cert == nil || len(l) == 0 {
		return nil
	}
	fingerprint := FingerprintOf(cert)
	for i := range l {
		if l[i].fingerprint == fingerprint {
			return &l[i]
		}
	}
	return nil
}

// leaves reports whether the CA is revoked, whether or not it is published still.
func (l revocations) leaves(cert *x509.Certificate) bool { return l.of(cert) != nil }

// denySigning reports whether the CA may not sign any more, and no caBundle may have it. A
// CA that signs stays until a replica has decided when it goes.
func (l revocations) denySigning(cert *x509.Certificate, now time.Time) bool {
	r := l.of(cert)
	return r != nil && !r.from.IsZero() && !now.Before(r.from)
}

// decided returns the list with a time for each CA. signing is the CA that signed until
// now, or nil: it gets the time that the replicas need to serve leaves of another CA. No
// time is further away than that, whatever the Secret says.
func (l revocations) decided(signing *x509.Certificate, now time.Time) revocations {
	out := append(revocations{}, l...)
	last := now.Add(revokedGrace).Truncate(time.Second)
	for i, r := range out {
		switch {
		case r.from.IsZero() && (signing == nil || FingerprintOf(signing) != r.fingerprint):
			out[i].from = now.Truncate(time.Second)
		case r.from.IsZero() || r.from.After(last.Add(time.Second)):
			out[i].from = last
		}
	}
	return out
}

// permitted returns the trusted CAs without the revoked ones. A revoked CA for which the time
// has not come gets that time as its end. One without a time does not sign, and goes at once.
func (l revocations) permitted(list []trusted, now time.Time) []trusted {
	if len(l) == 0 {
		return list
	}
	var out []trusted
	for _, t := range list {
		r := l.of(t.cert)
		if r != nil && !now.Before(r.from) {
			continue
		}
		if r != nil && (t.until.IsZero() || r.from.Before(t.until)) {
			t.until = r.from
		}
		out = append(out, t)
	}
	return out
}

package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// revocations are the revoked CAs, each with the time from which it is trusted no more. The
// time is zero until a replica has decided: then the CA is trusted only where it is the CA
// that signs.
type revocations map[Fingerprint]time.Time

// parseRevocations reads the list. Lines that are not revocations are left out, and so is
// what is more than maxRevoked: the error names them, and the list is good all the same.
func parseRevocations(data []byte) (revocations, error) {
	list := revocations{}
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
		fingerprint, from, err := parseRevocation(fields)
		if err != nil {
			if len(wrong) < 3 {
				wrong = append(wrong, fmt.Errorf("line %d is ignored: %w", number, err))
			}
			continue
		}
		list.add(fingerprint, from)
	}
	return list, errors.Join(wrong...)
}

// parseRevocation reads the fields of one line.
func parseRevocation(fields []string) (fingerprint Fingerprint, from time.Time, err error) {
	if fingerprint, err = ParseFingerprint(fields[0]); err != nil {
		return fingerprint, from, errors.New("it does not begin with a SHA-256 fingerprint")
	}
	if len(fields) > 1 {
		if from, err = time.Parse(time.RFC3339, fields[1]); err != nil || len(fields) > 2 {
			return fingerprint, from, errors.New("after the fingerprint there may be one time, such as 2006-01-02T15:04:05Z")
		}
	}
	return fingerprint, from, nil
}

// sorted returns the fingerprints in order.
func (l revocations) sorted() []Fingerprint {
	return slices.SortedFunc(maps.Keys(l), func(a, b Fingerprint) int { return bytes.Compare(a[:], b[:]) })
}

// encode is the inverse of parseRevocations.
func (l revocations) encode() []byte {
	var out bytes.Buffer
	for _, f := range l.sorted() {
		out.WriteString(f.String())
		if from := l[f]; !from.IsZero() {
			out.WriteString(" " + from.UTC().Format(time.RFC3339))
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// add adds a revocation. Of two revocations of one CA the earlier counts. A full list stays
// as it is: all replicas must read the same from one Secret.
func (l revocations) add(f Fingerprint, from time.Time) {
	known, ok := l[f]
	if !ok && len(l) < maxRevoked || ok && !from.IsZero() && (known.IsZero() || from.Before(known)) {
		l[f] = from
	}
}

// union returns the list with all revocations of the other list.
func (l revocations) union(other revocations) revocations {
	out := revocations{}
	maps.Copy(out, l)
	for _, f := range other.sorted() {
		out.add(f, other[f])
	}
	return out
}

// same reports whether both lists are the same.
func (l revocations) same(other revocations) bool { return maps.EqualFunc(l, other, time.Time.Equal) }

// has reports whether the CA is revoked, whether or not it is published still. It is false
// for nil.
func (l revocations) has(cert *x509.Certificate) bool {
	_, ok := l.of(cert)
	return ok
}

// of returns the time from which a revoked CA is trusted no more.
func (l revocations) of(cert *x509.Certificate) (from time.Time, revoked bool) {
	if cert == nil || len(l) == 0 {
		return time.Time{}, false
	}
	from, revoked = l[FingerprintOf(cert)]
	return from, revoked
}

// decided returns the list with a time for each CA. signing is the CA that signed until
// now, or nil: it gets the time that the replicas need to serve leaves of another CA. No
// time is further away than that, whatever the Secret says.
func (l revocations) decided(signing *x509.Certificate, now time.Time) revocations {
	out := revocations{}
	last := now.Add(revokedGrace).Truncate(time.Second)
	for f, from := range l {
		switch {
		case from.IsZero() && (signing == nil || FingerprintOf(signing) != f):
			from = now.Truncate(time.Second)
		case from.IsZero() || from.After(last.Add(time.Second)):
			from = last
		}
		out[f] = from
	}
	return out
}

// permitted returns the trusted CAs without the revoked ones. A revoked CA for which the time
// has not come gets that time as its end. One without a time does not sign, and goes at once.
func (l revocations) permitted(list []trusted, now time.Time) []trusted {
	var out []trusted
	for _, t := range list {
		from, revoked := l.of(t.cert)
		if revoked && !now.Before(from) {
			continue
		}
		if revoked && (t.until.IsZero() || from.Before(t.until)) {
			t.until = from
		}
		out = append(out, t)
	}
	return out
}

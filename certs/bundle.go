package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// pemCertificate is the PEM type of a certificate.
const pemCertificate = "CERTIFICATE"

// pemUntil is the PEM header with the time until which a replaced CA is trusted. The
// time is stored: if each replica computed it, replicas whose clocks differ would undo
// each other's bundle.
const pemUntil = "Trusted-Until"

// trusted is a CA of the bundle.
type trusted struct {
	cert *x509.Certificate

	// until is when a replaced CA is dropped; zero for the current CA.
	until time.Time
}

// parseTrusted reads CA certificates from PEM. Blocks that are not CA certificates are
// left out: only a person puts such text there, and one bad block must not cost the
// good ones.
func parseTrusted(data []byte) []trusted {
	var list []trusted
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			return list
		}
		if block.Type != pemCertificate {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA || contains(list, cert) {
			continue
		}
		list = append(list, trusted{cert: cert, until: parseUntil(block.Headers[pemUntil])})
	}
}

// parseUntil reads the time of a header. A header that is missing, that is not a time, or
// that has a time that cannot be written again means "not yet replaced": the zero time.
func parseUntil(header string) time.Time {
	until, err := time.Parse(time.RFC3339, header)
	if year := until.UTC().Year(); err != nil || year < 1 || year > 9999 {
		return time.Time{}
	}
	return until
}

// encodeTrusted is the inverse of parseTrusted.
func encodeTrusted(list []trusted) []byte {
	var out bytes.Buffer
	for _, t := range list {
		block := &pem.Block{Type: pemCertificate, Bytes: t.cert.Raw}
		if !t.until.IsZero() {
			block.Headers = map[string]string{pemUntil: t.until.UTC().Format(time.RFC3339)}
		}
		// Writing to a bytes.Buffer cannot fail, nor can these headers.
		_ = pem.Encode(&out, block)
	}
	return out.Bytes()
}

// terms are how long a CA that does not sign any more stays trusted.
type terms struct {
	// full is for a CA that was replaced when it was due. It lasts until no replica can use a
	// leaf of the CA any more, whether or not the replica reaches the API server.
	full time.Duration

	// brief is for unwanted CAs. A CA is unwanted if it was replaced before it was due, or if
	// it was a replaced CA of a Secret that was deleted. A replica that serves a leaf of such
	// a CA, and reaches the API server, extends the time while it does.
	brief time.Duration
}

// termsOf returns the terms for the options of a provider.
func termsOf(settle, leafDuration time.Duration) terms {
	settle = max(settle, 0)
	keep := settle + leafDuration + backdate(leafDuration)
	return terms{full: keep, brief: min(keep, settle+clockSkew)}
}

// remember returns the CAs that the Secret should remember, the current CA first.
//
// inUse is the CA of the valid leaf that this replica serves, or nil. Whatever somebody does
// to the Secret, that CA is remembered: otherwise API servers could not verify this replica
// until it serves another leaf.
//
// The CA that signed before has no end yet. An end never lies past the CA's own.
func remember(stored []trusted, current, inUse *x509.Certificate, now time.Time, t terms) []trusted {
	list := []trusted{{cert: current}}
	end := func(cert *x509.Certificate, after time.Duration) time.Time {
		return earlier(now.Add(after), cert.NotAfter).Truncate(time.Second)
	}
	if inUse != nil && !contains(stored, inUse) {
		stored = append(stored[:len(stored):len(stored)], trusted{inUse, end(inUse, t.brief)})
	}
	for _, s := range stored {
		if s.cert.Equal(current) {
			continue
		}
		switch {
		case s.until.IsZero() && due(s.cert, now):
			s.until = end(s.cert, t.full)
		case s.until.IsZero():
			s.until = end(s.cert, t.brief)
		case s.until.After(now.Add(t.full + clockSkew)): // no replica writes such a time
			s.until = end(s.cert, t.full)
		}
		if inUse != nil && s.cert.Equal(inUse) && s.until.Before(now.Add(t.brief/2)) {
			s.until = end(s.cert, t.brief)
		}
		if now.Before(s.until) {
			list = append(list, s)
		}
	}
	return latest(list)
}

// endingBy returns the list in which no replaced CA is trusted for longer than until.
func endingBy(list []trusted, until time.Time) []trusted {
	out := slices.Clone(list)
	for i, t := range out {
		if !t.until.IsZero() {
			out[i].until = earlier(t.until, until.Truncate(time.Second))
		}
	}
	return out
}

// maxTrusted bounds the bundle. A bundle that grew with every destroyed CA would at last
// be too large for the API server to store.
const maxTrusted = 20

// latest drops the replaced CAs that end first if the list is too long. The list begins
// with the current CA.
func latest(list []trusted) []trusted {
	for len(list) > maxTrusted {
		first := 1
		for i := range list[1:] {
			if list[i+1].until.Before(list[first].until) {
				first = i + 1
			}
		}
		list = slices.Delete(list, first, first+1)
	}
	return list
}

// bundle returns the text of a caBundle: the current CA, then the replaced ones. It reads
// no clock: the same Secret gives the same bytes on every replica.
func bundle(current *x509.Certificate, stored []trusted) []byte {
	list := []trusted{{cert: current}}
	for _, t := range stored {
		if !t.cert.Equal(current) {
			list = append(list, trusted{cert: t.cert})
		}
	}
	return encodeTrusted(list)
}

// contains reports whether the CA is in the list.
func contains(list []trusted, cert *x509.Certificate) bool {
	return slices.ContainsFunc(list, func(t trusted) bool { return t.cert.Equal(cert) })
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

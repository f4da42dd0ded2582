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

// remember returns the CAs that the Secret should remember, the current CA first. Every
// other CA stays for the time keep after it was replaced: until no leaf that it signed can
// be in use, on any replica, whether or not the replica reaches the API server. An end
// never lies past the CA's own.
//
// inUse is the CA of the valid leaf that this replica serves, or nil. Whatever somebody
// does to the Secret, that CA is remembered: otherwise API servers could not verify this
// replica until it serves another leaf.
func remember(stored []trusted, current, inUse *x509.Certificate, now time.Time, keep time.Duration) []trusted {
	if inUse != nil && !contains(stored, inUse) {
		stored = append(slices.Clone(stored), trusted{cert: inUse})
	}
	list := []trusted{{cert: current}}
	for _, s := range stored {
		if s.cert.Equal(current) {
			continue
		}
		used := inUse != nil && s.cert.Equal(inUse)
		// Nobody keeps a CA for longer than keep, and a CA in use has time left.
		if s.until.IsZero() || s.until.After(now.Add(keep+clockSkew)) || used && s.until.Before(now.Add(keep/2)) {
			s.until = earlier(now.Add(keep), s.cert.NotAfter).Truncate(time.Second)
		}
		if now.Before(s.until) {
			list = append(list, s)
		}
	}
	return latest(list)
}

// maxTrusted bounds the bundle. A bundle that grew with every destroyed CA would at last
// be too large for the API server to store.
const maxTrusted = 20

// latest drops the replaced CAs that end first if the list is too long. The list begins
// with the current CA.
func latest(list []trusted) []trusted {
	if len(list) <= maxTrusted {
		return list
	}
	slices.SortStableFunc(list[1:], func(a, b trusted) int { return b.until.Compare(a.until) })
	return list[:maxTrusted]
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

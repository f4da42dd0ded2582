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
		// A header that is missing or not a time means "not yet replaced".
		until, _ := time.Parse(time.RFC3339, block.Headers[pemUntil])
		list = append(list, trusted{cert: cert, until: until})
	}
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

// remember returns the CAs that the Secret should remember, the current CA first.
//
// inUse is the CA of the valid leaf that this replica serves, or nil. If the Secret does
// not know that CA, because somebody deleted or rewrote the Secret, it is added as a CA
// that was replaced just now: otherwise API servers could not verify this replica until
// it serves another leaf. A replaced CA is trusted for keep from the moment when a
// replica first finds it replaced, and never past its own end.
func remember(stored []trusted, current, inUse *x509.Certificate, now time.Time, keep time.Duration) []trusted {
	list := []trusted{{cert: current}}
	if inUse != nil && !contains(stored, inUse) {
		stored = append(stored[:len(stored):len(stored)], trusted{cert: inUse})
	}
	for _, t := range stored {
		if t.cert.Equal(current) {
			continue
		}
		if t.until.IsZero() {
			t.until = earlier(now.Add(keep), t.cert.NotAfter).Truncate(time.Second)
		}
		if now.Before(t.until) {
			list = append(list, t)
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
	for _, t := range list {
		if t.cert.Equal(cert) {
			return true
		}
	}
	return false
}

// trustDuration returns how long a replaced CA stays trusted: until no leaf that it
// signed can be in use, on any replica.
func trustDuration(settle, leafDuration time.Duration) time.Duration {
	return max(settle, 0) + leafDuration + backdate(leafDuration)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

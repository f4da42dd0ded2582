package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cert-manager/cert-manager/pkg/util/pki"
	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. The current CA is in the keys that cert-manager and other tools
// use: tls.crt and tls.key, and the certificate again in ca.crt.
const (
	secretCAKey = "ca.crt"

	// secretNextCertKey and secretNextKeyKey hold the staged CA.
	secretNextCertKey = "next-tls.crt"
	secretNextKeyKey  = "next-tls.key"

	// secretTrustedKey holds all CAs of the bundle except the staged one.
	secretTrustedKey = "trusted-ca.crt"
)

// authorities are the CAs of a Secret: the state of the hand-over.
type authorities struct {
	// current is the CA that signs; nil if the Secret has no sound CA. It has no key if
	// somebody else signs.
	current *ca

	// next is the staged CA; nil if there is none.
	next *ca

	// trusted are the CAs of the bundle except next. They include current.
	trusted []trusted

	// revoked are the CAs that the bundle must not have.
	revoked revocations
}

// readAuthorities reads the data of the self-signed provider's Secret. The error says why
// there is no current CA. The other CAs are read as far as they are sound.
func readAuthorities(data map[string][]byte) (authorities, error) {
	a := readState(data)
	if next, err := parseCA(data[secretNextCertKey], data[secretNextKeyKey]); err == nil {
		a.next = next
	}
	certPEM := data[corev1.TLSCertKey]
	if len(certPEM) == 0 {
		return a, fmt.Errorf("key %s is empty", corev1.TLSCertKey)
	}
	if !bytes.Equal(certPEM, data[secretCAKey]) {
		return a, fmt.Errorf("keys %s and %s differ", corev1.TLSCertKey, secretCAKey)
	}
	current, err := parseCA(certPEM, data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return a, fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	a.current = current
	return a, nil
}

// readState reads what every provider's Secret remembers: the replaced CAs and the revoked
// ones. What is wrong with the list of revoked CAs is the store's to report.
func readState(data map[string][]byte) authorities {
	revoked, _ := parseRevocations(data[secretRevokedKey])
	return authorities{trusted: parseTrusted(data[secretTrustedKey]), revoked: revoked}
}

// write puts the authorities into a copy of the Secret's data. Keys that are not
// Pillion's stay, and so do those of a current CA without a key.
func (a authorities) write(data map[string][]byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	maps.Copy(out, data)
	if a.current.key != nil {
		if err := writeCA(out, a.current, corev1.TLSCertKey, corev1.TLSPrivateKeyKey); err != nil {
			return nil, err
		}
		out[secretCAKey] = out[corev1.TLSCertKey]
		delete(out, secretNextCertKey)
		delete(out, secretNextKeyKey)
	}
	if a.next != nil {
		if err := writeCA(out, a.next, secretNextCertKey, secretNextKeyKey); err != nil {
			return nil, err
		}
	}
	out[secretTrustedKey] = encodeTrusted(a.trusted)
	writeRevocations(out, a.revoked)
	return out, nil
}

// writeRevocations writes the list of revoked CAs. It leaves the key alone if the key holds
// the list already, in whatever form.
func writeRevocations(data map[string][]byte, list revocations) {
	if stored, _ := parseRevocations(data[secretRevokedKey]); !stored.same(list) {
		data[secretRevokedKey] = list.encode()
	}
}

// writeCA writes a CA into two keys. It leaves the keys alone if they hold the CA
// already, in whatever encoding.
func writeCA(data map[string][]byte, c *ca, certKey, keyKey string) error {
	if stored, err := parseCA(data[certKey], data[keyKey]); err == nil && stored.cert.Equal(c.cert) {
		return nil
	}
	key, err := pki.EncodePKCS8PrivateKey(c.key)
	if err != nil {
		return fmt.Errorf("encoding the key of a CA: %w", err)
	}
	data[certKey] = encodeTrusted([]trusted{{cert: c.cert}})
	data[keyKey] = key
	return nil
}

// all returns the CAs that API servers trust, each once: the current one, the staged one,
// the others.
func (a authorities) all() []trusted {
	var list []trusted
	for _, own := range []*ca{a.current, a.next} {
		if own != nil {
			list = append(list, trusted{cert: own.cert})
		}
	}
	for _, t := range a.trusted {
		if !contains(list, t.cert) {
			list = append(list, t)
		}
	}
	return list
}

// bundle returns the text of a caBundle. It reads no clock: the same Secret gives the same
// bytes on every replica.
func (a authorities) bundle() []byte {
	list := a.all()
	for i := range list {
		list[i].until = time.Time{}
	}
	return encodeTrusted(list)
}

// states returns the state of each CA, for [Status].
func (a authorities) states() []Authority {
	var list []Authority
	for _, ca := range a.all() {
		state := Authority{FingerprintOf(ca.cert), TrustedAuthority, ca.until}
		if ca.until.IsZero() {
			state.Until = ca.cert.NotAfter
		}
		switch {
		case a.revoked.has(ca.cert): // it is in the bundle for a moment
			continue
		case a.current.is(ca.cert):
			state.State = SigningAuthority
		case a.next.is(ca.cert):
			state.State = NextAuthority
		}
		list = append(list, state)
	}
	for _, f := range a.revoked.sorted() {
		list = append(list, Authority{f, RevokedAuthority, a.revoked[f]})
	}
	return list
}

// completedBy adds the remembered CAs if the Secret remembers none: the Secret is new,
// or somebody emptied it. A Secret that remembers some CAs has dropped the others on
// purpose. A revoked CA stays revoked, whatever becomes of the Secret.
func (a authorities) completedBy(remembered authorities) authorities {
	a.revoked = a.revoked.union(remembered.revoked)
	if len(a.trusted) == 0 {
		a.trusted = remembered.trusted
	}
	return a
}

// permitted returns the authorities without the revoked CAs. A CA that signs stays until a
// replica has decided when it goes.
func (a authorities) permitted(now time.Time) authorities {
	if a.current != nil {
		if from, revoked := a.revoked.of(a.current.cert); revoked && !from.IsZero() && !now.Before(from) {
			a.current = nil
		}
	}
	if a.next != nil && a.revoked.has(a.next.cert) {
		a.next = nil
	}
	a.trusted = a.revoked.permitted(a.trusted, now)
	return a
}

// refuse returns the authorities without the revoked CAs, and with a time for each of these.
// signing is a CA whose leaves the replicas serve, or nil: if it is revoked, it stays trusted
// for the moment that they need to serve others.
func (a authorities) refuse(signing *x509.Certificate, now time.Time) authorities {
	a.revoked = a.revoked.decided(signing, now)
	if a.revoked.has(signing) && !contains(a.trusted, signing) {
		a.trusted = append(slices.Clone(a.trusted), trusted{cert: signing})
	}
	return a.permitted(now)
}

// remember returns the authorities with the CAs that they should remember; see the function
// remember.
func (a authorities) remember(inUse *x509.Certificate, now time.Time, keep time.Duration) authorities {
	a.trusted = remember(a.trusted, a.current.cert, a.permitting(inUse), now, keep)
	return a
}

// permitting returns the CA, nil if it is revoked.
func (a authorities) permitting(cert *x509.Certificate) *x509.Certificate {
	if a.revoked.has(cert) {
		return nil
	}
	return cert
}

// circumstances are the inputs of a step of the hand-over besides the Secret.
type circumstances struct {
	now time.Time

	// remembered are the CAs that the Secret held when it was last sound.
	remembered authorities

	// inUse is the CA of the valid leaf that this replica serves, or nil.
	inUse *x509.Certificate

	// settled reports whether this replica has seen a CA published in all
	// configurations for the settling time.
	settled func(*x509.Certificate) bool

	// keep is how long a replaced CA stays trusted.
	keep time.Duration

	// make makes a CA.
	make func() (*ca, error)
}

// step returns the CAs that the Secret should hold: the next state of the hand-over, or
// the same state. The package comment lists the states.
func (a authorities) step(c circumstances) (authorities, error) {
	last := c.remembered.current
	var signing *x509.Certificate
	if a.current != nil && sameCA(a.current, last) {
		signing = a.current.cert
	}
	next := a.completedBy(c.remembered).refuse(signing, c.now)
	revoked := a.current != nil && next.revoked.has(a.current.cert)
	if revoked {
		next.current = nil
	}
	if last != nil && (next.revoked.has(last.cert) || expired(last.cert, c.now)) {
		last = nil
	}
	var err error
	switch {
	case next.current == nil && !revoked && last != nil:
		// The Secret was deleted or damaged. Its CA is replaced in the usual steps,
		// not at once.
		next.current = last
		next.next, err = c.make()
	case revoked && last != nil:
		// Somebody put a revoked CA back. Another CA has taken over from it already.
		next.current = last
	case revoked && next.next != nil && !expired(next.next.cert, c.now):
		next.current, next.next = next.next, nil
	case next.current == nil || expired(next.current.cert, c.now) && (next.next == nil || expired(next.next.cert, c.now)):
		next.next = nil
		next.current, err = c.make()
	case next.next != nil && (c.settled(next.next.cert) || ending(next.current.cert, c.now)):
		next.current, next.next = next.next, nil
	case next.next == nil && due(next.current.cert, c.now):
		next.next, err = c.make()
	}
	if err != nil {
		return a, err
	}
	return next.remember(c.inUse, c.now, c.keep), nil
}

// same reports whether a and b hold the same CAs, so that nothing has to be written.
func (a authorities) same(b authorities) bool {
	return sameCA(a.current, b.current) && sameCA(a.next, b.next) &&
		bytes.Equal(encodeTrusted(a.trusted), encodeTrusted(b.trusted)) && a.revoked.same(b.revoked)
}

func sameCA(a, b *ca) bool {
	return a == nil && b == nil || a != nil && b.is(a.cert)
}

package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
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

// authorities are the CAs of the Secret: the state of the hand-over.
type authorities struct {
	// current is the CA that signs; nil if the Secret has no sound CA.
	current *ca

	// next is the staged CA, or nil.
	next *ca

	// trusted are the CAs of the bundle except next. They include current.
	trusted []trusted
}

// readAuthorities reads the Secret's data. The error says why there is no current CA.
// The other CAs are read as far as they are sound.
func readAuthorities(data map[string][]byte) (authorities, error) {
	a := authorities{trusted: parseTrusted(data[secretTrustedKey])}
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

// write puts the authorities into a copy of the Secret's data. Keys that are not
// Pillion's stay.
func (a authorities) write(data map[string][]byte) (map[string][]byte, error) {
	if a.current == nil {
		return nil, errors.New("there is no CA to write")
	}
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	if err := writeCA(out, a.current, corev1.TLSCertKey, corev1.TLSPrivateKeyKey); err != nil {
		return nil, err
	}
	out[secretCAKey] = out[corev1.TLSCertKey]
	delete(out, secretNextCertKey)
	delete(out, secretNextKeyKey)
	if a.next != nil {
		if err := writeCA(out, a.next, secretNextCertKey, secretNextKeyKey); err != nil {
			return nil, err
		}
	}
	out[secretTrustedKey] = encodeTrusted(a.trusted)
	return out, nil
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

// bundle returns the text of a caBundle: current, staged and replaced CAs. It reads no
// clock: the same Secret gives the same bytes on every replica.
func (a authorities) bundle() []byte {
	list := slices.Clone(a.trusted)
	if a.next != nil {
		list = append([]trusted{{cert: a.next.cert}}, list...)
	}
	return bundle(a.current.cert, list)
}

// trusts reports whether the CA is in the bundle.
func (a authorities) trusts(cert *x509.Certificate) bool {
	return a.current != nil && a.current.cert.Equal(cert) || a.next != nil && a.next.cert.Equal(cert) || contains(a.trusted, cert)
}

// completedBy adds the remembered CAs if the Secret remembers none: the Secret is new,
// or somebody emptied it. A Secret that remembers some CAs has dropped the others on
// purpose.
func (a authorities) completedBy(remembered authorities) authorities {
	if len(a.trusted) == 0 {
		a.trusted = remembered.trusted
	}
	return a
}

// circumstances are the inputs of a step of the hand-over besides the Secret.
type circumstances struct {
	now time.Time

	// remembered are the CAs that the Secret held when it was last sound.
	remembered authorities

	// inUse is the CA of the valid leaf that this replica serves, or nil.
	inUse *x509.Certificate

	// isSettled reports whether this replica has seen a CA published in all
	// configurations for the settling time.
	isSettled func(*x509.Certificate) bool

	// terms are how long a CA stays trusted that does not sign any more.
	terms terms

	// makeCA makes a CA.
	makeCA func() (*ca, error)
}

// step returns the CAs that the Secret should hold: the next state of the hand-over, or
// the same state. The package comment lists the states.
func (a authorities) step(c circumstances) (authorities, error) {
	next := a.completedBy(c.remembered)
	if len(a.trusted) == 0 {
		// The Secret was deleted, perhaps because of one of these.
		next.trusted = endingBy(next.trusted, c.now.Add(c.terms.brief))
	}
	remembered := c.remembered.current
	var err error
	switch {
	case next.current == nil && remembered != nil && !expired(remembered.cert, c.now):
		// The Secret was deleted or damaged. Its CA is replaced in the usual steps,
		// not at once.
		next.current = remembered
		next.next, err = c.makeCA()
	case next.current == nil || expired(next.current.cert, c.now) && (next.next == nil || expired(next.next.cert, c.now)):
		next.next = nil
		next.current, err = c.makeCA()
	case next.next != nil && (c.isSettled(next.next.cert) || ending(next.current.cert, c.now)):
		next.current, next.next = next.next, nil
	case next.next == nil && due(next.current.cert, c.now):
		next.next, err = c.makeCA()
	}
	if err != nil {
		return a, err
	}
	next.trusted = remember(next.trusted, next.current.cert, c.inUse, c.now, c.terms)
	return next, nil
}

// equal reports whether a and b hold the same CAs, so that nothing has to be written.
func (a authorities) equal(b authorities) bool {
	return sameCA(a.current, b.current) && sameCA(a.next, b.next) &&
		bytes.Equal(encodeTrusted(a.trusted), encodeTrusted(b.trusted))
}

func sameCA(a, b *ca) bool {
	return a == nil && b == nil || a != nil && b != nil && a.cert.Equal(b.cert)
}

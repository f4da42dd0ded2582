package certs

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cert-manager/cert-manager/pkg/util/pki"
)

const (
	// earlyBy is how long before they are made certificates are valid. A replica whose clock is
	// ahead by less still serves what API servers accept.
	earlyBy = 24 * time.Hour
	// clockSkew is by how much the clocks of replicas and API servers may differ otherwise.
	clockSkew = 5 * time.Minute
)

// makeKey makes a private key: ECDSA on the curve P-256.
func makeKey() (crypto.Signer, error) { return pki.GenerateECPrivateKey(pki.ECCurve256) }

// ca is a certificate authority that can sign.
type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// makeCA makes a CA that is valid for duration from now, and from some time before now.
//
// The CA can sign for the names only, and only certificates of servers: with a stolen key
// nobody impersonates anything else to those who trust the CA. The constraints are critical.
// A constraint for one type of name leaves the other types free, so each type has one.
func makeCA(names []string, now time.Time, duration time.Duration) (*ca, error) {
	key, err := makeKey()
	if err != nil {
		return nil, fmt.Errorf("making the key of a CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "pillion-ca"},
		NotBefore:             now.Add(-backdate(duration)),
		NotAfter:              now.Add(duration),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},

		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         names,
		PermittedURIDomains:         names,
		PermittedEmailAddresses:     names,
		ExcludedIPRanges:            everyAddress,
	}
	_, cert, err := pki.SignCertificate(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a CA: %w", err)
	}
	return &ca{cert: cert, key: key}, nil
}

// everyAddress are all IPv4 and IPv6 addresses.
var everyAddress = []*net.IPNet{
	{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
	{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
}

// sign makes a leaf for the names, with a key of its own. The leaf ends after duration,
// or with the CA if that ends earlier.
func (c *ca) sign(dnsNames []string, now time.Time, duration time.Duration) (*leaf, error) {
	notAfter := earlier(now.Add(duration), c.cert.NotAfter)
	if !now.Before(notAfter) {
		return nil, fmt.Errorf("signing a serving certificate: the CA ended at %s", timestamp(c.cert.NotAfter))
	}
	key, err := makeKey()
	if err != nil {
		return nil, fmt.Errorf("making the key of a serving certificate: %w", err)
	}
	template := &x509.Certificate{
		DNSNames:              dnsNames,
		NotBefore:             now.Add(-backdate(notAfter.Sub(now))),
		NotAfter:              notAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	_, cert, err := pki.SignCertificate(template, c.cert, key.Public(), c.key)
	if err != nil {
		return nil, fmt.Errorf("signing a serving certificate: %w", err)
	}
	return &leaf{tls: &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, issuer: c.cert}, nil
}

// backdate returns how long before now the validity of a certificate begins that ends
// after remaining. It is at most half of remaining, so a new certificate has at least two
// thirds of its validity left.
func backdate(remaining time.Duration) time.Duration {
	return min(earlyBy, remaining/2)
}

// due reports whether a certificate, of a CA or a leaf, has to be replaced: a third of its
// validity is left. It goes by the wall clock, because timers stand still while a machine is
// suspended.
func due(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3))
}

// expired reports whether the validity of the certificate has ended.
func expired(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotAfter)
}

// parseCA reads a CA certificate and its private key from PEM.
func parseCA(certPEM, keyPEM []byte) (*ca, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	if !pair.Leaf.IsCA {
		return nil, errors.New("the certificate is not a CA certificate")
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the private key (%T) cannot sign", pair.PrivateKey)
	}
	return &ca{cert: pair.Leaf, key: key}, nil
}

// timestamp formats a time for messages.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

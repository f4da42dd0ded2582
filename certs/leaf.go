package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// leaf is a serving certificate with its CA.
type leaf struct {
	tls *tls.Certificate

	// issuer is nil when the CA is unknown to this process.
	issuer *x509.Certificate
}

// verify says why an API server that trusts caBundle would refuse the
// certificate for dnsName at the time now; nil if it would not.
func verify(cert *x509.Certificate, caBundle []byte, dnsName string, now time.Time) error {
	if len(caBundle) == 0 {
		return errors.New("its caBundle is empty")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		return errors.New("its caBundle holds no certificate")
	}
	_, err := cert.Verify(x509.VerifyOptions{
		DNSName:     dnsName,
		Roots:       roots,
		CurrentTime: now,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("its caBundle does not verify the serving certificate: %w", err)
	}
	return nil
}

// ending is whether so little of the certificate's validity is left that a
// replacement should not be held back any longer.
func ending(cert *x509.Certificate, now time.Time) bool {
	left := cert.NotAfter.Sub(now)
	return left < min(time.Minute, cert.NotAfter.Sub(cert.NotBefore)/10)
}

package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	// secretCAKey is where DynamicAuthority keeps the CA certificate a second
	// time. It wants exactly that one certificate there, and leaves keys that
	// it does not know alone.
	secretCAKey = "ca.crt"

	// secretTrustedKey is where Pillion remembers all CAs of the bundle.
	secretTrustedKey = "trusted-ca.crt"
)

// ca is a certificate authority that can sign.
type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// caFromSecret reads the current CA of the Secret, by the same rules by which
// DynamicAuthority decides that a Secret needs a new one; expiry is left to it.
func caFromSecret(secret *corev1.Secret) (*ca, error) {
	certPEM := secret.Data[corev1.TLSCertKey]
	if len(certPEM) == 0 {
		return nil, fmt.Errorf("key %s is empty", corev1.TLSCertKey)
	}
	if !bytes.Equal(certPEM, secret.Data[secretCAKey]) {
		return nil, fmt.Errorf("keys %s and %s differ", corev1.TLSCertKey, secretCAKey)
	}
	pair, err := tls.X509KeyPair(certPEM, secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	if !pair.Leaf.IsCA {
		return nil, errors.New("its certificate is not one of a CA")
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("its private key (%T) cannot sign", pair.PrivateKey)
	}
	return &ca{cert: pair.Leaf, key: key}, nil
}

package certs

import (
	"encoding/pem"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/util/pki"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/internal/errtest"
)

// newCA makes a CA that was made an hour ago and is valid until notAfter.
func newCA(t testing.TB, notAfter time.Time) *ca {
	t.Helper()
	made := time.Now().Add(-time.Hour)
	c, err := makeCA(service{testNamespace, testService}.dnsNames(), made, notAfter.Sub(made))
	errtest.ExpectNone(t, err)
	return c
}

func yearCA(t testing.TB) *ca { return newCA(t, time.Now().Add(365*24*time.Hour)) }

// newLeaf returns a serving certificate for dnsName that issuer signed.
func newLeaf(t testing.TB, issuer *ca, dnsName string, life time.Duration) *leaf {
	t.Helper()
	l, err := issuer.sign([]string{dnsName}, time.Now(), life)
	errtest.ExpectNone(t, err)
	return l
}

func pemOf(cas ...*ca) []byte {
	var out []byte
	for _, c := range cas {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.cert.Raw})...)
	}
	return out
}

// secretOf returns a Secret that holds a CA and remembers none.
func secretOf(t testing.TB, c *ca) *corev1.Secret {
	t.Helper()
	data, err := authorities{current: c}.write(nil)
	errtest.ExpectNone(t, err)
	delete(data, secretTrustedKey)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testSecret, ResourceVersion: "1"},
		Data:       data,
	}
}

// servingSecret returns the Secret of a Certificate, as cert-manager writes it.
func servingSecret(t testing.TB, l *leaf) *corev1.Secret {
	t.Helper()
	key, err := pki.EncodePKCS8PrivateKey(l.tls.PrivateKey)
	errtest.ExpectNone(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testSecret, ResourceVersion: "1"},
		Data: map[string][]byte{
			corev1.TLSCertKey: pemOf(&ca{cert: l.tls.Leaf}), corev1.TLSPrivateKeyKey: key, secretCAKey: pemOf(&ca{cert: l.issuer}),
		},
	}
}

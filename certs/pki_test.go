package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/util/pki"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newCA makes a CA that is valid from an hour before now until notAfter.
func newCA(t testing.TB, notAfter time.Time) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "pillion-ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{cert: cert, key: key}
}

func yearCA(t testing.TB) *ca { return newCA(t, time.Now().Add(365*24*time.Hour)) }

// newLeaf has issuer sign a serving certificate for dnsName.
func newLeaf(t testing.TB, issuer *ca, dnsName string, life time.Duration) *leaf {
	t.Helper()
	a := &authority{leafDuration: life, now: time.Now}
	a.use(issuer)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Sign(leafTemplate(key, dnsName))
	if err != nil {
		t.Fatal(err)
	}
	return &leaf{tls: &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, issuer: issuer.cert}
}

func leafTemplate(key crypto.Signer, dnsName string) *x509.Certificate {
	return &x509.Certificate{
		PublicKeyAlgorithm: x509.ECDSA, PublicKey: key.Public(), DNSNames: []string{dnsName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

func pemOf(cas ...*ca) []byte {
	var out []byte
	for _, c := range cas {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.cert.Raw})...)
	}
	return out
}

// secretOf is the Secret as cert-manager's authority writes it.
func secretOf(t testing.TB, c *ca) *corev1.Secret {
	t.Helper()
	key, err := pki.EncodePKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testSecret, ResourceVersion: "1"},
		Data:       map[string][]byte{corev1.TLSCertKey: pemOf(c), corev1.TLSPrivateKeyKey: key, secretCAKey: pemOf(c)},
	}
}

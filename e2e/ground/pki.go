package ground

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// An Authority is a certificate authority in memory.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority that is trusted longer than anybody leaves a ground up.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "pillion-ground", NotBefore: time.Now().Add(-time.Minute)}, key)
	return &Authority{ca, key}, err
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.Certificate.Raw})
}

// Sign makes a key, and a certificate that lasts as long as the authority, both as PEM.
func (a *Authority) Sign(leaf x509.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	leaf.SerialNumber, leaf.KeyUsage = big.NewInt(time.Now().UnixNano()), x509.KeyUsageDigitalSignature
	leaf.NotBefore, leaf.NotAfter = a.Certificate.NotBefore, a.Certificate.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, &leaf, a.Certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key, err
}

// pki is the certificate authority of one ground. It lives as long as the ground.
type pki struct {
	dir string
	ca  *Authority
}

// newPKI makes the authority, and writes ca.crt to dir.
func newPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ca, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	p := &pki{dir: dir, ca: ca}
	return p, p.write("ca.crt", ca.PEM())
}

// issue writes NAME.crt and NAME.key for subject. With addresses it is a server's
// certificate, without a client's.
func (p *pki) issue(name string, subject pkix.Name, dnsNames []string, addresses ...net.IP) error {
	leaf := x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, DNSNames: dnsNames, IPAddresses: addresses}
	if len(addresses) > 0 {
		leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	certificate, key, err := p.ca.Sign(leaf)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	return errors.Join(p.write(name+".crt", certificate), p.write(name+".key", key))
}

// signingKey writes NAME.key and NAME.pub: what service account tokens are signed with.
func (p *pki) signingKey(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return errors.Join(p.write(name+".pub", pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: public})), p.write(name+".key", private))
}

func (p *pki) write(name string, text []byte) error { return os.WriteFile(p.path(name), text, 0o600) }

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

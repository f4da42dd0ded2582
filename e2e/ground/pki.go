package ground

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the certificate authority of one ground. It lives as long as the ground.
type pki struct {
	dir    string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// lifetime is that of every certificate here: longer than anybody leaves a ground up.
const lifetime = 365 * 24 * time.Hour

// newPKI makes the authority, and writes ca.crt to dir.
func newPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "pillion-ground"},
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, err
	}
	p := &pki{dir: dir, ca: ca, key: key, serial: 1}
	return p, p.writePEM("ca.crt", "CERTIFICATE", der)
}

// issue writes NAME.crt and NAME.key for subject. With addresses it is a server's
// certificate, without a client's.
func (p *pki) issue(name string, subject pkix.Name, dnsNames []string, addresses ...net.IP) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	p.serial++
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(p.serial),
		Subject:      subject,
		NotBefore:    p.ca.NotBefore,
		NotAfter:     p.ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:     dnsNames,
		IPAddresses:  addresses,
	}
	if len(addresses) > 0 {
		leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, p.ca, key.Public(), p.key)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	if err := p.writePEM(name+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return p.writeKey(name+".key", key)
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
	if err := p.writePEM(name+".pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return p.writeKey(name+".key", key)
}

func (p *pki) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return p.writePEM(name, "EC PRIVATE KEY", der)
}

func (p *pki) writePEM(name, kind string, der []byte) error {
	return os.WriteFile(p.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

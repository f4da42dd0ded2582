package webhook

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/internal/errtest"
)

// signed returns a certificate of the template that a CA signs, or that signs itself.
func signed(t *testing.T, template *x509.Certificate, key crypto.Signer, by *tls.Certificate) *tls.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	errtest.ExpectNone(t, err)
	leaf, err := x509.ParseCertificate(der)
	errtest.ExpectNone(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	errtest.ExpectNone(t, err)
	return key
}

func newAuthority(t *testing.T) *tls.Certificate {
	return signed(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, ecKey(t), nil)
}

func pemOf(c *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

// clientOf returns the certificate of a client, which a CA signs.
func clientOf(t *testing.T, ca *tls.Certificate, change func(*x509.Certificate)) *tls.Certificate {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "api-server"}, DNSNames: []string{"api.example.com"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	return signed(t, template, ecKey(t), ca)
}

func TestOnlyClientsOfTheCAWithOneOfTheNamesAreAnswered(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	clients := map[string]*tls.Certificate{
		"no certificate": nil,
		"the API server": clientOf(t, own, nil),
		"another name": clientOf(t, own, func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames = "system:node:a", nil
		}),
		"by a DNS name": clientOf(t, own, func(c *x509.Certificate) { c.Subject.CommonName = "" }),
		"another CA":    clientOf(t, other, nil),
		"a server's":    clientOf(t, own, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"ended": clientOf(t, own, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}),
	}
	for _, server := range []struct {
		name     string
		ca       []byte
		names    []string
		answered string // the clients that get an answer
	}{
		{"no CA", nil, nil, "no certificate, the API server, another name, by a DNS name, another CA, a server's, ended"},
		{"a CA", pemOf(own), nil, "the API server, another name, by a DNS name"},
		{"a CA and names", pemOf(own), []string{"api-server", "api.example.com"}, "the API server, by a DNS name"},
		{"two CAs and a name", append(pemOf(other), pemOf(own)...), []string{"api-server"}, "the API server, another CA"},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			var peers Peers
			if server.ca != nil {
				var err error
				if peers, err = ReadPeers(server.ca, server.names); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			_, webhook, admin, ended := startServer(t, ctx, ServerOptions{Peers: peers, ShutdownTimeout: time.Second})
			for name, certificate := range clients {
				want := slices.Contains(strings.Split(server.answered, ", "), name)
				for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					config := &tls.Config{InsecureSkipVerify: true, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
					if certificate != nil {
						// Unlike Certificates: shown whatever CAs the server asks for.
						config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
					}
					// The second connection resumes the first one's session.
					for attempt := range 2 {
						transport := &http.Transport{TLSClientConfig: config}
						response, err := (&http.Client{Transport: transport}).Post("https://"+webhook.Addr().String()+"/mutate", "application/json", nil)
						if got := err == nil && response.StatusCode == http.StatusOK; got != want {
							t.Errorf("%s, TLS %x, connection %d: answered %t (%v), want %t", name, version, attempt, got, err, want)
						}
						if err == nil {
							_, _ = io.Copy(io.Discard, response.Body)
							_ = response.Body.Close()
						}
						transport.CloseIdleConnections()
					}
				}
			}
			response, err := http.Get("http://" + admin.Addr().String() + "/healthz")
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("the admin port: %v", err)
			} else {
				_ = response.Body.Close()
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFileThatIsNoListOfCAsIsRefused(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	leaf := clientOf(t, a, nil)
	key, err := x509.MarshalECPrivateKey(ecKey(t))
	errtest.ExpectNone(t, err)
	for name, file := range map[string][]byte{
		"empty":                       nil,
		"text":                        []byte("ca.crt"),
		"a private key":               pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		"a certificate of no CA":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}),
		"a broken certificate":        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"half a certificate":          pemOf(a)[:len(pemOf(a))/2],
		"a CA and half a certificate": append(pemOf(a), pemOf(a)[:40]...),
	} {
		if _, err := ReadPeers(file, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := ReadPeers(append([]byte("# the API servers' CA\n"), bytes.Repeat(pemOf(a), 2)...), nil); err != nil {
		t.Errorf("two certificates with a comment: %v", err)
	}
}

// Whatever is in the file, a client CA that is set never lets everybody in.
func FuzzReadPeersNeverAcceptsEverybody(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		peers, err := ReadPeers(file, nil)
		if err == nil && peers.CA == nil {
			t.Error("accepted, without a CA")
		}
		config := &tls.Config{}
		peers.require(config)
		if err == nil && config.ClientAuth != tls.RequireAndVerifyClientCert {
			t.Error("accepted, and no certificate is required")
		}
	})
}

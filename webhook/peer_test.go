package webhook

import (
	"bytes"
	"context"
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
	"strings"
	"testing"
	"time"
)

// authority signs client certificates for the tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign signs by the authority, or by the certificate itself as long as there is none.
func (a authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// client is what a client with that certificate shows.
func (a authority) client(change func(*x509.Certificate)) *tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "api-server"}, DNSNames: []string{"api.example.com"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	cert, key := a.sign(template)
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func TestOnlyClientsOfTheCAWithOneOfTheNamesAreAnswered(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	clients := map[string]*tls.Certificate{
		"no certificate": nil,
		"the API server": own.client(nil),
		"another name": own.client(func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames = "system:node:a", nil
		}),
		"by a DNS name": own.client(func(c *x509.Certificate) { c.Subject.CommonName = "" }),
		"another CA":    other.client(nil),
		"a server's":    own.client(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"ended": own.client(func(c *x509.Certificate) {
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
		{"a CA", own.pem(), nil, "the API server, another name, by a DNS name"},
		{"a CA and names", own.pem(), []string{"api-server", "api.example.com"}, "the API server, by a DNS name"},
		{"two CAs and a name", append(other.pem(), own.pem()...), []string{"api-server"}, "the API server, another CA"},
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
			answered := strings.Split(server.answered, ", ")
			for name, certificate := range clients {
				want := false
				for _, a := range answered {
					want = want || a == name
				}
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
	leaf := a.client(nil)
	key, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"empty":                       nil,
		"text":                        []byte("ca.crt"),
		"a private key":               pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		"a certificate of no CA":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}),
		"a broken certificate":        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"half a certificate":          a.pem()[:len(a.pem())/2],
		"a CA and half a certificate": append(a.pem(), a.pem()[:40]...),
	} {
		if _, err := ReadPeers(file, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := ReadPeers(append([]byte("# the API servers' CA\n"), bytes.Repeat(a.pem(), 2)...), nil); err != nil {
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

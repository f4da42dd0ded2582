package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Peers are the clients that may send reviews. The zero value admits every client, without
// a certificate.
type Peers struct {
	// CA signs the client certificates that are accepted. Nil accepts every client.
	CA *x509.CertPool
	// Names are the accepted names. A client certificate has one of them as its common name
	// or as a DNS name. An empty list accepts every certificate of the CA.
	Names []string
}

// ReadPeers returns the peers for a file of CA certificates in PEM. It refuses a file with
// anything else in it, because that is a mistake.
func ReadPeers(file []byte, names []string) (Peers, error) {
	pool := x509.NewCertPool()
	n := 0
	for rest := file; ; n++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			if text := strings.TrimSpace(string(rest)); text != "" {
				return Peers{}, fmt.Errorf("the text after %d certificates is not PEM", n)
			}
			break
		}
		if block.Type != "CERTIFICATE" {
			return Peers{}, fmt.Errorf("block %d is a %s; allowed are certificates", n+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return Peers{}, fmt.Errorf("certificate %d: %w", n+1, err)
		}
		if !cert.IsCA {
			return Peers{}, fmt.Errorf("certificate %d (%s) is not of a CA", n+1, cert.Subject)
		}
		pool.AddCert(cert)
	}
	if n == 0 {
		return Peers{}, errors.New("there is no certificate in it")
	}
	return Peers{CA: pool, Names: names}, nil
}

// require configures a TLS server to reject every other client.
func (p Peers) require(config *tls.Config) {
	if p.CA == nil {
		return
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, p.CA
	// Unlike VerifyPeerCertificate this is called for a resumed connection too.
	config.VerifyConnection = p.verify
}

// verify checks the name of the client. The chain has been verified before.
func (p Peers) verify(state tls.ConnectionState) error {
	if len(p.Names) == 0 {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has shown no certificate")
	}
	cert := state.PeerCertificates[0]
	if slices.Contains(p.Names, cert.Subject.CommonName) || slices.ContainsFunc(cert.DNSNames, func(name string) bool { return slices.Contains(p.Names, name) }) {
		return nil
	}
	return fmt.Errorf("the client's certificate is for %q, DNS names %q; it may have one of %q", cert.Subject.CommonName, cert.DNSNames, p.Names)
}

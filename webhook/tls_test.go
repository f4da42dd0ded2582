package webhook

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestTheReviewListenerTakesCiphersWithAuthenticatedEncryptionOnly(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, certificate := range map[string]*tls.Certificate{"ECDSA": signed(t, &x509.Certificate{}, ecKey(t), nil), "RSA": signed(t, &x509.Certificate{}, rsaKey, nil)} {
		s := NewServer(ServerOptions{
			Logger: slog.New(slog.DiscardHandler), GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil },
		})
		reviews := httptest.NewUnstartedServer(http.NotFoundHandler())
		reviews.TLS = s.reviewServer().TLSConfig
		reviews.TLS.Certificates = []tls.Certificate{*certificate} // else httptest adds its own
		reviews.StartTLS()
		t.Cleanup(reviews.Close)
		served := func(client *tls.Config) bool {
			client.InsecureSkipVerify = true
			connection, err := tls.Dial("tcp", reviews.Listener.Addr().String(), client)
			if err == nil {
				_ = connection.Close()
			}
			return err == nil
		}
		for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
			if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
				continue
			}
			authenticated := strings.HasPrefix(suite.Name, "TLS_ECDHE_"+name+"_") && (strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_CHACHA20_"))
			if served(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}) != authenticated {
				t.Errorf("%s: a client with %s only is served: %t", name, suite.Name, !authenticated)
			}
		}
		if !served(&tls.Config{}) || !served(&tls.Config{MinVersion: tls.VersionTLS13}) {
			t.Errorf("%s: a client with Go's defaults, or with TLS 1.3, is not served", name)
		}
		if served(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) {
			t.Errorf("%s: a client with TLS 1.1 is served", name)
		}
	}
}

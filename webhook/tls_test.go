package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// certificateOf makes a certificate that signs itself.
func certificateOf(t *testing.T, public, private any) *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func TestTheReviewListenerTakesCiphersWithAuthenticatedEncryptionOnly(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	tls12 := func(suites ...uint16) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: suites}
	}
	for _, key := range []struct {
		name                   string
		certificate            *tls.Certificate
		gcm128, gcm256, chacha uint16
		refused                []uint16
	}{
		{"ECDSA", certificateOf(t, ec.Public(), ec),
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			[]uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256}},
		{"RSA", certificateOf(t, rsaKey.Public(), rsaKey),
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
			[]uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_128_CBC_SHA}},
	} {
		s := NewServer(ServerOptions{
			Logger: slog.New(slog.DiscardHandler), GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return key.certificate, nil },
			Webhooks: map[string]http.Handler{"/": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
		})
		reviews := httptest.NewUnstartedServer(s.reviewServer().Handler)
		reviews.TLS = s.reviewServer().TLSConfig
		reviews.TLS.Certificates = []tls.Certificate{*key.certificate} // else httptest adds its own
		reviews.StartTLS()
		t.Cleanup(reviews.Close)
		dial := func(config *tls.Config) error {
			config.InsecureSkipVerify = true
			connection, err := tls.Dial("tcp", reviews.Listener.Addr().String(), config)
			if err == nil {
				_ = connection.Close()
			}
			return err
		}
		for name, config := range map[string]*tls.Config{
			"AES-128-GCM": tls12(key.gcm128), "AES-256-GCM": tls12(key.gcm256), "ChaCha20": tls12(key.chacha),
			"Go's default": {}, "TLS 1.3": {MinVersion: tls.VersionTLS13},
		} {
			if err := dial(config); err != nil {
				t.Errorf("%s, a client with %s: %v", key.name, name, err)
			}
		}
		for _, suite := range key.refused {
			if dial(tls12(suite)) == nil {
				t.Errorf("%s: a client with %s only is served", key.name, tls.CipherSuiteName(suite))
			}
		}
		if dial(tls12(key.refused...)) == nil {
			t.Errorf("%s: a client that offers weak suites only is served", key.name)
		}
		if dial(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) == nil {
			t.Errorf("%s: a client with TLS 1.1 is served", key.name)
		}
	}
}

package certs

import (
	"crypto/x509"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/util/pki"

	"github.com/pillion-dev/pillion/internal/errtest"
)

func TestLeafAndCAAreAcceptedByAClockADayBehind(t *testing.T) {
	t.Parallel()
	issuer, err := makeCA([]string{testDNSName}, time.Now(), 365*24*time.Hour)
	errtest.ExpectNone(t, err)
	l, err := issuer.sign([]string{testDNSName}, time.Now(), 7*24*time.Hour)
	errtest.ExpectNone(t, err)
	for _, c := range []struct {
		name string
		at   time.Time
		ok   bool
	}{
		{"now", time.Now(), true},
		{"an hour ago", time.Now().Add(-time.Hour), true},
		{"two days ago", time.Now().Add(-48 * time.Hour), false},
		{"after its end", time.Now().Add(8 * 24 * time.Hour), false},
	} {
		if err := l.verify(pemOf(issuer), testDNSName, c.at); (err == nil) != c.ok {
			t.Errorf("%s: verified %t (%v), want %t", c.name, err == nil, err, c.ok)
		}
	}
}

func TestANewLeafIsNotDueAndDoesNotOutliveItsCA(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ leaf, caLeft time.Duration }{
		{7 * 24 * time.Hour, 365 * 24 * time.Hour},
		{time.Minute, 365 * 24 * time.Hour},
		{2 * time.Second, 365 * 24 * time.Hour},
		{7 * 24 * time.Hour, time.Minute},
	} {
		now := time.Now()
		issuer, err := makeCA([]string{testDNSName}, now, c.caLeft)
		errtest.ExpectNone(t, err)
		l, err := issuer.sign([]string{testDNSName}, now, c.leaf)
		errtest.ExpectNone(t, err)
		// Certificates have whole seconds only.
		if due(l.tls.Leaf, now.Add(-time.Second)) || due(issuer.cert, now.Add(-time.Second)) {
			t.Errorf("a leaf of %s by a CA with %s left, or that CA, is due when it is made", c.leaf, c.caLeft)
		}
		if limit := now.Add(min(c.leaf, c.caLeft)); l.tls.Leaf.NotAfter.After(limit) {
			t.Errorf("a leaf of %s by a CA with %s left ends at %s, after %s", c.leaf, c.caLeft, l.tls.Leaf.NotAfter, limit)
		}
		if forgotten := now.Add(termsOf(time.Minute, c.leaf).full); forgotten.Before(l.tls.Leaf.NotAfter.Add(time.Minute)) {
			t.Errorf("a CA is forgotten at %s, when its leaf of %s may still be served", forgotten, c.leaf)
		}
		if l.needsRenewal(issuer, now) || !l.needsRenewal(yearCA(t), now) {
			t.Error("a new leaf is outlived, or a leaf of another CA is not")
		}
	}
}

func TestAnExpiredCASignsNothing(t *testing.T) {
	t.Parallel()
	if _, err := newCA(t, time.Now().Add(-time.Second)).sign([]string{testDNSName}, time.Now(), time.Hour); err == nil {
		t.Error("an expired CA signed a leaf")
	}
}

// Whoever has stolen the key of a CA impersonates nothing but the Service.
func TestACASignsForTheNamesOfItsServiceOnly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	issuer, err := makeCA(service{testNamespace, testService}.dnsNames(), now, 365*24*time.Hour)
	errtest.ExpectNone(t, err)
	if !issuer.cert.PermittedDNSDomainsCritical {
		t.Error("the name constraints are not critical")
	}
	roots := x509.NewCertPool()
	roots.AddCert(issuer.cert)
	key, err := makeKey()
	errtest.ExpectNone(t, err)
	verify := func(change func(*x509.Certificate), options x509.VerifyOptions) error {
		template := &x509.Certificate{NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
		change(template)
		_, cert, err := pki.SignCertificate(template, issuer.cert, key.Public(), issuer.key)
		errtest.ExpectNone(t, err)
		options.Roots = roots
		_, err = cert.Verify(options)
		return err
	}
	for _, name := range []string{testDNSName, testDNSName + ".cluster.local", testService + "." + testNamespace} {
		server := func(c *x509.Certificate) { c.DNSNames = []string{name} }
		if err := verify(server, x509.VerifyOptions{DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*x509.Certificate){
		"another Service":      func(c *x509.Certificate) { c.DNSNames = []string{"other." + testNamespace + ".svc"} },
		"another namespace":    func(c *x509.Certificate) { c.DNSNames = []string{testService + ".other.svc"} },
		"the API server":       func(c *x509.Certificate) { c.DNSNames = []string{"kubernetes.default.svc"} },
		"a longer name":        func(c *x509.Certificate) { c.DNSNames = []string{"x" + testDNSName} },
		"its own and one more": func(c *x509.Certificate) { c.DNSNames = []string{testDNSName, "example.com"} },
		"every name":           func(c *x509.Certificate) { c.DNSNames = []string{"*.svc"} },
		"an IPv4 address":      func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 96, 0, 1)} },
		"an IPv6 address":      func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv6loopback} },
		"a mail address":       func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} },
		"a URI, as SPIFFE has": func(c *x509.Certificate) {
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/a"}}
		},
		"a client, not a server": func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} },
	} {
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		if name == "a client, not a server" {
			usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}
		if err := verify(change, x509.VerifyOptions{KeyUsages: usages}); err == nil {
			t.Errorf("a certificate for %s verifies", name)
		}
	}
}

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	cmauthority "github.com/cert-manager/cert-manager/pkg/server/tls/authority"
)

func TestALeafIsAcceptedByAClockFiveMinutesBehind(t *testing.T) {
	issuer := yearCA(t)
	l := newLeaf(t, issuer, "pillion.pillion-system.svc", 7*24*time.Hour)
	for _, c := range []struct {
		name string
		at   time.Time
		ok   bool
	}{
		{"now", time.Now(), true},
		{"almost five minutes ago", time.Now().Add(10*time.Second - clockSkew), true},
		{"ten minutes ago", time.Now().Add(-10 * time.Minute), false},
		{"after its end", time.Now().Add(8 * 24 * time.Hour), false},
	} {
		if err := verify(l.tls.Leaf, pemOf(issuer), "pillion.pillion-system.svc", c.at); (err == nil) != c.ok {
			t.Errorf("%s: verified %t (%v), want %t", c.name, err == nil, err, c.ok)
		}
	}
}

func TestANewLeafIsNeverDueForRenewal(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ leaf, caLeft time.Duration }{
		{7 * 24 * time.Hour, 365 * 24 * time.Hour},
		{time.Minute, 365 * 24 * time.Hour},
		{2 * time.Second, 365 * 24 * time.Hour},
		{7 * 24 * time.Hour, time.Minute},
	} {
		now := time.Now()
		a := &authority{leafDuration: c.leaf, now: func() time.Time { return now }}
		a.use(newCA(t, now.Add(c.caLeft)))
		cert, err := a.Sign(leafTemplate(key, "a.b.svc"))
		if err != nil {
			t.Fatal(err)
		}
		// The moment at which DynamicSource renews, give or take a second's rounding.
		renewal := cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3)
		if renewal.Before(now.Add(-time.Second)) {
			t.Errorf("leaf of %s by a CA with %s left is due for renewal %s before it is made", c.leaf, c.caLeft, now.Sub(renewal))
		}
		if limit := now.Add(min(c.leaf, c.caLeft)); cert.NotAfter.After(limit) {
			t.Errorf("leaf of %s by a CA with %s left ends at %s, after %s", c.leaf, c.caLeft, cert.NotAfter, limit)
		}
	}
}

func TestSignRefusesWithoutAValidCA(t *testing.T) {
	a := &authority{leafDuration: time.Hour, now: time.Now}
	if _, err := a.Sign(&x509.Certificate{}); !errors.Is(err, cmauthority.ErrCertificateNotAvailable) {
		t.Errorf("without a CA: %v, want ErrCertificateNotAvailable", err)
	}
	a.use(newCA(t, time.Now().Add(-time.Second)))
	if _, err := a.Sign(&x509.Certificate{}); err == nil {
		t.Error("signed with a CA that has ended")
	}
}

func TestARotationIsAnnouncedOnceAndOnlyWhenTheCAIsThereToSign(t *testing.T) {
	a := &authority{leafDuration: time.Hour, now: time.Now}
	rotated := make(chan struct{}, 1)
	a.WatchRotation(rotated)
	first, second := yearCA(t), yearCA(t)
	a.use(first)
	<-rotated
	a.use(first)
	if len(rotated) != 0 {
		t.Error("the same CA was announced as a rotation")
	}
	a.use(second)
	<-rotated
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Sign(leafTemplate(key, "a.b.svc"))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.issuer(cert); got == nil || !got.Equal(second.cert) {
		t.Error("the leaf after the rotation is not the new CA's")
	}
	a.StopWatchingRotation(rotated)
	a.use(first)
	if len(rotated) != 0 {
		t.Error("a watcher that has stopped was told")
	}
}

package certs

import (
	"testing"
	"time"
)

func TestLeafAndCAAreAcceptedByAClockFiveMinutesBehind(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []KeyAlgorithm{ECDSA, RSA} {
		issuer, err := makeCA(algorithm, []string{testDNSName}, time.Now(), 365*24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		l, err := issuer.sign(algorithm, []string{testDNSName}, time.Now(), 7*24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
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
			if err := l.verify(pemOf(issuer), testDNSName, c.at); (err == nil) != c.ok {
				t.Errorf("%s, %s: verified %t (%v), want %t", algorithm, c.name, err == nil, err, c.ok)
			}
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
		issuer, err := makeCA(ECDSA, []string{testDNSName}, now, c.caLeft)
		if err != nil {
			t.Fatal(err)
		}
		l, err := issuer.sign(ECDSA, []string{testDNSName}, now, c.leaf)
		if err != nil {
			t.Fatal(err)
		}
		// Certificates have whole seconds only.
		if due(l.tls.Leaf, now.Add(-time.Second)) || due(issuer.cert, now.Add(-time.Second)) {
			t.Errorf("a leaf of %s by a CA with %s left, or that CA, is due when it is made", c.leaf, c.caLeft)
		}
		if limit := now.Add(min(c.leaf, c.caLeft)); l.tls.Leaf.NotAfter.After(limit) {
			t.Errorf("a leaf of %s by a CA with %s left ends at %s, after %s", c.leaf, c.caLeft, l.tls.Leaf.NotAfter, limit)
		}
		if l.outlived(issuer, now) || !l.outlived(yearCA(t), now) {
			t.Error("a new leaf is outlived, or a leaf of another CA is not")
		}
	}
}

func TestAnExpiredCASignsNothing(t *testing.T) {
	t.Parallel()
	if _, err := newCA(t, time.Now().Add(-time.Second)).sign(ECDSA, []string{testDNSName}, time.Now(), time.Hour); err == nil {
		t.Error("an expired CA signed a leaf")
	}
}

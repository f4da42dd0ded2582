package certs

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What a leaf remembers changes no verdict: whenever it is asked, by whatever bundle and name.
func TestALeafThatRemembersJudgesAsOneThatDoesNot(t *testing.T) {
	t.Parallel()
	now := time.Now()
	signer, other, short := newCA(t, now.Add(48*time.Hour)), newCA(t, now.Add(48*time.Hour)), newCA(t, now.Add(time.Hour))
	bundles := [][]byte{nil, []byte("none"), pemOf(signer), pemOf(other), pemOf(short), pemOf(other, signer), pemOf(signer, short)}
	rapid.Check(t, func(t *rapid.T) {
		made := signedBy(t, rapid.SampledFrom([]*ca{signer, short}).Draw(t, "signer"))
		remembering := &leaf{tls: made.tls, issuer: made.issuer}
		for range rapid.IntRange(1, 30).Draw(t, "questions") {
			bundle := rapid.SampledFrom(bundles).Draw(t, "bundle")
			name := rapid.SampledFrom([]string{testDNSName, "another.svc"}).Draw(t, "name")
			at := now.Add(time.Duration(rapid.IntRange(-3*3600, 30*3600).Draw(t, "seconds")) * time.Second)
			fresh := (&leaf{tls: made.tls, issuer: made.issuer}).verify(bundle, name, at)
			if got := remembering.verify(bundle, name, at); errorText(got) != errorText(fresh) {
				t.Fatalf("at %s: %v, one that remembers nothing says %v", at, got, fresh)
			}
		}
		if n := len(remembering.accepted); n > mostAccepted {
			t.Fatalf("it remembers %d bundles", n)
		}
	})
}

func signedBy(t *rapid.T, issuer *ca) *leaf {
	l, err := issuer.sign(ECDSA, []string{testDNSName}, time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

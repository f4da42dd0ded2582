package certs

import (
	"testing"
	"time"
)

func TestANewLeafIsServedOnlyWhenItsCAIsPublishedAndSettled(t *testing.T) {
	t.Parallel()
	const settle = 5 * time.Minute
	first, second := yearCA(t), yearCA(t)
	now := time.Now()
	week := 7 * 24 * time.Hour
	serving := newLeaf(t, first, testDNSName, week)
	for _, c := range []struct {
		name      string
		served    *leaf
		candidate *leaf
		// published are the CAs in the bundles.
		published []*ca
		after     time.Duration
		want      bool
	}{
		{"nothing is served yet", nil, newLeaf(t, second, testDNSName, week), nil, 0, true},
		{"a renewal by the same CA", serving, newLeaf(t, first, testDNSName, week), []*ca{first}, 0, true},
		{"a renewal while the caBundle is empty", serving, newLeaf(t, first, testDNSName, week), nil, 0, false},
		{"a new CA that is not published", serving, newLeaf(t, second, testDNSName, week), []*ca{first}, time.Hour, false},
		{"a new CA published just now", serving, newLeaf(t, second, testDNSName, week), []*ca{first, second}, settle - time.Second, false},
		{"a new CA published for a while", serving, newLeaf(t, second, testDNSName, week), []*ca{first, second}, settle, true},
		{"the old CA is no longer published", serving, newLeaf(t, second, testDNSName, week), []*ca{second}, 0, true},
		{"the served leaf is about to end", newLeaf(t, first, testDNSName, time.Second), newLeaf(t, second, testDNSName, week), []*ca{first}, 2 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			verifies := func(l *leaf) bool { return l.verify(pemOf(c.published...), testDNSName, now) == nil }
			confirmed := confirmations{}
			offer := func(now time.Time) bool {
				confirmed.observe(c.candidate.issuer, verifies(c.candidate), now)
				return replaces(c.served, c.candidate, now, verifies, confirmed.settled(c.candidate.issuer, settle, now))
			}
			taken := offer(now)
			if !taken && c.after > 0 {
				taken = offer(now.Add(c.after))
			}
			if taken != c.want {
				t.Errorf("the new leaf is served: %t, want %t", taken, c.want)
			}
		})
	}
}

func TestSettlingStartsAgainAfterTheBundleWasDamaged(t *testing.T) {
	t.Parallel()
	now, cert := time.Now(), yearCA(t).cert
	c := confirmations{}
	c.observe(cert, true, now)
	c.observe(cert, false, now.Add(50*time.Second))
	c.observe(cert, true, now.Add(55*time.Second))
	if c.settled(cert, time.Minute, now.Add(70*time.Second)) {
		t.Error("settled 15s after the bundle was healed, want a minute")
	}
	if !c.settled(cert, time.Minute, now.Add(115*time.Second)) {
		t.Error("not settled a minute after the bundle was healed")
	}
	c.forget(now.Add(366 * 24 * time.Hour))
	if len(c) != 0 {
		t.Error("an expired CA is not forgotten")
	}
}

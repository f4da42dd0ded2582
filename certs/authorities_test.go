package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"testing"
	"time"
)

// Each case takes one step of the hand-over.
func TestEachStateOfTheHandOverLeadsToTheNext(t *testing.T) {
	t.Parallel()
	now := time.Now()
	young, other, due := yearCA(t), yearCA(t), dueCA(t)
	ended := newCA(t, now.Add(-time.Second))
	last := newCA(t, now.Add(30*time.Second))
	fresh := yearCA(t)
	for _, c := range []struct {
		name       string
		stored     authorities
		remembered authorities
		settled    *ca
		want       authorities // its trusted lists the CAs besides current
		makes      int
	}{
		{"no secret, nothing remembered: a first CA", authorities{}, authorities{}, nil, authorities{current: fresh}, 1},
		{"a young CA: nothing to do", authorities{current: young}, authorities{}, nil, authorities{current: young}, 0},
		{"a CA that is due: the next CA is staged", authorities{current: due}, authorities{}, nil, authorities{current: due, next: fresh}, 1},
		{"staged and not settled: the old CA signs", authorities{current: due, next: young}, authorities{}, nil, authorities{current: due, next: young}, 0},
		{"staged and settled: the staged CA signs, the old CA is trusted", authorities{current: due, next: young, trusted: []trusted{{cert: due.cert}}}, authorities{}, young,
			authorities{current: young, trusted: []trusted{{cert: due.cert}}}, 0},
		{"another CA is settled: no change", authorities{current: due, next: young}, authorities{}, other, authorities{current: due, next: young}, 0},
		{"staged, and the old CA is about to end: no more waiting", authorities{current: last, next: young}, authorities{}, nil, authorities{current: young}, 0},
		{"the CA has expired, and none is staged", authorities{current: ended}, authorities{}, nil, authorities{current: fresh}, 1},
		{"the CA has expired, and another CA is staged", authorities{current: ended, next: young}, authorities{}, nil, authorities{current: young}, 0},
		{"the current and the staged CA have expired", authorities{current: ended, next: ended}, authorities{}, nil, authorities{current: fresh}, 1},
		{"deleted: the remembered CA goes on signing, a new CA is staged", authorities{}, authorities{current: young, trusted: []trusted{{cert: young.cert}, {other.cert, now.Add(time.Hour)}}}, nil,
			authorities{current: young, next: fresh, trusted: []trusted{{cert: other.cert}}}, 1},
		{"deleted while a CA was staged: that CA is not used", authorities{}, authorities{current: due, next: other}, nil, authorities{current: due, next: fresh}, 1},
		{"deleted, and the remembered CA has expired", authorities{}, authorities{current: ended}, nil, authorities{current: fresh}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			made := 0
			got, err := c.stored.step(circumstances{
				now: now, remembered: c.remembered, terms: terms{time.Hour, time.Minute},
				isSettled: func(cert *x509.Certificate) bool { return c.settled != nil && cert.Equal(c.settled.cert) },
				makeCA:    func() (*ca, error) { made++; return fresh, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			if !sameCA(got.current, c.want.current) || !sameCA(got.next, c.want.next) || made != c.makes {
				t.Errorf("current is as wanted: %t, next is as wanted: %t; %d CAs made, want %d", sameCA(got.current, c.want.current), sameCA(got.next, c.want.next), made, c.makes)
			}
			for _, trusted := range c.want.trusted {
				if !got.trusts(trusted.cert) {
					t.Error("a CA that may be in use is not trusted any more")
				}
			}
			if !got.trusts(got.current.cert) || !bytes.Contains(got.bundle(), pemOf(got.current)) {
				t.Error("the current CA is not trusted")
			}
			again, err := got.step(circumstances{
				now: now, remembered: got, terms: terms{time.Hour, time.Minute}, isSettled: func(*x509.Certificate) bool { return false },
				makeCA: func() (*ca, error) { return nil, errors.New("made another one") },
			})
			if err != nil || !again.equal(got) {
				t.Errorf("a second step without any event changes the authorities (%v)", err)
			}
		})
	}
}

func TestReplacedCAsOfADeletedSecretAreTrustedBriefly(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	current, soon, late, next := yearCA(t), yearCA(t), yearCA(t), yearCA(t)
	got, err := authorities{}.step(circumstances{
		now: now, terms: terms{time.Hour, time.Minute}, isSettled: func(*x509.Certificate) bool { return false }, makeCA: func() (*ca, error) { return next, nil },
		remembered: authorities{current: current, trusted: []trusted{{cert: current.cert}, {soon.cert, now.Add(time.Second)}, {late.cert, now.Add(time.Hour)}}},
	})
	want := []trusted{{cert: current.cert}, {soon.cert, now.Add(time.Second)}, {late.cert, now.Add(time.Minute)}}
	if err != nil || !sameTrusted(got.trusted, want) {
		t.Errorf("trusted are\n%s\nwant\n%s\n%v", encodeTrusted(got.trusted), encodeTrusted(want), err)
	}
}

func TestTheBundleDoesNotGrowWithoutBound(t *testing.T) {
	t.Parallel()
	now := time.Now()
	current := yearCA(t).cert
	var stored []trusted
	for i := range 2 * maxTrusted {
		stored = append(stored, trusted{yearCA(t).cert, now.Add(time.Duration(i+1) * time.Minute)})
	}
	got := remember(stored, current, nil, now, terms{time.Hour, time.Minute})
	if len(got) != maxTrusted || !got[0].cert.Equal(current) {
		t.Fatalf("%d CAs are remembered, the current one first: %t", len(got), got[0].cert.Equal(current))
	}
	for _, kept := range stored[maxTrusted+1:] {
		if !contains(got, kept.cert) {
			t.Errorf("the CA that is trusted until %s is forgotten, and others that end sooner are not", kept.until)
		}
	}
}

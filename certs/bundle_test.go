package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRememberKeepsEveryCAThatMayStillBeInUse(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	const keep, brief = time.Hour, time.Minute
	current, old, older, ripe := yearCA(t), yearCA(t), yearCA(t), dueCA(t)
	short := newCA(t, now.Add(time.Minute))
	expired := newCA(t, now.Add(-time.Minute))
	for _, c := range []struct {
		name   string
		stored []trusted
		inUse  *x509.Certificate
		want   []trusted
	}{
		{"a new Secret remembers its CA", nil, nil, []trusted{{cert: current.cert}}},
		{"the CA of the served leaf is the current CA", nil, current.cert, []trusted{{cert: current.cert}}},
		{"a CA that is replaced when it is due stays until no leaf of it can be in use", []trusted{{cert: ripe.cert}}, nil, []trusted{{cert: current.cert}, {ripe.cert, ripe.cert.NotAfter}}},
		{"a CA that is replaced before it is due is unwanted", []trusted{{cert: old.cert}}, nil, []trusted{{cert: current.cert}, {old.cert, now.Add(brief)}}},
		{"a replaced CA never outlives itself", []trusted{{cert: short.cert}}, nil, []trusted{{cert: current.cert}, {short.cert, now.Add(time.Minute)}}},
		{"an end that is set stays as it is", []trusted{{cert: current.cert}, {old.cert, now.Add(time.Second)}}, nil, []trusted{{cert: current.cert}, {old.cert, now.Add(time.Second)}}},
		{"a CA is forgotten at its end", []trusted{{cert: current.cert}, {old.cert, now}, {older.cert, now.Add(-time.Hour)}, {cert: expired.cert}}, nil, []trusted{{cert: current.cert}}},
		{"the CA of the served leaf is added if the Secret was made anew", nil, old.cert, []trusted{{cert: current.cert}, {old.cert, now.Add(brief)}}},
		{"a CA beside the others was never in use", []trusted{{cert: current.cert}, {cert: old.cert}}, nil, []trusted{{cert: current.cert}, {old.cert, now.Add(brief)}}},
		{"an end further away than any is cut", []trusted{{cert: current.cert}, {old.cert, now.Add(100 * time.Hour)}}, nil, []trusted{{cert: current.cert}, {old.cert, now.Add(keep)}}},
		{"the CA of the served leaf stays, even if its end is near", []trusted{{cert: current.cert}, {old.cert, now.Add(time.Second)}}, old.cert, []trusted{{cert: current.cert}, {old.cert, now.Add(brief)}}},
		{"the Secret is not written all the time for the CA of the served leaf", []trusted{{cert: current.cert}, {old.cert, now.Add(brief / 2)}}, old.cert, []trusted{{cert: current.cert}, {old.cert, now.Add(brief / 2)}}},
		{"a CA that somebody puts back has no end any more", []trusted{{cert: old.cert}, {current.cert, now.Add(time.Second)}}, nil, []trusted{{cert: current.cert}, {old.cert, now.Add(brief)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := remember(c.stored, current.cert, c.inUse, now, terms{keep, brief})
			if !sameTrusted(got, c.want) {
				t.Errorf("remembered\n%s\nwant\n%s", encodeTrusted(got), encodeTrusted(c.want))
			}
			if back := parseTrusted(encodeTrusted(got)); !sameTrusted(back, got) {
				t.Errorf("the encoded CAs read back as\n%s\nwant\n%s", encodeTrusted(back), encodeTrusted(got))
			}
		})
	}
}

func sameTrusted(a, b []trusted) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].cert.Equal(b[i].cert) || !a[i].until.Equal(b[i].until) {
			return false
		}
	}
	return true
}

// The laws hold for any order of rotations, deletions of the Secret and passing time, and
// for replicas whose clocks differ.
func TestBundleLaws(t *testing.T) {
	t.Parallel()
	pool := make([]*x509.Certificate, 6)
	start := time.Now()
	for i := range pool {
		pool[i] = newCA(t, start.Add(time.Duration(i+1)*12*time.Hour)).cert
	}
	rapid.Check(t, func(t *rapid.T) {
		spans := terms{full: 10 * time.Hour, brief: time.Hour}
		now := start
		var stored []trusted
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "minutes")) * time.Minute)
			current := rapid.SampledFrom(pool).Draw(t, "current")
			var inUse *x509.Certificate
			if rapid.Bool().Draw(t, "serving") {
				inUse = rapid.SampledFrom(pool).Draw(t, "in use")
			}
			if rapid.IntRange(0, 5).Draw(t, "deleted") == 0 {
				stored = nil
			}
			before := stored
			stored = remember(before, current, inUse, now, spans)
			checkRemembered(t, before, stored, current, inUse, now)

			again := remember(stored, current, inUse, now, spans)
			if !sameTrusted(again, stored) && !forgottenInUse(before, inUse, now) {
				t.Fatalf("remembering twice changes the Secret again")
			}
			// A replica whose clock is behind leaves the Secret as it is.
			behind := remember(stored, current, nil, now.Add(-clockSkew), spans)
			if !sameTrusted(behind, stored) {
				t.Fatalf("a replica whose clock is behind undoes the Secret")
			}
			if !bytes.Equal(bundle(current, stored), bundle(current, parseTrusted(encodeTrusted(stored)))) {
				t.Fatalf("the bundle changes on its way through the Secret")
			}
		}
	})
}

// forgottenInUse reports whether this step dropped the CA in use because its time was
// over. The next step adds that CA again.
func forgottenInUse(before []trusted, inUse *x509.Certificate, now time.Time) bool {
	for _, b := range before {
		if inUse != nil && b.cert.Equal(inUse) && !now.Before(b.until) {
			return true
		}
	}
	return false
}

func checkRemembered(t *rapid.T, before, after []trusted, current, inUse *x509.Certificate, now time.Time) {
	if len(after) == 0 || !after[0].cert.Equal(current) || !after[0].until.IsZero() {
		t.Fatalf("the current CA is not the first, without an end")
	}
	seen := map[string]bool{}
	for _, a := range after {
		if seen[string(a.cert.Raw)] {
			t.Fatalf("a CA is remembered twice")
		}
		seen[string(a.cert.Raw)] = true
		if a.cert.Equal(current) {
			continue
		}
		if !now.Before(a.until) || a.until.After(a.cert.NotAfter) {
			t.Fatalf("a CA is remembered until %s at %s, it ends at %s", a.until, now, a.cert.NotAfter)
		}
		if !contains(before, a.cert) && (inUse == nil || !a.cert.Equal(inUse)) {
			t.Fatalf("a CA is remembered that neither the Secret knew nor is in use")
		}
	}
	for _, b := range before {
		if now.Before(b.until) && !contains(after, b.cert) {
			t.Fatalf("a CA is forgotten before its time: %s", fmt.Sprint(b.until))
		}
	}
}

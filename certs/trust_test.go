package certs

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/controller/logtest"
)

// logged returns an error unless a line of the log has all the words.
func logged(log *logtest.Log, words ...string) error {
	for line := range strings.Lines(log.String()) {
		if mentions(errors.New(line), words...) == nil {
			return nil
		}
	}
	return errors.New("no line has " + strings.Join(words, ", ") + " in\n" + log.String())
}

func TestEveryReplicaLogsEachChangeOfTheTrustedCAs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		var logs [2]logtest.Log
		for i := range logs {
			s := c.run(func(o *SelfSignedOptions) {
				o.Settle, o.LeafDuration, o.Logger = time.Second, 10*time.Second, logs[i].Logger()
			})
			eventually(t, s.Ready)
		}
		stored := c.mustAuthorities()
		all := func(words ...string) {
			t.Helper()
			for i := range logs {
				eventually(t, func() error { return logged(&logs[i], words...) })
			}
		}
		first := FingerprintOf(stored.current.cert).String()
		all("level=INFO", "a CA is trusted\"", first)
		eventually(t, func() error {
			return errors.Join(logged(&logs[0], first, "made by this replica"), logged(&logs[1], first, "source=secret"))
		})

		foreign, other := yearCA(t), yearCA(t)
		c.editSecret(func(data map[string][]byte) {
			data[secretTrustedKey] = append(data[secretTrustedKey], pemOf(foreign, other)...)
		})
		all("level=WARN", "a CA is trusted\"", FingerprintOf(foreign.cert).String(), "source=secret")
		c.revoke(foreign)
		all("level=WARN", "a CA is no longer trusted", FingerprintOf(foreign.cert).String(), "source=revocation")
		time.Sleep(20 * time.Second)
		all("level=INFO", "a CA is no longer trusted", FingerprintOf(other.cert).String(), "it has expired")

		third := yearCA(t)
		c.editSecret(func(data map[string][]byte) { data[secretTrustedKey] = append(data[secretTrustedKey], pemOf(third)...) })
		all("a CA is trusted\"", FingerprintOf(third.cert).String())
		c.editSecret(func(data map[string][]byte) { data[secretTrustedKey] = pemOf(stored.current) })
		all("level=WARN", "a CA is no longer trusted", FingerprintOf(third.cert).String(), "source=secret")
	})
}

func TestAChangeOfTheCABundleIsLoggedWhereSomebodyElseWritesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := yearCA(t), yearCA(t)
		c := newCluster(t, newConfiguration(), servingSecret(t, newLeaf(t, first, testDNSName, time.Hour)))
		var log logtest.Log
		s := c.runCertManager(func(o *CertManagerOptions) { o.Logger = log.Logger() })
		c.inject(first)
		eventually(t, s.Ready)
		c.inject(second)
		eventually(t, func() error {
			return logged(&log, "WARN", "a CA is trusted\"", FingerprintOf(second.cert).String(), "source=caBundle")
		})
		eventually(t, func() error {
			return logged(&log, "WARN", "a CA is no longer trusted", FingerprintOf(first.cert).String(), "source=caBundle")
		})
		if authorities := *s.authorities.Load(); s.status != (ProviderStatus{"cert-manager", testSecret, false}) || len(authorities) != 1 {
			t.Errorf("the status is %+v, with the CAs %+v", s.status, authorities)
		}
	})
}

func TestTheStatusHasTheStateOfEachCA(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, beside, gone := dueCA(t), yearCA(t), yearCA(t)
		secret := secretOf(t, first)
		secret.Data[secretTrustedKey] = pemOf(first, beside)
		c := newCluster(t, newConfiguration(), secret)
		c.revoke(gone)
		s := c.run(func(o *SelfSignedOptions) { o.Settle = time.Hour })
		eventually(t, s.Ready)
		staged := c.staged()
		time.Sleep(2 * time.Second)
		want := map[Fingerprint]AuthorityState{
			FingerprintOf(first.cert): SigningAuthority, FingerprintOf(staged.cert): NextAuthority,
			FingerprintOf(beside.cert): TrustedAuthority, FingerprintOf(gone.cert): RevokedAuthority,
		}
		got := *s.authorities.Load()
		for _, a := range got {
			if want[a.Fingerprint] != a.State || a.Until.IsZero() {
				t.Errorf("%+v, want the state %s", a, want[a.Fingerprint])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d CAs, want %d", len(got), len(want))
		}
	})
}

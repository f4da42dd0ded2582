package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"
)

func (c *cluster) revoke(authority *ca) {
	c.t.Helper()
	if err := Revoke(context.Background(), c, testNamespace, testSecret, FingerprintOf(authority.cert)); err != nil {
		c.t.Fatal(err)
	}
}

// three starts replicas and waits until they are ready.
func (c *cluster) three(change func(*SelfSignedOptions)) (replicas []*Source, current *ca) {
	c.t.Helper()
	for range 3 {
		replicas = append(replicas, c.run(change))
	}
	for _, s := range replicas {
		eventually(c.t, s.Ready)
	}
	return replicas, readyAndPublished(c.t, c, replicas[0])
}

func (c *cluster) without(authority *ca) error {
	if c.trusts(authority) {
		return errors.New("the revoked CA is still published")
	}
	return nil
}

// staysWithout fails the test if, at any moment of the duration d, a caBundle has one of the CAs.
func (c *cluster) staysWithout(d time.Duration, authorities ...*ca) {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(5 * time.Millisecond) {
		for _, authority := range authorities {
			if err := c.without(authority); err != nil {
				c.t.Fatalf("after %s: %v", time.Since(began), err)
			}
		}
	}
}

// putIn writes another CA over the one that signs, as somebody does who may write the
// Secret.
func (c *cluster) putIn(authority *ca) {
	c.editSecret(func(data map[string][]byte) {
		for key, value := range secretOf(c.t, authority).Data {
			data[key] = value
		}
	})
}

func TestARevokedForeignCAIsGoneAtOnceAndStaysAway(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(c *cluster, foreign *ca){
		"it had signed": func(c *cluster, foreign *ca) { c.putIn(foreign) },
		"it is beside the others": func(c *cluster, foreign *ca) {
			c.editSecret(func(data map[string][]byte) {
				data[secretTrustedKey] = append(data[secretTrustedKey], pemOf(foreign)...)
			})
		},
		"it is the staged CA": func(c *cluster, foreign *ca) {
			c.editSecret(func(data map[string][]byte) {
				if err := writeCA(data, foreign, secretNextCertKey, secretNextKeyKey); err != nil {
					c.t.Error(err)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				replicas, _ := c.three(func(o *SelfSignedOptions) { o.Settle = 20 * time.Second })
				before, foreign := maps.Clone(c.secret().Data), yearCA(t)
				put(c, foreign)
				c.untilTrusted(foreign)
				restoreKeys(c, before)
				time.Sleep(time.Second)
				start := time.Now()
				c.revoke(foreign)
				eventually(t, func() error { return c.without(foreign) })
				if took := time.Since(start); took > time.Second {
					t.Errorf("it took %s", took)
				}
				admitted(t, c, replicas, 2*time.Second)

				after := maps.Clone(c.secret().Data)
				for name, again := range map[string]func(){
					"put back": func() { put(c, foreign) },
					"put back, and the list removed": func() {
						put(c, foreign)
						c.editSecret(func(data map[string][]byte) { delete(data, secretRevokedKey) })
					},
					"put back without the time of its revocation": func() {
						put(c, foreign)
						c.editSecret(func(data map[string][]byte) {
							data[secretRevokedKey] = []byte(FingerprintOf(foreign.cert).String())
						})
					},
					"the Secret is replaced by the foreign one": func() {
						c.editSecret(func(data map[string][]byte) { clear(data); maps.Copy(data, secretOf(t, foreign).Data) })
					},
					"the Secret is deleted": c.deleteSecret,
				} {
					again()
					c.staysWithout(1500*time.Millisecond, foreign)
					admitted(t, c, replicas, time.Second)
					if stored, err := c.authorities(); err != nil || !stored.revoked.leaves(foreign.cert) || stored.trusts(foreign.cert) {
						t.Errorf("%s: the Secret is not repaired (%v)", name, err)
					}
				}
				if made := made(replicas); made > 2 {
					t.Errorf("%d CAs were made, want the first and the one after the deletion", made)
				}

				// A replica that remembers nothing honours what the Secret says.
				late := c.run(nil)
				eventually(t, late.Ready)
				c.editSecret(func(data map[string][]byte) { clear(data); maps.Copy(data, after) })
				put(c, foreign)
				time.Sleep(time.Second)
				if err := c.without(foreign); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// While the CA that signs is revoked, API servers that see each bundle half a second late
// refuse nobody.
func TestAnotherCATakesOverFromARevokedCAThatSigns(t *testing.T) {
	t.Parallel()
	for name, staged := range map[string]bool{"a new CA": false, "the staged CA": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				replicas, first := c.three(func(o *SelfSignedOptions) { o.Settle = time.Hour })
				next := yearCA(t)
				if staged {
					c.editSecret(func(data map[string][]byte) {
						if err := writeCA(data, next, secretNextCertKey, secretNextKeyKey); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(time.Second)
				}
				views := []*view{{lag: 0}, {lag: 500 * time.Millisecond}}
				c.revoke(first)
				start, gone := time.Now(), time.Duration(0)
				for time.Since(start) < 8*time.Second {
					for _, v := range views {
						trusted := v.see(time.Now(), c.configuration().Webhooks[0].ClientConfig.CABundle)
						for i, s := range replicas {
							if err := verifies(s, trusted, time.Now()); err != nil {
								t.Fatalf("after %s, an API server %s behind refuses replica %d: %v", time.Since(start), v.lag, i, err)
							}
						}
					}
					if err := c.without(first); err != nil {
						gone = 0
					} else if gone == 0 {
						gone = time.Since(start)
					}
					time.Sleep(50 * time.Millisecond)
				}
				if gone == 0 || gone > 6*time.Second {
					t.Errorf("the revoked CA was gone after %s, want within 6s", gone)
				}
				for _, s := range replicas {
					if err := s.Ready(); err != nil {
						t.Error(err)
					}
				}
				signs := c.mustAuthorities().current.cert.Equal(next.cert)
				if signs != staged || made(replicas) != map[bool]int64{false: 2, true: 1}[staged] {
					t.Errorf("%d CAs were made; the staged CA signs: %t", made(replicas), signs)
				}

				// Somebody restores the Secret from before.
				c.putIn(first)
				c.staysWithout(1500*time.Millisecond, first)
				admitted(t, c, replicas, time.Second)
			})
		})
	}
}

func TestARevokedCAIsGoneWhenTheFirstReplicaStartsAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := yearCA(t)
		c := newCluster(t, newConfiguration(), secretOf(t, first))
		c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = pemOf(first) })
		c.revoke(first)
		s := c.run(nil)
		eventually(t, s.Ready)
		if err := c.without(first); err != nil {
			t.Error(err)
		}
	})
}

func TestARevocationWithoutThePermissionToWriteTheSecretCostsNoAdmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		replicas, first := c.three(nil)
		c.revoke(first)
		c.deny("update secrets", true)
		admitted(t, c, replicas, 10*time.Second)
	})
}

func TestAMalformedListOfRevokedCAsIsNamedAndCostsNoAdmission(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no fingerprint":    "hello\n",
		"half of one":       strings.Repeat("ab", 16) + "\n",
		"no time":           strings.Repeat("ab", 32) + " tomorrow\n",
		"bytes":             string([]byte{0, 1, 2, 0xff}),
		"a megabyte of it":  strings.Repeat("x\n", 500_000),
		"more than allowed": manyRevocations(5000),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				replicas := []*Source{c.run(nil)}
				readyAndPublished(t, c, replicas[0])
				foreign := yearCA(t)
				c.editSecret(func(data map[string][]byte) {
					data[secretTrustedKey] = append(data[secretTrustedKey], pemOf(foreign)...)
					data[secretRevokedKey] = []byte(FingerprintOf(foreign.cert).String() + "\n" + text)
				})
				admitted(t, c, replicas, 2*time.Second)
				if err := c.without(foreign); err != nil {
					t.Errorf("the sound line is not honoured: %v", err)
				}
				if n := failuresOf(replicas[0], failedSecret); n == 0 {
					t.Error("the malformed list is not counted as a failure")
				}
				if n := len(c.secret().Data[secretRevokedKey]); n > maxRevoked*100 {
					t.Errorf("the list in the Secret has %d bytes", n)
				}
			})
		})
	}
}

func manyRevocations(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%064x\n", i)
	}
	return b.String()
}

func TestAFullListIsRefusedByRevokeAndReadTheSameByAll(t *testing.T) {
	t.Parallel()
	secret := secretOf(t, yearCA(t))
	secret.Data[secretRevokedKey] = []byte(manyRevocations(maxRevoked))
	c := newCluster(t, secret)
	err := Revoke(t.Context(), c, testNamespace, testSecret, FingerprintOf(yearCA(t).cert))
	if mentions(err, "full", "pillion-system/pillion-ca") != nil {
		t.Errorf("got %v", err)
	}
	full, err := parseRevocations(secret.Data[secretRevokedKey])
	if err != nil || len(full.union(revocations{{fingerprint: FingerprintOf(yearCA(t).cert)}})) != maxRevoked {
		t.Errorf("the list grows over its bound (%v)", err)
	}
}

func TestRevokeNamesTheMissingPermissionOrSecret(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if err := Revoke(t.Context(), c, testNamespace, testSecret, Fingerprint{}); !apierrors.IsNotFound(err) || mentions(err, "secret pillion-system/pillion-ca") != nil {
		t.Errorf("got %v", err)
	}
	c = newCluster(t, secretOf(t, yearCA(t)))
	c.deny("update secrets", true)
	if err := Revoke(t.Context(), c, testNamespace, testSecret, Fingerprint{}); mentions(err, "secret pillion-system/pillion-ca", "forbidden") != nil {
		t.Errorf("got %v", err)
	}
}

func TestFingerprintsAreReadAsOpensslPrintsThem(t *testing.T) {
	t.Parallel()
	want := FingerprintOf(yearCA(t).cert)
	var colons []string
	for i := 0; i < 64; i += 2 {
		colons = append(colons, strings.ToUpper(want.String()[i:i+2]))
	}
	for _, text := range []string{want.String(), strings.ToUpper(want.String()), strings.Join(colons, ":"), "sha256 Fingerprint=" + strings.Join(colons, ":"), " " + want.String() + "\n"} {
		if got, err := ParseFingerprint(text); err != nil || got != want {
			t.Errorf("%q is read as %s (%v)", text, got, err)
		}
	}
	for _, text := range []string{"", "abcd", "sha1 Fingerprint=" + want.String(), want.String() + "ab", "zz" + want.String()[2:]} {
		if got, err := ParseFingerprint(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

// Revocations merge in any order to the same, and none is ever taken back or put off.
func TestRevocationLaws(t *testing.T) {
	t.Parallel()
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := rapid.Custom(func(t *rapid.T) revocation {
		r := revocation{fingerprint: Fingerprint{rapid.ByteRange(0, 5).Draw(t, "CA")}}
		if n := rapid.IntRange(0, 5).Draw(t, "from"); n > 0 {
			r.from = base.Add(time.Duration(n) * time.Second)
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		a := revocations{}.union(rapid.SliceOf(one).Draw(t, "a"))
		b := revocations{}.union(rapid.SliceOf(one).Draw(t, "b"))
		ab, ba := a.union(b), b.union(a)
		if len(ab) != len(ba) {
			t.Fatalf("%d and %d revocations", len(ab), len(ba))
		}
		for _, r := range ab {
			for _, other := range ba {
				if r.fingerprint == other.fingerprint && !r.from.Equal(other.from) {
					t.Fatalf("the order matters: %v, %v", r, other)
				}
			}
		}
		back, err := parseRevocations(ab.encode())
		if err != nil || !bytes.Equal(back.encode(), ab.encode()) {
			t.Fatalf("read back %v (%v), want %v", back, err, ab)
		}
		decided := ab.decided(nil, base)
		for i, r := range decided {
			if r.from.IsZero() || r.from.After(base.Add(revokedGrace+time.Second)) || !ab[i].from.IsZero() && r.from.After(ab[i].from) {
				t.Fatalf("%v becomes %v", ab[i], r)
			}
		}
		if again := decided.decided(nil, base); !bytes.Equal(again.encode(), decided.encode()) {
			t.Fatal("deciding twice changes the list")
		}
	})
}

func FuzzRevocations(f *testing.F) {
	f.Add([]byte(manyRevocations(3)))
	f.Add([]byte(strings.Repeat("AB:", 31) + "AB 2026-01-02T03:04:05Z\nx\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseRevocations(data)
		if len(list) > maxRevoked {
			t.Fatalf("%d revocations", len(list))
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Fatalf("the error has %d bytes", len(err.Error()))
		}
		back, err := parseRevocations(list.encode())
		if err != nil || !bytes.Equal(back.encode(), list.encode()) {
			t.Fatalf("read back %q (%v), want %q", back.encode(), err, list.encode())
		}
	})
}

// The Secret has the revoked CA again, and no replica may repair the Secret: what the
// replicas remember counts.
func TestARevokedCAStaysAwayEvenIfTheSecretCannotBeRepaired(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(data map[string][]byte, foreign *ca){
		"beside the others": func(data map[string][]byte, foreign *ca) {
			data[secretTrustedKey] = append(data[secretTrustedKey], pemOf(foreign)...)
		},
		"as the CA that signs": func(data map[string][]byte, foreign *ca) {
			if err := writeCA(data, foreign, "tls.crt", "tls.key"); err != nil {
				panic(err)
			}
			data[secretCAKey] = data["tls.crt"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				s := c.run(nil)
				current, foreign := readyAndPublished(t, c, s), yearCA(t)
				c.revoke(foreign)
				time.Sleep(2 * time.Second)
				c.deny("update secrets", true)
				secret := c.secret().DeepCopy()
				delete(secret.Data, secretRevokedKey)
				change(secret.Data, foreign)
				secret.ResourceVersion = following(secret.ResourceVersion)
				if err := c.Tracker().Update(secrets, secret, testNamespace); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
					c.staysWithout(time.Second, foreign)
					if err := c.published(pemOf(current)); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/state"
)

// knowing returns a replica that says what it knows of a CA.
func knowing(name string, provider certs.ProviderStatus, fingerprint string, now func() certs.AuthorityState) inspect.Replica {
	return inspect.NewReplica(name, func(_ context.Context, path string) ([]byte, error) {
		if path != state.Path {
			return nil, nil
		}
		c := state.Certificates{
			Provider: provider.Name, Secret: provider.Secret, Publishes: provider.Publishes,
			Published: []state.Published{{Kind: "MutatingWebhookConfiguration", Name: "pillion", Verifies: true}},
		}
		if s := now(); s != "" {
			c.Authorities = []state.Authority{{Fingerprint: fingerprint, State: string(s), Until: new(time.Unix(1_900_000_000, 0).UTC())}}
		}
		return json.Marshal(state.State{Certificates: c})
	})
}

// silent is a replica that does not answer.
func silent(name string) inspect.Replica {
	return inspect.NewReplica(name, func(context.Context, string) ([]byte, error) { return nil, errors.New("no route") })
}

func always(state certs.AuthorityState) func() certs.AuthorityState {
	return func() certs.AuthorityState { return state }
}

func ownSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "pillion-ca"}, Data: map[string][]byte{"note": []byte("mine")}}
}

var ownProvider = certs.ProviderStatus{Name: selfSigned, Secret: "pillion-ca", Publishes: true}

func fingerprintIn(t *testing.T, bundle []byte) string {
	t.Helper()
	cas := check.TrustedCAs(bundle)
	if len(cas) != 1 {
		t.Fatalf("%d CAs", len(cas))
	}
	return certs.FingerprintOf(cas[0]).String()
}

// What list cannot know is an error of its exit code: the states are the replicas' to tell.
func TestListEndsWithAnErrorWhereNoReplicaAnswers(t *testing.T) {
	fingerprint := fingerprintIn(t, aBundle())
	for name, c := range map[string]struct {
		replicas []inspect.Replica
		want     error
		says     string
	}{
		"none":                {nil, errRefused, "no replicas: no running pod in namespace own"},
		"all answer":          {[]inspect.Replica{knowing("a", ownProvider, fingerprint, always(certs.SigningAuthority))}, nil, "signing"},
		"one does not answer": {[]inspect.Replica{knowing("a", ownProvider, fingerprint, always(certs.SigningAuthority)), silent("b")}, errRefused, "no answer: b: "},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := look(t.Context(), withWebhooks(t, ownConfiguration(aBundle())), c.replicas)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := found.list(&out, "own"); !errors.Is(err, c.want) || !strings.Contains(out.String(), c.says) || !strings.Contains(out.String(), fingerprint) {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}

// Revoke writes the fingerprint, and waits for every caBundle and every replica.
func TestRevokeWaitsUntilNoCABundleHasTheCA(t *testing.T) {
	bundle := aBundle()
	fingerprint := fingerprintIn(t, bundle)
	for name, digits := range map[string]string{"whole": fingerprint, "eight digits": fingerprint[:8]} {
		t.Run(name, func(t *testing.T) {
			client, cluster := fake.NewClientset(ownSecret()), withWebhooks(t, ownConfiguration(bundle))
			var seen atomic.Bool
			client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
				secret := action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret)
				if string(secret.Data["revoked"]) != fingerprint+"\n" || string(secret.Data["note"]) != "mine" {
					t.Errorf("written: %q", secret.Data)
				}
				time.AfterFunc(300*time.Millisecond, func() {
					seen.Store(true)
					configurations := cluster.Objects.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"})
					if _, err := configurations.Patch(t.Context(), "pillion", types.JSONPatchType, []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`), metav1.PatchOptions{}); err != nil {
						t.Error(err)
					}
				})
				return false, nil, nil
			})
			now := func() certs.AuthorityState {
				if seen.Load() {
					return certs.RevokedAuthority
				}
				return certs.SigningAuthority
			}
			var out bytes.Buffer
			r := revocation{where: inspect.Place{Namespace: "own"}, digits: digits, timeout: 10 * time.Second}
			err := r.run(t.Context(), &out, cluster, client, []inspect.Replica{knowing("a", ownProvider, fingerprint, now), knowing("b", ownProvider, fingerprint, now)})
			if err != nil || !seen.Load() || !strings.Contains(out.String(), "no caBundle has it: 1 webhook configurations, 2 replicas") {
				t.Errorf("got %v after the caBundle was written: %t\n%s", err, seen.Load(), &out)
			}
		})
	}
}

func TestRevokeFailsAndNamesWhatIsMissing(t *testing.T) {
	bundle := aBundle()
	fingerprint := fingerprintIn(t, bundle)
	signing := func(p certs.ProviderStatus) []inspect.Replica {
		return []inspect.Replica{knowing("a", p, fingerprint, always(certs.SigningAuthority))}
	}
	forbid := func(verb string) func(*fake.Clientset) {
		return func(c *fake.Clientset) {
			c.PrependReactor(verb, "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "pillion-ca", fmt.Errorf(`User "jane" cannot %s resource "secrets" in API group "" in the namespace "own"`, verb))
			})
		}
	}
	for _, test := range []struct {
		name     string
		digits   string
		secret   string
		replicas []inspect.Replica
		change   func(*fake.Clientset)
		want     []string // in output or error
	}{
		{"the caBundle keeps the CA", fingerprint, "", signing(ownProvider), nil,
			[]string{"still in the caBundle: mutatingwebhookconfiguration/pillion, entry requested.pillion.dev", "has not seen the revocation: a", "not gone everywhere"}},
		{"no replica answers", fingerprint, "", []inspect.Replica{silent("gone")}, nil, []string{"--secret"}},
		{"no replica answers, and the Secret is named", fingerprint, "pillion-ca", []inspect.Replica{silent("gone")}, nil, []string{"revoked " + fingerprint, "still in the caBundle"}},
		{"an unknown prefix", "00000000", "", signing(ownProvider), nil, []string{"no CA has a fingerprint that begins with 00000000"}},
		{"no permission to get", fingerprint, "", signing(ownProvider), forbid("get"), []string{"you lack the right to get secrets in namespace own", "--user=jane"}},
		{"no permission to update", fingerprint, "", signing(ownProvider), forbid("update"), []string{"you lack the right to update secrets in namespace own", "--user=jane"}},
		{"no Secret", fingerprint, "other", signing(ownProvider), nil, []string{"secret own/other", "not found"}},
		{"cainjector", fingerprint, "", signing(certs.ProviderStatus{Name: certManager, Secret: "pillion-serving"}), nil,
			[]string{"kubectl -n own delete secret pillion-serving-ca", "in the caBundle: mutatingwebhookconfiguration/pillion", "is not revoked"}},
		{"files", fingerprint, "", signing(certs.ProviderStatus{Name: files}), nil, []string{"    kubectl edit mutatingwebhookconfiguration/pillion\n", "is not revoked"}},
		{"cert-manager, and the CA signs", fingerprint, "", signing(certs.ProviderStatus{Name: certManager, Secret: "pillion-ca", Publishes: true}), nil,
			[]string{"until cert-manager has issued", "kubectl -n own delete secret pillion-ca-ca", "revoked " + fingerprint}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset(ownSecret())
			if test.change != nil {
				test.change(client)
			}
			var out bytes.Buffer
			r := revocation{where: inspect.Place{Namespace: "own"}, digits: test.digits, secret: test.secret, timeout: 400 * time.Millisecond}
			err := r.run(t.Context(), &out, withWebhooks(t, ownConfiguration(bundle)), client, test.replicas)
			if err == nil {
				t.Error("revoke succeeds")
			}
			for _, want := range test.want {
				if text := out.String() + fmt.Sprint(err); !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
		})
	}
}

func TestAPrefixOfTwoFingerprintsIsRefused(t *testing.T) {
	r := revocation{digits: "abcdef01"}
	_, err := r.resolve([]*authority{{fingerprint: "abcdef01" + strings.Repeat("0", 56)}, {fingerprint: "abcdef01" + strings.Repeat("1", 56)}})
	if err == nil || !strings.Contains(err.Error(), "2 CAs") {
		t.Errorf("got %v", err)
	}
}

func TestStatusListsTheCAsWithTheirStates(t *testing.T) {
	bundle := aBundle()
	fingerprint := fingerprintIn(t, bundle)
	for s, want := range map[certs.AuthorityState]string{
		certs.SigningAuthority: fingerprint + "  signing  2030-03-17T17:46:40Z  1 ",
		certs.RevokedAuthority: fingerprint + "  revoked, leaving  2030-03-17T17:46:40Z  1 ",
		"":                     fingerprint + "  in a caBundle only  unknown  1 ",
	} {
		out, sound := statusText(t, withWebhooks(t, ownConfiguration(bundle)), inspect.AskAll(t.Context(), []inspect.Replica{knowing("a", ownProvider, fingerprint, always(s))}))
		if !sound || !strings.Contains(out, want) || !strings.Contains(out, "O=Acme Co") {
			t.Errorf("%q: want %q in\n%s", s, want, out)
		}
	}
}

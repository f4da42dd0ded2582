package certs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
)

// newValidating has one entry that calls the Service.
func newValidating(name string) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Webhooks:   []admissionv1.ValidatingWebhook{{Name: "required.pillion.dev", ClientConfig: newConfiguration().Webhooks[0].ClientConfig}},
	}
}

// If all replicas left the Service because one configuration is gone, the other
// configurations would reach no replica.
func TestAReadyReplicaStaysReadyWhileAnyEntryVerifiesItsLeaf(t *testing.T) {
	t.Parallel()
	remove := func(c *cluster, kinds ...string) {
		for _, kind := range kinds {
			resource, name := configurations, testWebhook
			if kind == "validating" {
				resource, name = validations, "final"
			}
			if err := c.Tracker().Delete(resource, "", name); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	for _, damage := range []struct {
		name   string
		do     func(c *cluster)
		ready  bool
		named  []string // configurations that the status and the log name
		reason string
	}{
		{"one configuration is deleted", func(c *cluster) { remove(c, "validating") }, true, []string{"validatingwebhookconfiguration final"}, "not found"},
		{"the other configuration is deleted", func(c *cluster) { remove(c, "mutating") }, true, []string{"mutatingwebhookconfiguration pillion"}, "not found"},
		{"both are deleted", func(c *cluster) { remove(c, "mutating", "validating") }, true, []string{"mutatingwebhookconfiguration pillion", "validatingwebhookconfiguration final"}, "not found"},
		{"no entry calls the Service any more", func(c *cluster) {
			remove(c, "validating")
			c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks = nil })
		}, true, []string{"mutatingwebhookconfiguration pillion"}, "none of its entries calls service"},
		{"one entry is emptied for good", func(c *cluster) {
			remove(c, "validating")
			c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
		}, true, []string{"mutatingwebhookconfiguration pillion"}, "entry requested.pillion.dev: its caBundle is empty"},
		{"all existing entries are emptied for good", func(c *cluster) {
			remove(c, "validating")
			c.edit(emptied)
		}, false, []string{"mutatingwebhookconfiguration pillion", "validatingwebhookconfiguration final"}, "caBundle is empty"},
	} {
		t.Run(damage.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration(), newValidating("final"))
				var log logtest.Log
				s := c.run(func(o *SelfSignedOptions) {
					o.WebhookConfigurations = append(o.WebhookConfigurations, WebhookConfiguration{Validating, "final"})
					o.Logger = log.Logger()
				})
				runtest.Eventually(t, s.Ready)
				c.deny("patch mutatingwebhookconfigurations", true)
				damage.do(c)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if err := s.Ready(); (err == nil) != damage.ready {
					t.Errorf("ten minutes later Ready says %v, want ready: %t", err, damage.ready)
				}
				all := errors.Join(slices.Collect(maps.Values(s.configurations()))...)
				if err := mentions(all, damage.reason); err != nil {
					t.Error(err)
				}
				for _, name := range damage.named {
					if n := strings.Count(log.String(), fmt.Sprintf("cannot verify the serving certificate\" object=%q", name)); n != 1 {
						t.Errorf("the log names %s %d times, want once:\n%s", name, n, &log)
					}
				}
			})
		})
	}
}

// problemsOf lists the problems of the status, one "OBJECT (OPERATION): ERROR" a line.
func problemsOf(s *Source) string {
	s.problems.mu.Lock()
	defer s.problems.mu.Unlock()
	var lines []string
	for object, f := range s.problems.present {
		if object != subjectStart {
			lines = append(lines, fmt.Sprintf("%s (%s): %s", object, f.operation, f.err))
		}
	}
	return strings.Join(lines, "\n")
}

func TestALostPermissionIsNamedBeforeAnythingNeedsThePermission(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		s := c.run(nil)
		runtest.Eventually(t, s.Ready)
		if got := problemsOf(s); got != "" {
			t.Errorf("without any failure the problems are\n%s", got)
		}
		c.deny("update secrets", true)
		time.Sleep(2 * permissionInterval)
		want := `update secrets pillion-ca in namespace pillion-system (permission): missing permission: update secrets pillion-ca in namespace pillion-system (the chart grants it with certs.provider=self-signed)`
		if got := problemsOf(s); got != want {
			t.Errorf("the problems are\n%s\nwant\n%s", got, want)
		}
		if n := failuresOf(s, failedPermission); n != 1 {
			t.Errorf("%d failures are counted, want that the same failure counts once", n)
		}
		if err := s.Ready(); err != nil {
			t.Errorf("the problem costs readiness: %v", err)
		}
		c.deny("update secrets", false)
		time.Sleep(2 * permissionInterval)
		if got := problemsOf(s); got != "" {
			t.Errorf("after the permission was granted again the problems are\n%s", got)
		}
	})
}

func TestAProblemStaysNamedWhileALeafIsServed(t *testing.T) {
	t.Parallel()
	remove := func(c *cluster) {
		if err := c.Tracker().Delete(secrets, testNamespace, testSecret); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *cluster) (s *Source, damage func())
		want []string
	}{
		{"self-signed: the CA's Secret cannot be made again", func(t *testing.T, c *cluster) (*Source, func()) {
			return c.run(nil), func() {
				c.deny("create secrets", true)
				remove(c)
			}
		}, []string{"secret pillion-system/pillion-ca (secret): writing the secret: missing permission: create secrets"}},
		{"cert-manager: the serving Secret is deleted", func(t *testing.T, c *cluster) (*Source, func()) {
			issuer := yearCA(t)
			if err := c.Tracker().Add(servingSecret(t, newLeaf(t, issuer, testDNSName, time.Hour))); err != nil {
				t.Fatal(err)
			}
			c.inject(issuer)
			return c.runCertManager(nil), func() { remove(c) }
		}, []string{"secret pillion-system/pillion-ca (secret): not found; cert-manager makes it", "the last certificate stays in use, which ends at "}},
		{"files: a key that does not fit", func(t *testing.T, c *cluster) (*Source, func()) {
			issuer, dir := yearCA(t), t.TempDir()
			mount(t, dir, "1", newLeaf(t, issuer, testDNSName, time.Hour))
			c.inject(issuer)
			return c.runFiles(dir), func() {
				broken := newLeaf(t, issuer, testDNSName, time.Hour)
				broken.tls.PrivateKey = newLeaf(t, issuer, testDNSName, time.Hour).tls.PrivateKey
				mount(t, dir, "2", broken)
			}
		}, []string{"tls.key (files): ", "the last good pair stays in use"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				s, damage := test.run(t, c)
				runtest.Eventually(t, s.Ready)
				damage()
				time.Sleep(time.Minute)
				if err := mentions(errors.New(problemsOf(s)), test.want...); err != nil {
					t.Error(err)
				}
				if err := s.Ready(); err != nil {
					t.Errorf("the problem costs readiness: %v", err)
				}
				registry := prometheus.NewPedanticRegistry()
				registry.MustRegister(s)
				if n, err := testutil.GatherAndCount(registry, "pillion_certificate_problem"); n != 1 || err != nil {
					t.Errorf("%d problems are among the metrics (%v), want 1", n, err)
				}
			})
		})
	}
}

// failuresOf returns how often an operation of a source has failed.
func failuresOf(s *Source, operation string) int64 {
	s.problems.mu.Lock()
	defer s.problems.mu.Unlock()
	return s.problems.failures[operation]
}

const patchConfigurations = "patch mutatingwebhookconfigurations"

// unready are causes that keep a replica from readiness: what the replica says of each, and what mends it.
var unready = map[string]struct {
	says []string
	run  func(t *testing.T, c *cluster) *Source
	mend func(c *cluster)
}{
	"no configuration": {[]string{"mutatingwebhookconfiguration pillion: not found"}, func(t *testing.T, c *cluster) *Source {
		if err := c.Tracker().Delete(configurations, "", testWebhook); err != nil {
			t.Fatal(err)
		}
		return c.run(nil)
	}, func(c *cluster) {
		if err := c.Tracker().Add(newConfiguration()); err != nil {
			c.t.Error(err)
		}
	}},
	"a configuration that does not call the Service": {[]string{"mutatingwebhookconfiguration pillion", "none of its entries calls service pillion-system/misspelled"}, func(_ *testing.T, c *cluster) *Source {
		return c.run(func(o *SelfSignedOptions) { o.Service = "misspelled" })
	}, nil},
	"missing permissions": {[]string{"missing permission", `watch secrets pillion-ca in namespace pillion-system (the chart grants it with certs.provider=self-signed)`,
		`patch mutatingwebhookconfigurations.admissionregistration.k8s.io pillion (the chart grants it with webhook.name=pillion and certs.provider=self-signed)`}, func(_ *testing.T, c *cluster) *Source {
		c.deny("watch secrets", true)
		c.deny(patchConfigurations, true)
		return c.run(nil)
	}, func(c *cluster) {
		c.deny("watch secrets", false)
		c.deny(patchConfigurations, false)
	}},
	"a permission that is lost when a write needs it": {[]string{"mutatingwebhookconfiguration pillion", "entry enforced.pillion.dev", "caBundle is empty", "publishing the CA bundle",
		`missing permission: patch mutatingwebhookconfigurations.admissionregistration.k8s.io pillion (the chart grants it with webhook.name=pillion`, "forbidden"}, func(t *testing.T, c *cluster) *Source {
		s := c.run(nil)
		readyAndPublished(t, c, s)
		c.deny(patchConfigurations, true)
		c.edit(emptied)
		return s
	}, nil},
	"a refused bundle": {[]string{"publishing the CA bundle", "is invalid"}, func(_ *testing.T, c *cluster) *Source {
		c.PrependReactor("patch", configurations.Resource, func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInvalid(admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration").GroupKind(), testWebhook, field.ErrorList{field.Forbidden(field.NewPath("webhooks"), "no")})
		})
		return c.run(nil)
	}, nil},
	"cert-manager: a missing permission": {[]string{`update secrets pillion-ca in namespace pillion-system`, "certs.certManager.publish=true"}, func(_ *testing.T, c *cluster) *Source {
		c.deny("update secrets", true)
		return c.runCertManager(func(o *CertManagerOptions) { o.Publish = true })
	}, nil},
	"cert-manager: no Secret": {[]string{"secret pillion-system/pillion-ca: not found", "kubectl -n pillion-system describe certificates"}, func(_ *testing.T, c *cluster) *Source {
		return c.runCertManager(func(o *CertManagerOptions) { o.Publish = true })
	}, nil},
	"files: none": {[]string{"/tls.crt", "no such file"}, func(t *testing.T, c *cluster) *Source { return c.runFiles(t.TempDir()) }, nil},
}

func TestWhatKeepsAReplicaFromReadinessIsNamed(t *testing.T) {
	t.Parallel()
	for name, cause := range unready {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration())
				s := cause.run(t, c)
				runtest.Eventually(t, func() error { return mentions(s.Ready(), cause.says...) })
				if cause.mend != nil {
					cause.mend(c)
					readyAndPublished(t, c, s)
				}
			})
		})
	}
}

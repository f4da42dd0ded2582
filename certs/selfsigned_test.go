package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const testDNSName = testService + "." + testNamespace + ".svc"

// published fails unless every entry has the caBundle want.
func (c *cluster) published(want []byte) error {
	for _, entry := range c.configuration().Webhooks {
		if !bytes.Equal(entry.ClientConfig.CABundle, want) {
			return fmt.Errorf("entry %s has the caBundle\n%s\nwant\n%s", entry.Name, entry.ClientConfig.CABundle, want)
		}
	}
	return nil
}

func served(t testing.TB, s *SelfSigned) *tls.Certificate {
	t.Helper()
	certificate, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func readyAndPublished(t testing.TB, c *cluster, s *SelfSigned) *ca {
	t.Helper()
	eventually(t, s.Ready)
	current, err := caFromSecret(c.secret())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return c.published(pemOf(current)) })
	return current
}

func TestAFreshInstallBecomesReadyWithAPublishedCA(t *testing.T) {
	c := newCluster(t, newConfiguration())
	s := c.run(nil)
	current := readyAndPublished(t, c, s)
	if err := verify(served(t, s).Leaf, pemOf(current), testDNSName, time.Now()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{testDNSName, testDNSName + ".cluster.local", testService + "." + testNamespace} {
		if err := served(t, s).Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	expiry, ok := s.ExpiryTime()
	if left := time.Until(expiry); !ok || left < 167*time.Hour || left > 168*time.Hour {
		t.Errorf("the certificate ends in %s (%t), want a week", left, ok)
	}
	want := newConfiguration()
	got := c.configuration().DeepCopy()
	for i := range got.Webhooks {
		got.Webhooks[i].ClientConfig.CABundle = nil
	}
	got.ResourceVersion, got.ManagedFields = want.ResourceVersion, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("more than the caBundle has changed (-before +after):\n%s", diff)
	}
}

func TestReplicasStartedTogetherAgreeOnOneCA(t *testing.T) {
	c := newCluster(t, newConfiguration())
	var replicas []*SelfSigned
	for range 5 {
		replicas = append(replicas, c.run(nil))
	}
	current := readyAndPublished(t, c, replicas[0])
	for i, s := range replicas {
		eventually(t, s.Ready)
		if err := verify(served(t, s).Leaf, pemOf(current), testDNSName, time.Now()); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	if err := c.published(pemOf(current)); err != nil {
		t.Errorf("the bundle did not stay: %v", err)
	}
}

func TestADamagedCABundleIsRestoredWithinASecond(t *testing.T) {
	for _, damage := range []struct {
		name   string
		change func(*admissionv1.MutatingWebhookConfiguration)
	}{
		{"emptied in every entry", func(m *admissionv1.MutatingWebhookConfiguration) {
			for i := range m.Webhooks {
				m.Webhooks[i].ClientConfig.CABundle = nil
			}
		}},
		{"text in one entry", func(m *admissionv1.MutatingWebhookConfiguration) {
			m.Webhooks[1].ClientConfig.CABundle = []byte("none")
		}},
		{"a foreign CA beside the right one", func(m *admissionv1.MutatingWebhookConfiguration) {
			m.Webhooks[0].ClientConfig.CABundle = append(pemOf(yearCA(t)), m.Webhooks[0].ClientConfig.CABundle...)
		}},
		{"an entry added without one", func(m *admissionv1.MutatingWebhookConfiguration) {
			entry := m.Webhooks[0].DeepCopy()
			entry.Name, entry.ClientConfig.CABundle = "third.pillion.dev", nil
			m.Webhooks = append(m.Webhooks, *entry)
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			c := newCluster(t, newConfiguration())
			s := c.run(nil)
			current := readyAndPublished(t, c, s)
			before := c.written()
			start := time.Now()
			c.edit(damage.change)
			eventually(t, func() error { return c.published(pemOf(current)) })
			if c.written() == before {
				t.Error("the damage did not need healing")
			}
			eventually(t, s.Ready)
			if took := time.Since(start); took > time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestNothingIsWrittenWhenTheBundleIsRight(t *testing.T) {
	c := newCluster(t, newConfiguration())
	readyAndPublished(t, c, c.run(nil))
	before := c.written()
	c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Labels["touched"] = "true" })
	time.Sleep(1500 * time.Millisecond)
	if after := c.written(); after != before {
		t.Errorf("%d patches were written although every caBundle was right", after-before)
	}
}

func TestAWriteThatComesTooLateIsTriedAgainOnTheNewVersion(t *testing.T) {
	c := newCluster(t, newConfiguration())
	c.late = 3
	readyAndPublished(t, c, c.run(nil))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != 0 {
		t.Errorf("%d of 3 conflicts did not happen", c.late)
	}
	for _, patch := range c.patches {
		if !strings.Contains(patch, "resourceVersion") {
			t.Errorf("a patch does not say to which version it applies: %s", patch)
		}
	}
}

func TestAConfigurationThatDoesNotExistYetIsNamedAndThenServed(t *testing.T) {
	c := newCluster(t)
	s := c.run(nil)
	eventually(t, func() error { return mentions(s.Ready(), "mutatingwebhookconfiguration pillion: not found") })
	if _, err := s.GetCertificate(nil); err != nil {
		t.Errorf("no certificate without a configuration: %v", err)
	}
	if err := c.Tracker().Add(newConfiguration()); err != nil {
		t.Fatal(err)
	}
	readyAndPublished(t, c, s)
}

func mentions(err error, words ...string) error {
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			return fmt.Errorf("the error %q does not mention %q", fmt.Sprint(err), w)
		}
	}
	return nil
}

func TestMissingPermissionsAreNamedAndPickedUpWhenGranted(t *testing.T) {
	c := newCluster(t, newConfiguration())
	c.deny("watch secrets", true)
	c.deny("patch mutatingwebhookconfigurations", true)
	s := c.run(nil)
	eventually(t, func() error {
		return mentions(s.Ready(), "missing permission", `watch secrets "pillion-ca" in namespace "pillion-system" (granted by the chart's Role)`,
			`patch mutatingwebhookconfigurations.admissionregistration.k8s.io "pillion" (granted by the chart's ClusterRole)`)
	})
	c.deny("watch secrets", false)
	c.deny("patch mutatingwebhookconfigurations", false)
	readyAndPublished(t, c, s)
}

func TestAPermissionTakenAwayLaterIsNamed(t *testing.T) {
	c := newCluster(t, newConfiguration())
	s := c.run(nil)
	readyAndPublished(t, c, s)
	c.deny("patch mutatingwebhookconfigurations", true)
	c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[1].ClientConfig.CABundle = nil })
	eventually(t, func() error {
		return mentions(s.Ready(), "mutatingwebhookconfiguration pillion", "entry enforced.pillion.dev", "caBundle is empty", "publishing the CA bundle", "forbidden")
	})
}

func TestANewCAIsPublishedBesideTheOldOneBeforeItsLeafIsServed(t *testing.T) {
	c := newCluster(t, newConfiguration())
	s := c.run(func(o *SelfSignedOptions) { o.Settle = 2 * time.Second })
	first, second := readyAndPublished(t, c, s), yearCA(t)
	c.rotate(second)
	eventually(t, func() error { return c.published(pemOf(second, first)) })
	confirmed := time.Now()
	for time.Since(confirmed) < 1500*time.Millisecond {
		if err := verify(served(t, s).Leaf, pemOf(first), testDNSName, time.Now()); err != nil {
			t.Fatalf("%s after its CA was published the new leaf is served, want 2s: %v", time.Since(confirmed), err)
		}
		if err := s.Ready(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	eventually(t, func() error { return verify(served(t, s).Leaf, pemOf(second), testDNSName, time.Now()) })
	if err := c.published(pemOf(second, first)); err != nil {
		t.Errorf("the old CA is gone while other replicas may still serve its leaves: %v", err)
	}
}

func TestADeletedSecretCostsNoTrustInTheLeafThatIsServed(t *testing.T) {
	c := newCluster(t, newConfiguration())
	s := c.run(func(o *SelfSignedOptions) { o.Settle = time.Minute })
	first := readyAndPublished(t, c, s)
	if err := c.CoreV1().Secrets(testNamespace).Delete(context.Background(), testSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if c.secret() == nil {
			return fmt.Errorf("the Secret is not there again")
		}
		second, err := caFromSecret(c.secret())
		if err != nil {
			return err
		}
		return c.published(pemOf(second, first))
	})
	if err := verify(served(t, s).Leaf, pemOf(first), testDNSName, time.Now()); err != nil {
		t.Errorf("the new CA's leaf is served at once: %v", err)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
}

func TestASecretDeletedDuringAChangeOfCAsLosesNoneOfThem(t *testing.T) {
	c := newCluster(t, newConfiguration())
	long := func(o *SelfSignedOptions) { o.Settle = time.Minute }
	replicas := []*SelfSigned{c.run(long), c.run(long), c.run(long)}
	first, second := readyAndPublished(t, c, replicas[0]), yearCA(t)
	c.rotate(second)
	eventually(t, func() error { return c.published(pemOf(second, first)) })
	time.Sleep(50 * time.Millisecond)
	if err := c.CoreV1().Secrets(testNamespace).Delete(context.Background(), testSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if c.secret() == nil {
			return fmt.Errorf("the Secret is not there again")
		}
		third, err := caFromSecret(c.secret())
		if err != nil {
			return err
		}
		return c.published(pemOf(third, second, first))
	})
}

func TestABrokenSecretLeavesBundleAndLeafAlone(t *testing.T) {
	c := newCluster(t, newConfiguration())
	s := c.run(nil)
	first := readyAndPublished(t, c, s)
	broken := c.secret().DeepCopy()
	broken.Data = map[string][]byte{"tls.crt": []byte("x")}
	if _, err := c.CoreV1().Secrets(testNamespace).Update(context.Background(), broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
	eventually(t, func() error { return c.published(pemOf(first)) })
	eventually(t, s.Ready)
}

func TestWithoutAnyConfigurationALeafIsAllItTakes(t *testing.T) {
	c := newCluster(t)
	s := c.run(func(o *SelfSignedOptions) { o.WebhookConfigurations = nil })
	eventually(t, s.Ready)
}

func TestBeforeItRunsItIsNotReadyAndServesNothing(t *testing.T) {
	s, err := NewSelfSigned(SelfSignedOptions{
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"}, Namespace: testNamespace, SecretName: testSecret, Service: testService,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := mentions(s.Ready(), "not started yet"); err != nil {
		t.Error(err)
	}
	if _, err := s.GetCertificate(nil); err == nil {
		t.Error("a certificate before it runs")
	}
	if _, ok := s.ExpiryTime(); ok {
		t.Error("an expiry without a certificate")
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	good := SelfSignedOptions{RESTConfig: &rest.Config{}, Namespace: "a", SecretName: "b", Service: "c"}
	for _, c := range []struct {
		change func(*SelfSignedOptions)
		want   string
	}{
		{func(o *SelfSignedOptions) { o.RESTConfig = nil }, "RESTConfig"},
		{func(o *SelfSignedOptions) { o.Namespace = "" }, "Namespace"},
		{func(o *SelfSignedOptions) { o.SecretName = "" }, "SecretName"},
		{func(o *SelfSignedOptions) { o.Service = "" }, "Service"},
		{func(o *SelfSignedOptions) { o.WebhookConfigurations = []string{"x", ""} }, "WebhookConfigurations"},
		{func(o *SelfSignedOptions) { o.CADuration = time.Hour }, "CADuration"},
		{func(o *SelfSignedOptions) { o.LeafDuration = -time.Hour }, "LeafDuration"},
	} {
		o := good
		c.change(&o)
		if _, err := NewSelfSigned(o); mentions(err, c.want) != nil {
			t.Errorf("the error %v does not name %s", err, c.want)
		}
	}
}

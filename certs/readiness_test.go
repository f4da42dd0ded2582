package certs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// text gathers a log.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// newValidating has one entry that calls the Service.
func newValidating(name string) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Webhooks:   []admissionv1.ValidatingWebhook{{Name: "required.pillion.dev", ClientConfig: newConfiguration().Webhooks[0].ClientConfig}},
	}
}

// If all replicas left the Service because one configuration is gone, the others would
// find nobody.
func TestAReplicaThatWasReadyStaysSoWhileAnyEntryVerifiesIt(t *testing.T) {
	t.Parallel()
	remove := func(c *cluster, what ...string) {
		for _, kind := range what {
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
		{"the other one is deleted", func(c *cluster) { remove(c, "mutating") }, true, []string{"mutatingwebhookconfiguration pillion"}, "not found"},
		{"both are deleted", func(c *cluster) { remove(c, "mutating", "validating") }, true, []string{"mutatingwebhookconfiguration pillion", "validatingwebhookconfiguration final"}, "not found"},
		{"no entry calls the Service any more", func(c *cluster) {
			remove(c, "validating")
			c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks = nil })
		}, true, []string{"mutatingwebhookconfiguration pillion"}, "none of its entries calls service"},
		{"one entry is emptied for good", func(c *cluster) {
			remove(c, "validating")
			c.edit(func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = nil })
		}, true, []string{"mutatingwebhookconfiguration pillion"}, "entry requested.pillion.dev: its caBundle is empty"},
		{"all that exist are emptied for good", func(c *cluster) {
			remove(c, "validating")
			c.edit(func(m *admissionv1.MutatingWebhookConfiguration) {
				for i := range m.Webhooks {
					m.Webhooks[i].ClientConfig.CABundle = nil
				}
			})
		}, false, []string{"mutatingwebhookconfiguration pillion", "validatingwebhookconfiguration final"}, "caBundle is empty"},
	} {
		t.Run(damage.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, newConfiguration(), newValidating("final"))
				var log text
				s := c.run(func(o *SelfSignedOptions) {
					o.WebhookConfigurations = append(o.WebhookConfigurations, WebhookConfiguration{Validating, "final"})
					o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				})
				eventually(t, s.Ready)
				c.deny("patch mutatingwebhookconfigurations", true)
				damage.do(c)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if err := s.Ready(); (err == nil) != damage.ready {
					t.Errorf("ten minutes later Ready says %v, want ready: %t", err, damage.ready)
				}
				all := errors.Join(s.Status().Configurations[0].Err, s.Status().Configurations[1].Err)
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

func TestAConfigurationThatComesBackIsPublishedInAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		var log text
		s := c.run(func(o *SelfSignedOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		current := readyAndPublished(t, c, s)
		if err := c.Tracker().Delete(configurations, "", testWebhook); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		again := newConfiguration()
		again.ResourceVersion = "100"
		if err := c.Tracker().Add(again); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { return c.published(pemOf(current)) })
		time.Sleep(2 * checkInterval)
		if !strings.Contains(log.String(), "can verify the serving certificate again") {
			t.Errorf("the log does not say that it is well again:\n%s", &log)
		}
	})
}

func TestAReplicaThatWasNeverReadyWaitsForAllConfigurations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		s := c.run(func(o *SelfSignedOptions) {
			o.WebhookConfigurations = append(o.WebhookConfigurations, WebhookConfiguration{Validating, "final"})
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if err := mentions(s.Ready(), "validatingwebhookconfiguration final: not found"); err != nil {
			t.Error(err)
		}
	})
}

package certs

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsTellWhichConfigurationsVerifyTheLeaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newConfiguration())
		s := c.run(func(o *SelfSignedOptions) {
			o.WebhookConfigurations = append(o.WebhookConfigurations, WebhookConfiguration{Validating, "absent"})
		})
		eventually(t, func() error {
			stored, err := c.authorities()
			if err == nil {
				err = c.published(pemOf(stored.current))
			}
			return err
		})
		eventually(t, func() error { return mentions(s.Ready(), "validatingwebhookconfiguration absent: not found") })
		// The replica sees its own write later than the API server has it.
		eventually(t, func() error { return s.configurations()[WebhookConfiguration{Mutating, testWebhook}] })
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(s)
		err := testutil.GatherAndCompare(registry, strings.NewReader(`
	# HELP pillion_certificate_published 1 if the caBundle in every entry of the webhook configuration verifies the serving certificate.
	# TYPE pillion_certificate_published gauge
	pillion_certificate_published{configuration="absent",kind="ValidatingWebhookConfiguration"} 0
	pillion_certificate_published{configuration="pillion",kind="MutatingWebhookConfiguration"} 1
	# HELP pillion_certificate_authorities_made_total CAs that this replica made and stored.
	# TYPE pillion_certificate_authorities_made_total counter
	pillion_certificate_authorities_made_total 1
	`), "pillion_certificate_published", "pillion_certificate_authorities_made_total")
		if err != nil {
			t.Error(err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	})
}

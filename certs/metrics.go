package certs

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics collects a source's Status.
type metrics struct {
	status func() Status

	expires, caExpires, provider, authority, published, problem, rotations, handovers, made, failures *prometheus.Desc
}

// NewCollector returns the collector of a source's metrics.
func NewCollector(source Source) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pillion_certificate_"+name, help, labels, nil)
	}
	return &metrics{
		status:    source.Status,
		expires:   desc("expiry_timestamp_seconds", "When the serving certificate expires, in seconds since 1970; 0 while there is none."),
		caExpires: desc("authority_expiry_timestamp_seconds", "When the CA of the serving certificate expires, in seconds since 1970; 0 while it is not known."),
		provider:  desc("provider_info", "1, with the provider of the certificates, the name of its Secret, and whether Pillion writes the caBundles.", "provider", "secret", "publishes"),
		authority: desc("authority_until_timestamp_seconds", "Until when a CA is trusted, by fingerprint (SHA-256) and state (signing, next, trusted); for a CA that is revoked, since when it is not.", "fingerprint", "state"),
		published: desc("published", "1 if the caBundle in every entry of the webhook configuration verifies the serving certificate.", "kind", "configuration"),
		problem:   desc("problem", "1 for each current failure, by object and by operation (as in failures_total); the log says why.", "object", "operation"),
		rotations: desc("rotations_total", "Serving certificates that replaced another one."),
		handovers: desc("handovers_total", "Serving certificates among those that another CA signed."),
		made:      desc("authorities_made_total", "CAs that this replica made and stored."),
		failures:  desc("failures_total", "What failed, by operation (permission, secret, sign, publish, files); a repeated error counts once.", "operation"),
	}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.expires, m.caExpires, m.provider, m.authority, m.published, m.problem, m.rotations, m.handovers, m.made, m.failures} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	status := m.status()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(m.expires, seconds(status.Expires))
	gauge(m.caExpires, seconds(status.CAExpires))
	if p := status.Provider; p.Name != "" {
		gauge(m.provider, 1, p.Name, p.Secret, strconv.FormatBool(p.Publishes))
	}
	for _, a := range status.Authorities {
		gauge(m.authority, seconds(a.Until), a.Fingerprint.String(), string(a.State))
	}
	for _, c := range status.Configurations {
		value := 0.0
		if c.Err == nil {
			value = 1
		}
		gauge(m.published, value, string(c.Kind), c.Name)
	}
	for _, p := range status.Problems {
		gauge(m.problem, 1, p.Object, p.Operation)
	}
	counter(m.rotations, status.Rotations)
	counter(m.handovers, status.Handovers)
	counter(m.made, status.AuthoritiesMade)
	for _, operation := range slices.Sorted(maps.Keys(status.Failures)) {
		counter(m.failures, status.Failures[operation], operation)
	}
}

// seconds returns a time in seconds since 1970, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

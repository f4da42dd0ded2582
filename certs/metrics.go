package certs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pillion_certificate_"+name, help, labels, nil)
}

var (
	expiresDesc   = desc("expiry_timestamp_seconds", "When the serving certificate expires, in seconds since 1970; 0 while there is none.")
	caExpiresDesc = desc("authority_expiry_timestamp_seconds", "When the CA of the serving certificate expires, in seconds since 1970; 0 while it is not known.")
	publishedDesc = desc("published", "1 if the caBundle in every entry of the webhook configuration verifies the serving certificate.", "kind", "configuration")
	problemDesc   = desc("problem", "1 for each current failure, by object and by operation (as in failures_total); the log says why.", "object", "operation")
	rotationsDesc = desc("rotations_total", "Serving certificates that replaced another one.")
	creationsDesc = desc("authorities_made_total", "CAs that this replica made and stored.")
	failuresDesc  = desc("failures_total", "What failed, by operation (permission, secret, sign, publish, files); a repeated error counts once.", "operation")
)

// Describe implements [prometheus.Collector].
func (*Source) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{expiresDesc, caExpiresDesc, publishedDesc, problemDesc, rotationsDesc, creationsDesc, failuresDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *Source) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	var expires, caExpires time.Time
	if served := s.serving.leaf(); served != nil {
		expires = served.tls.Leaf.NotAfter
		if served.issuer != nil {
			caExpires = served.issuer.NotAfter
		}
	}
	gauge(expiresDesc, seconds(expires))
	gauge(caExpiresDesc, seconds(caExpires))
	for c, err := range s.configurations() {
		value := 0.0
		if err == nil {
			value = 1
		}
		gauge(publishedDesc, value, string(c.Kind), c.Name)
	}
	counter(rotationsDesc, s.serving.rotations.Load())
	counter(creationsDesc, s.creations.Load())
	s.problems.collect(gauge, counter)
}

// seconds returns a time in seconds since 1970, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

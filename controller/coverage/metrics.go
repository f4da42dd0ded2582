package coverage

import (
	"github.com/prometheus/client_golang/prometheus"
)

// others is the value of the label pod_namespace for all namespaces that are not named. No
// namespace can have this name.
const others = "(others)"

var (
	missingDesc = prometheus.NewDesc("pillion_pods_missing_injection",
		"Running pods without a sidecar that they would get if they were created now. The worst 20 namespaces have their names, the rest are together as (others).", []string{"pod_namespace"}, nil)
	outdatedDesc = prometheus.NewDesc("pillion_pods_outdated",
		"Running pods that Pillion would write otherwise if they were created now. The worst 20 namespaces have their names, the rest are together as (others).", []string{"pod_namespace"}, nil)
	podsDesc = prometheus.NewDesc("pillion_pods",
		"Pods with a template by version. ready is true for a pod with the condition Ready whose containers have not restarted for 10 minutes.",
		[]string{"template", "version", "ready"}, nil)
	scannedAtDesc = prometheus.NewDesc("pillion_coverage_last_success_timestamp_seconds",
		"When this replica last looked at all pods, in seconds since 1970. Absent until the first look, and where the right to list pods is missing.", nil, nil)
	skippedDesc = prometheus.NewDesc("pillion_coverage_skipped_pods",
		"Pods that the last look left out, because they are too large.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (c *Counter) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{missingDesc, outdatedDesc, podsDesc, scannedAtDesc, skippedDesc} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Counter) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last == nil {
		return
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	for desc, counts := range map[*prometheus.Desc]map[string]int{missingDesc: last.missing, outdatedDesc: last.outdated} {
		names, rest := largest(counts, maxNamespaces)
		for _, name := range names {
			gauge(desc, float64(counts[name]), name)
		}
		gauge(desc, float64(rest), others)
	}
	for of, n := range last.versions {
		gauge(podsDesc, float64(n.ready), of.template, of.name, "true")
		gauge(podsDesc, float64(n.notReady), of.template, of.name, "false")
	}
	gauge(scannedAtDesc, float64(last.at.UnixMilli())/1000)
	gauge(skippedDesc, float64(last.tooLarge))
}

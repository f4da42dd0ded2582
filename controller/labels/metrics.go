package labels

import "github.com/prometheus/client_golang/prometheus"

var (
	lackingDesc = prometheus.NewDesc("pillion_namespaces_missing_label",
		"Namespaces that should have a label of Pillion's and lack it, by label.", []string{"label"}, nil)
	failingDesc = prometheus.NewDesc("pillion_namespaces_failing_label",
		"Namespaces whose label cannot be set or removed, by label; the log says why.", []string{"label"}, nil)
	writesDesc = prometheus.NewDesc("pillion_namespace_label_writes_total",
		"Writes of labels of namespaces, by label and outcome (written, failed, conflict: another field manager owns it).", []string{"label", "outcome"}, nil)
)

// Describe implements [prometheus.Collector].
func (c *Controller) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lackingDesc, failingDesc, writesDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Controller) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lacking, failing := map[string]int{}, map[string]int{}
	for _, of := range c.pending {
		for _, change := range of.changes {
			if !change.TakesOff() {
				lacking[change.Key]++
			}
			if of.failed[change.Key] {
				failing[change.Key]++
			}
		}
	}
	for _, label := range c.options.Rules.Keys() {
		out <- prometheus.MustNewConstMetric(lackingDesc, prometheus.GaugeValue, float64(lacking[label]), label)
		out <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, float64(failing[label]), label)
	}
	for o, n := range c.writes {
		out <- prometheus.MustNewConstMetric(writesDesc, prometheus.CounterValue, float64(n), o.label, o.outcome)
	}
}

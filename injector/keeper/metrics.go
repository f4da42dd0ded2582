package keeper

import "github.com/prometheus/client_golang/prometheus"

// collector collects the state of a keeper.
type collector struct {
	keeper                   *Keeper
	lacking, failing, writes *prometheus.Desc
}

// Collector returns the collector of the keeper's metrics.
func (k *Keeper) Collector() prometheus.Collector {
	return &collector{
		keeper: k,
		lacking: prometheus.NewDesc("pillion_namespaces_missing_label",
			"Namespaces that should have a label of Pillion's and do not have it yet, by label.", []string{"label"}, nil),
		failing: prometheus.NewDesc("pillion_namespaces_failing_label",
			"Namespaces whose label cannot be put on or taken off, by label; the log says why.", []string{"label"}, nil),
		writes: prometheus.NewDesc("pillion_namespace_label_writes_total",
			"Writes of labels of namespaces, by label and outcome (written, failed, conflict: another field manager owns it).", []string{"label", "outcome"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lacking, c.failing, c.writes} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	counts := k.tasks.counts()
	for _, label := range k.options.Labels.Keys() {
		n := counts[label]
		if k.problem != (pause{}) {
			n.failing = max(n.failing, n.lacking) // those that were not tried, too
		}
		out <- prometheus.MustNewConstMetric(c.lacking, prometheus.GaugeValue, float64(n.lacking), label)
		out <- prometheus.MustNewConstMetric(c.failing, prometheus.GaugeValue, float64(n.failing), label)
	}
	for o, n := range k.writes {
		out <- prometheus.MustNewConstMetric(c.writes, prometheus.CounterValue, float64(n), o.label, o.outcome)
	}
}

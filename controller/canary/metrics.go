package canary

import "github.com/prometheus/client_golang/prometheus"

var (
	stoppedDesc = prometheus.NewDesc("pillion_template_canary_stopped",
		"1 for each canary of a template that this replica gives to no pod any more because it is stopped, else 0.", []string{"template"}, nil)
	workloadsDesc = prometheus.NewDesc("pillion_template_canary_workloads",
		"Workloads with pods of a canary, and of the stable version beside it, by whether the template's containers fail. Absent until the replica has looked, and while it cannot.",
		[]string{"template", "version", "state"}, nil)
	unwrittenDesc = prometheus.NewDesc("pillion_template_canary_stop_unwritten",
		"1 for each canary that this replica has stopped for itself because it cannot write the condition Stopped, else 0.", []string{"template"}, nil)
)

// The values of the labels version and state of pillion_template_canary_workloads.
const (
	versionCanary, versionStable = "canary", "stable"
	stateFailing, stateHealthy   = "failing", "healthy"
)

// Describe implements [prometheus.Collector].
func (w *Watcher) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{stoppedDesc, workloadsDesc, unwrittenDesc} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (w *Watcher) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	looks := w.looks
	w.mu.Unlock()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, c := range w.options.Templates().Canaries() {
		gauge(stoppedDesc, number(c.Stopped), c.Name)
		look, ok := looks[c.Name]
		if !ok || c.Version == nil || c.Version.Hash() != look.hash {
			continue
		}
		gauge(unwrittenDesc, number(look.unwritten), c.Name)
		if look.blind {
			continue
		}
		for version, n := range map[string]counts{versionCanary: look.canary, versionStable: look.stable} {
			gauge(workloadsDesc, n.failing, c.Name, version, stateFailing)
			gauge(workloadsDesc, n.all-n.failing, c.Name, version, stateHealthy)
		}
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

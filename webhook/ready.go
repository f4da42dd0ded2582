package webhook

import "github.com/prometheus/client_golang/prometheus"

// CheckRunning is the check of readiness that fails while the server is stopping.
const CheckRunning = "running"

var readyDesc = prometheus.NewDesc("pillion_ready", "1 for each check of readiness that passes, 0 for one that fails. The replica is ready when all pass, and /readyz says what is missing.", []string{"check"}, nil)

// Collector returns the collector of the server's readiness.
func (s *Server) Collector() prometheus.Collector { return readiness{s} }

type readiness struct{ server *Server }

// Describe implements [prometheus.Collector].
func (readiness) Describe(to chan<- *prometheus.Desc) { to <- readyDesc }

// Collect implements [prometheus.Collector].
func (r readiness) Collect(to chan<- prometheus.Metric) {
	emit := func(check string, passes bool) {
		value := 0.0
		if passes {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, value, check)
	}
	emit(CheckRunning, !r.server.stopping.Load())
	for _, c := range r.server.options.Checks {
		emit(c.Name, c.Ready() == nil)
	}
}

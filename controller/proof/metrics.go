package proof

import "github.com/prometheus/client_golang/prometheus"

// collector collects the state of a prover.
type collector struct {
	prover                  *Prover
	proven, proofs, failing *prometheus.Desc
}

// Collector returns the collector of the prover's metrics. The prover may be nil.
func (p *Prover) Collector() prometheus.Collector {
	return &collector{
		prover: p,
		proven: prometheus.NewDesc("pillion_enforcement_proven",
			"1 if pods through the API server came back injected, so that namespaces that ask may be enforced; otherwise 0.", nil, nil),
		proofs: prometheus.NewDesc("pillion_proofs_total",
			"Pods that were sent through the API server by dry run to prove that it has pods injected and final pods verified, by outcome.", []string{"outcome"}, nil),
		failing: prometheus.NewDesc("pillion_proof_failing",
			"1 while the last proof failed, by outcome; the log says what to do.", []string{"outcome"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.proven, c.proofs, c.failing} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	proven := 0.0
	if c.prover.Proven() {
		proven = 1
	}
	out <- prometheus.MustNewConstMetric(c.proven, prometheus.GaugeValue, proven)
	if c.prover == nil {
		return
	}
	c.prover.mu.Lock()
	defer c.prover.mu.Unlock()
	for outcome, n := range c.prover.counts {
		out <- prometheus.MustNewConstMetric(c.proofs, prometheus.CounterValue, float64(n), string(outcome))
	}
	for _, failure := range []*Failure{c.prover.last, c.prover.unverified} {
		if failure != nil {
			out <- prometheus.MustNewConstMetric(c.failing, prometheus.GaugeValue, 1, string(failure.Outcome))
		}
	}
}

package proof

import "github.com/prometheus/client_golang/prometheus"

var (
	provenDesc = prometheus.NewDesc("pillion_enforcement_proven",
		"1 if proofs show that API servers have pods injected, so that namespaces may become enforced; otherwise 0.", nil, nil)
	proofsDesc = prometheus.NewDesc("pillion_proofs_total",
		"Pods created by dry run to prove that API servers have pods injected, by result (succeeded, failed); the log says why.", []string{"result"}, nil)
)

// Describe implements [prometheus.Collector].
func (*Prover) Describe(out chan<- *prometheus.Desc) {
	out <- provenDesc
	out <- proofsDesc
}

// Collect implements [prometheus.Collector].
func (p *Prover) Collect(out chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	proven := 0.0
	if p.proven {
		proven = 1
	}
	out <- prometheus.MustNewConstMetric(provenDesc, prometheus.GaugeValue, proven)
	out <- prometheus.MustNewConstMetric(proofsDesc, prometheus.CounterValue, float64(p.succeeded), "succeeded")
	out <- prometheus.MustNewConstMetric(proofsDesc, prometheus.CounterValue, float64(p.failed), "failed")
}

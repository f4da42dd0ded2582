package proof

import "github.com/prometheus/client_golang/prometheus"

var (
	provenDesc = prometheus.NewDesc("pillion_enforcement_proven",
		"1 if a proof has shown that API servers have pods injected, so that namespaces may be enforced; otherwise 0.", nil, nil)
	proofsDesc = prometheus.NewDesc("pillion_proofs_total",
		"Pods created by dry run to prove that API servers have pods injected and final pods verified, by outcome.", []string{"outcome"}, nil)
	failingDesc = prometheus.NewDesc("pillion_proof_failing",
		"1 while the last proof failed, by outcome; the log says what to do.", []string{"outcome"}, nil)
)

// Describe implements [prometheus.Collector].
func (*Prover) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{provenDesc, proofsDesc, failingDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. The prover may be nil.
func (p *Prover) Collect(out chan<- prometheus.Metric) {
	proven := 0.0
	if p.Proven() {
		proven = 1
	}
	out <- prometheus.MustNewConstMetric(provenDesc, prometheus.GaugeValue, proven)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for outcome, n := range p.counts {
		out <- prometheus.MustNewConstMetric(proofsDesc, prometheus.CounterValue, float64(n), string(outcome))
	}
	for _, failure := range []*Failure{p.last, p.unverified} {
		if failure != nil {
			out <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, 1, string(failure.Outcome))
		}
	}
}

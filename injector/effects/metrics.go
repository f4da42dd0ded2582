package effects

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is what became of an event that was recorded.
type outcome int

const (
	outcomeWritten  outcome = iota // it is in the cluster, written by this replica or by another
	outcomeWithheld                // it repeats an event, whose count is raised later, or its namespace has had its share
	outcomeDropped                 // too many waited
	outcomeRefuted                 // its namespace does not exist
	outcomeFailed                  // the API server did not take it
	outcomes
)

var outcomeNames = [outcomes]string{"written", "withheld", "dropped", "refuted", "failed"}

// Outcomes returns the values of the label outcome of pillion_events_total.
func Outcomes() []string { return outcomeNames[:] }

// tally counts events by outcome. It starts at zero, so that a rate sees the first one.
type tally [outcomes]atomic.Uint64

func (t *tally) count(o outcome) { t[o].Add(1) }

var eventsDesc = prometheus.NewDesc("pillion_events_total", "Events about pods that were to be written, by what became of them; the log names those that failed.", []string{"outcome"}, nil)

// Describe implements [prometheus.Collector].
func (e *Events) Describe(to chan<- *prometheus.Desc) { to <- eventsDesc }

// Collect implements [prometheus.Collector].
func (e *Events) Collect(to chan<- prometheus.Metric) {
	for o, name := range outcomeNames {
		to <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(e.tally[o].Load()), name)
	}
}

package follow

import "github.com/prometheus/client_golang/prometheus"

// Names of the states of a cache in pillion_cache_state.
const (
	StateCurrent    = "current"
	StateUnreadable = "unreadable"
	StateWrong      = "wrong"
)

// Name returns the name of the state: wrong if the cache is, unreadable if the API server
// cannot be asked, and current otherwise.
func (s State) Name() string {
	switch {
	case s.Wrong != nil:
		return StateWrong
	case s.Unreadable != nil:
		return StateUnreadable
	}
	return StateCurrent
}

// Source tells the states of caches, by the names of the caches.
type Source func() map[string]State

// NewCollector returns the metrics of caches.
func NewCollector(states Source) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"cache"}, labels...), nil)
	}
	return &collector{
		states: states,
		age:    desc("pillion_cache_age_seconds", "Time since a cache was last known to be current. It is less than 15 seconds while all is well."),
		state:  desc("pillion_cache_state", "1 for the state that a cache is in. unreadable: the API server cannot be asked, and the replica stays ready. wrong: the API server has what the cache lacks, and the replica is not ready.", "state"),
		wrong:  desc("pillion_cache_wrong_total", "How often the API server has shown a cache to be wrong."),
	}
}

type collector struct {
	states            Source
	age, state, wrong *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.age
	to <- c.state
	to <- c.wrong
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for name, s := range c.states() {
		to <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, s.Age.Seconds(), name)
		for _, state := range []string{StateCurrent, StateUnreadable, StateWrong} {
			value := 0.0
			if s.Name() == state {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, value, name, state)
		}
		to <- prometheus.MustNewConstMetric(c.wrong, prometheus.CounterValue, float64(s.Proofs), name)
	}
}

package follow

import "github.com/prometheus/client_golang/prometheus"

// Names of the states of a cache in pillion_cache_state.
const (
	stateCurrent    = "current"
	stateUnreadable = "unreadable"
)

// Name returns the name of the state.
func (s State) Name() string {
	if s.Err != nil {
		return stateUnreadable
	}
	return stateCurrent
}

// Source returns the states of caches, by the names of the caches.
type Source func() map[string]State

// NewCollector returns the metrics of caches.
func NewCollector(states Source) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"cache"}, labels...), nil)
	}
	return &collector{
		states: states,
		age:    desc("pillion_cache_age_seconds", "Time since a cache was last known to be current. API servers confirm it by a bookmark a minute at least, so it is less than 75 seconds while all is well."),
		state:  desc("pillion_cache_state", "1 for the state that a cache is in. unreadable: the API server cannot be asked, and the replica stays ready.", "state"),
	}
}

type collector struct {
	states     Source
	age, state *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- c.age
	to <- c.state
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for name, s := range c.states() {
		to <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, s.Age.Seconds(), name)
		for _, state := range []string{stateCurrent, stateUnreadable} {
			value := 0.0
			if s.Name() == state {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, value, name, state)
		}
	}
}

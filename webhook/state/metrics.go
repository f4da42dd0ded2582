package state

import (
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// FromMetrics returns the state of a replica from its own metrics, so that both always agree.
func FromMetrics(version string, metrics []*dto.MetricFamily) State {
	s := State{Version: version, Templates: map[string]string{}, CacheAgeSeconds: map[string]float64{}, FailingLabels: map[string]int{}}
	for _, family := range metrics {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			s.add(family.GetName(), labels, m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
	slices.Sort(s.Broken)
	slices.Sort(s.Certificates.Problems)
	return s
}

// add adds one series of a metric.
func (s *State) add(name string, labels map[string]string, value float64) {
	c := &s.Certificates
	switch name {
	case "pillion_template_info":
		s.Templates[labels["template"]] = labels["hash"]
		if labels["good"] == "false" {
			s.Broken = append(s.Broken, labels["template"])
		}
	case "pillion_cache_age_seconds":
		if value >= 0 && value < maxSeconds {
			s.CacheAgeSeconds[labels["cache"]] = value
		}
	case "pillion_enforcement_proven":
		s.EnforcementProven = new(value > 0)
	case "pillion_coverage_last_success_timestamp_seconds":
		s.PodsLastLookedAt = timeOf(value)
	case "pillion_namespaces_failing_label":
		setCount(s.FailingLabels, labels["label"], value)
	case "pillion_certificate_expiry_timestamp_seconds":
		c.Ends = timeOf(value)
	case "pillion_certificate_problem":
		if value > 0 {
			c.Problems = append(c.Problems, labels["operation"]+": "+labels["object"])
		}
	case "pillion_certificate_published":
		c.Published = append(c.Published, Published{Kind: labels["kind"], Name: labels["configuration"], Verifies: value > 0})
	}
}

// setCount sets a count unless it is zero.
func setCount(in map[string]int, name string, value float64) {
	if value > 0 {
		in[name] = int(value)
	}
}

// maxSeconds is the end of the year 9999, the last time in JSON.
const maxSeconds = 253402300800

// timeOf returns the time of a number of seconds since 1970. It returns nil if JSON cannot represent it.
func timeOf(seconds float64) *time.Time {
	if !(seconds > 0 && seconds < maxSeconds) {
		return nil
	}
	return new(time.UnixMilli(int64(seconds * 1000)).UTC())
}

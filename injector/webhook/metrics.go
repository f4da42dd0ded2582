package webhook

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// Metrics counts reviews and their outcomes. No label holds what a tenant wrote.
type Metrics struct {
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	injections *prometheus.CounterVec
	info       *prometheus.GaugeVec
	busy       *prometheus.CounterVec
}

// NewMetrics registers the metrics of the admission path with a registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_admission_requests_total",
			Help: "Admission reviews answered, by webhook (mutate, verify, guard, namespace), outcome (injected, unchanged, allowed, denied, labelled, malformed, abandoned, error), reason code and dry run.",
		}, []string{"webhook", "outcome", "reason", "dry_run"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pillion_admission_duration_seconds",
			Help:    "Time from the arrival of a review until its answer is ready.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2},
		}, []string{"webhook", "outcome"}),
		injections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_injections_total",
			Help: "Outcomes of templates that somebody asked for, by reason code; dry runs are not counted.",
		}, []string{"template", "outcome"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pillion_template_info",
			Help: "1 for each template that this replica applies, with the hash of what it applies; good is false when a newer version is broken.",
		}, []string{"template", "hash", "good"}),
		busy: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_admission_unavailable_total",
			Help: "Reviews answered with 503 because Pillion was not ready or overloaded, by webhook.",
		}, []string{"webhook"}),
	}
	registry.MustRegister(m.requests, m.duration, m.injections, m.info, m.busy)
	return m
}

func (m *Metrics) observe(webhook, outcome string, code reason.Code, dryRun bool, d time.Duration) {
	m.requests.WithLabelValues(webhook, outcome, string(code), strconv.FormatBool(dryRun)).Inc()
	m.duration.WithLabelValues(webhook, outcome).Observe(d.Seconds())
}

func (m *Metrics) unavailable(webhook string) { m.busy.WithLabelValues(webhook).Inc() }

// templates counts the outcomes of templates. Names that do not exist are
// counted together, since a tenant may write as many as they like.
func (m *Metrics) templates(outcomes []injector.TemplateOutcome, dryRun bool) {
	if dryRun {
		return
	}
	for _, t := range outcomes {
		if !t.Asked && t.Code != reason.Injected {
			continue
		}
		name := t.Name
		if t.Code == reason.UnknownTemplate {
			name = ""
		}
		m.injections.WithLabelValues(name, string(t.Code)).Inc()
	}
}

// SetTemplates reports the set in force.
func (m *Metrics) SetTemplates(set *templates.Set) {
	m.info.Reset()
	for _, e := range set.All() {
		hash := ""
		if e.Template != nil {
			hash = e.Template.Hash()
		}
		m.info.WithLabelValues(e.Name, hash, strconv.FormatBool(e.Err == nil)).Set(1)
	}
}

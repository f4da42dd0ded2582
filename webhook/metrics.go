package webhook

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// unknownTemplate is the value of the label template for all requested names without a template. No
// template can have this name.
const unknownTemplate = "(unknown)"

// namespacedTemplate is the value of the label template for all templates of namespaces. No template
// can have this name.
const namespacedTemplate = "(namespaced)"

// Outcomes of reviews without a [Response], as values of the label outcome.
const (
	outcomeMalformed = "malformed"
	outcomeAbandoned = "abandoned"
	outcomeError     = "error"
)

// Outcomes returns the values that the label outcome of pillion_admission_requests_total and of
// pillion_admission_duration_seconds can have.
func Outcomes() []string {
	return []string{
		string(verdictAllowed), string(verdictSkipped), string(verdictUnchanged), string(verdictPatched), string(verdictLabelled), string(verdictDenied),
		outcomeMalformed, outcomeAbandoned, outcomeError,
	}
}

// durationBuckets grow by the steps 1, 2 and 5, from 50 µs to the longest timeout in the chart. A pod
// without a request takes less than 100 µs, an injected pod less than 2 ms. Every Prometheus can read
// classic buckets.
var durationBuckets = []float64{
	50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1, 2, 5, 10,
}

// Metrics counts reviews, pods and injections. An API server sends a second review of a pod after
// another webhook has changed it. Pods and injections are counted once for each pod, by the pod's
// record.
//
// No label has a text of a tenant, so the number of series does not depend on tenants.
type Metrics struct {
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	busy       *prometheus.CounterVec
	pods       *prometheus.CounterVec
	injections *prometheus.CounterVec
	info       *prometheus.GaugeVec
	// excepted counts the pods by exception, ends has the end of each.
	excepted *prometheus.CounterVec
	ends     *prometheus.GaugeVec

	mu         sync.Mutex
	byTemplate templateSeries
}

// templateSeries are the templates and exceptions with series of their own. The value is false for those
// that are not in the last set any more.
type templateSeries struct {
	templates map[string]bool
	// exceptions are keyed by template and name.
	exceptions map[[2]string]bool
}

// NewMetrics registers the metrics of the admission path with a registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_admission_requests_total",
			Help: "Admission reviews answered. One pod may have several; those answered with 503 are not among them.",
		}, []string{"webhook", "outcome", "reason", "dry_run"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pillion_admission_duration_seconds",
			Help:    "Time from the arrival of a review until its answer is ready.",
			Buckets: durationBuckets,
		}, []string{"webhook", "outcome"}),
		busy: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_admission_unavailable_total",
			Help: "Reviews answered with 503 because this replica was not ready, was overloaded, or lacked data; the API server tries again.",
		}, []string{"webhook"}),
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_reviewed_pods_total",
			Help: "New pods by outcome. Each pod counts once, however often the API server calls for it; dry runs do not count.",
		}, []string{"outcome", "reason"}),
		injections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_injections_total",
			Help: "Outcomes of templates for new pods that got them, asked for them, or were refused because of them. An injected pod counts once, dry runs do not.",
		}, []string{"template", "outcome", "canary"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pillion_template_info",
			Help: "1 for each template that this replica applies, with its hash. good is false when a newer version is broken. The hash is empty when no good version is known.",
		}, []string{"template", "hash", "good", "canary_of"}),
		excepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pillion_excepted_pods_total",
			Help: "New pods that go without a required template by one of its exceptions; dry runs are not counted.",
		}, []string{"template", "exception"}),
		ends: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pillion_template_exception_end_timestamp_seconds",
			Help: "When each exception of a required template ends, or ended, in seconds since 1970.",
		}, []string{"template", "exception"}),
	}
	registry.MustRegister(m.requests, m.duration, m.busy, m.pods, m.injections, m.info, m.excepted, m.ends)
	return m
}

// initialize creates the series of a webhook that alerts need: a rate ignores the first value of a
// series, so that value must be 0.
func (m *Metrics) initialize(webhook string) {
	m.busy.WithLabelValues(webhook)
	m.requests.WithLabelValues(webhook, outcomeError, string(reason.InternalError), "false")
}

func (m *Metrics) observeReview(webhook, outcome string, code reason.Code, dryRun bool, d time.Duration) {
	m.requests.WithLabelValues(webhook, outcome, string(code), strconv.FormatBool(dryRun)).Inc()
	m.duration.WithLabelValues(webhook, outcome).Observe(d.Seconds())
}

func (m *Metrics) observeUnavailable(webhook string) { m.busy.WithLabelValues(webhook).Inc() }

// observePod counts a pod and its templates.
//
// A pod with a record was counted when the record was written. A later review of such a pod counts
// the templates that are not in the record, and a refusal: no further review follows it.
func (m *Metrics) observePod(r Response, dryRun bool) {
	if dryRun || r.Call == NoPod {
		return
	}
	denied := r.verdict == verdictDenied
	if r.Call == FirstCall || denied {
		m.pods.WithLabelValues(string(r.verdict), string(r.code)).Inc()
	}
	for _, t := range r.Templates {
		counts := t.Requested && (r.Call == FirstCall || denied && t.Code == r.code)
		if t.Code == reason.Injected {
			counts = !t.Recorded && !denied // a refused pod gets nothing
		}
		if !counts {
			continue
		}
		name := t.Name
		if t.Code == reason.UnknownTemplate {
			name = unknownTemplate // a tenant may write as many names as they like
		}
		if t.Namespaced {
			name = namespacedTemplate // and as many templates
		}
		m.injections.WithLabelValues(name, string(t.Code), t.Canary).Inc()
		if t.Code == reason.Excepted && !denied {
			m.excepted.WithLabelValues(t.Name, t.Exception).Inc()
		}
	}
}

// SetTemplates reports the set in force. It deletes the series of templates that were deleted
// two sets ago.
func (m *Metrics) SetTemplates(set *templates.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.Reset()
	m.ends.Reset()
	current := templateSeries{map[string]bool{}, map[[2]string]bool{}}
	for _, e := range set.All() {
		current.templates[e.Name] = true
		c, _ := set.Canary(e.Name)
		m.info.WithLabelValues(e.Name, set.HashOf(e), strconv.FormatBool(e.Err == nil && c.Unusable == nil), c.Of).Set(1)
		for _, exception := range e.Exceptions() {
			current.exceptions[[2]string{e.Name, exception.Name}] = true
			m.ends.WithLabelValues(e.Name, exception.Name).Set(float64(exception.Until.Unix()))
			m.excepted.WithLabelValues(e.Name, exception.Name) // a rate needs the first value 0
		}
	}
	for name, inLastSet := range m.byTemplate.templates {
		if current.templates[name] {
			continue
		}
		m.injections.DeletePartialMatch(prometheus.Labels{"template": name})
		m.injections.DeletePartialMatch(prometheus.Labels{"canary": name})
		if inLastSet {
			current.templates[name] = false // delete them again with the next set: a review may be in flight
		}
	}
	for exception, inLastSet := range m.byTemplate.exceptions {
		if current.exceptions[exception] {
			continue
		}
		m.excepted.DeleteLabelValues(exception[0], exception[1])
		if inLastSet {
			current.exceptions[exception] = false // as above
		}
	}
	m.byTemplate = current
}

package handover

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/clientset/waiting"
	"github.com/pillion-dev/pillion/injector/usage"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// Quiet is how long the record has not been renewed where nobody serves any more.
	Quiet = 30 * time.Second
	// renewal is how often the record is renewed, by one replica of all.
	renewal = 10 * time.Second
	// poll is how often a replica that is held up reads the record. A longer silence between
	// two reads says nothing of the replicas that serve.
	poll, mostBetween = time.Second, 3 * time.Second
	// callTimeout bounds a call, and tries says how often a write that another replica was
	// faster with is begun anew.
	callTimeout = 5 * time.Second
	tries       = 3
)

// ConfigMaps reads and writes the ConfigMaps of Pillion's namespace.
type ConfigMaps interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, object *corev1.ConfigMap, o metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// Options are what [New] needs. All fields are required but Allowed and Rules.
type Options struct {
	// ConfigMaps needs the verbs get and update for the one with this Name.
	ConfigMaps ConfigMaps
	Name       string
	// Instance is the name of this replica.
	Instance string
	Rules    usage.Rules
	// Namespaces are those that are known. The maps of one hold until the next one.
	Namespaces func() iter.Seq[templates.Namespace]
	// Allowed are the templates that may be missing.
	Allowed []string
	// Serving returns nil while the replica is ready in every other way.
	Serving func() error
	Logger  *slog.Logger
}

// Handover holds a replica up that would refuse pods, and records what it serves once it is
// ready. Make one with [New].
type Handover struct {
	options Options
	wake    chan struct{}
	// had are the templates that this replica had while namespaces named them, and gone those
	// that may leave the record though they are named. Run alone uses them.
	had, gone map[string]bool
	// renewed is what the record said when it was read last, since seenAt.
	renewed string
	seenAt  time.Time

	mu      sync.Mutex
	count   *usage.Count
	why     error
	failure string
}

// New returns a handover that is not ready until [Handover.Run] runs.
func New(o Options) *Handover {
	h := &Handover{
		options: o, wake: make(chan struct{}, 1), had: map[string]bool{}, gone: map[string]bool{},
		why: errors.New("the templates in use have not been looked at yet"),
	}
	for _, name := range o.Allowed {
		h.gone[name] = true
	}
	return h
}

// Counted takes a new count. It does not wait.
func (h *Handover) Counted(count usage.Count) {
	h.mu.Lock()
	h.count = &count
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Ready returns nil once the replica may take over. It never goes back.
func (h *Handover) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

func (h *Handover) set(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = why
}

func (h *Handover) latest() *usage.Count {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// Run holds up, and then records, until ctx ends, which is no error.
func (h *Handover) Run(ctx context.Context) error {
	if !h.hold(ctx) {
		return nil
	}
	h.set(nil)
	for h.sleep(ctx, h.record(ctx)) {
	}
	return nil
}

// read gets the record, and notes how that went.
func (h *Handover) read(ctx context.Context) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := h.options.ConfigMaps.Get(ctx, h.options.Name, metav1.GetOptions{})
	if ctx.Err() != context.Canceled {
		h.saw("reading", err)
	}
	return m, err
}

// saw logs what goes wrong with the record, once.
func (h *Handover) saw(doing string, err error) {
	text := ""
	switch {
	case apierrors.IsForbidden(err):
		text = fmt.Sprintf("missing permission: the verbs get and update on the ConfigMap %s: %v", h.options.Name, err)
	case apierrors.IsNotFound(err):
		text = fmt.Sprintf("the ConfigMap %s is gone; helm upgrade --reset-then-reuse-values makes it again: %v", h.options.Name, err)
	case err != nil:
		text = fmt.Sprintf("%s the ConfigMap %s: %v", doing, h.options.Name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if text != "" && text != h.failure {
		h.options.Logger.Error("templates in use cannot be recorded: an upgrade that drops one would not be held up", "error", text)
	}
	h.failure = text
}

// hold returns when the replica may be ready, and false if ctx has ended.
func (h *Handover) hold(ctx context.Context) bool {
	var quiet, blind time.Duration
	last, lastRead, everRead := time.Now(), time.Now(), false
	for {
		m, err := h.read(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return false
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return true
		case err != nil:
			if blind += now.Sub(last); !everRead {
				h.set(fmt.Errorf("the templates in use cannot be read: %w", err))
				if blind >= Quiet {
					h.options.Logger.Error("the templates in use cannot be read; this replica serves all the same", "after", Quiet)
					return true
				}
			}
		default:
			count := h.latest()
			if count == nil {
				break
			}
			lacks := h.missing(recorded(m), count)
			if lacks == nil {
				return true
			}
			h.set(lacks)
			if everRead && m.Data[renewedKey] == h.renewed && now.Sub(lastRead) <= mostBetween {
				quiet += now.Sub(lastRead)
			} else {
				quiet = 0
			}
			if quiet >= Quiet {
				h.options.Logger.Error("no other replica serves; this one does, though templates that namespaces name are missing, and pods that get them are refused", "missing", lacks)
				for name := range lacks.naming {
					h.gone[name] = true
				}
				return true
			}
			h.renewed, lastRead, everRead = m.Data[renewedKey], now, true
		}
		last = now
		if !h.sleep(ctx, poll) {
			return false
		}
	}
}

// missing returns what is missing of the templates in use, or nil.
func (h *Handover) missing(names []string, count *usage.Count) *missing {
	names = slices.DeleteFunc(lacking(names, count.Set), func(name string) bool { return h.gone[name] })
	naming := h.options.Rules.Naming(names, h.options.Namespaces())
	if len(naming) == 0 {
		return nil
	}
	return &missing{set: count.Set, naming: naming}
}

// record writes what this replica serves, if the record says something else, or nobody else
// renewed it. It returns when to look again.
func (h *Handover) record(ctx context.Context) time.Duration {
	next := renewal*4/5 + rand.N(renewal*2/5)
	if h.options.Serving() != nil {
		return poll
	}
	for range tries {
		m, err := h.read(ctx)
		if err != nil {
			return next
		}
		names := h.next(recorded(m))
		if m.Data[renewedKey] != h.renewed {
			h.renewed, h.seenAt = m.Data[renewedKey], time.Now()
		}
		if same := slices.Equal(names, recorded(m)); same && (len(names) == 0 || time.Since(h.seenAt) < renewal*3/4) {
			return next
		}
		err = h.write(ctx, m, names)
		if !apierrors.IsConflict(err) {
			if ctx.Err() == nil {
				h.saw("writing", err)
			}
			return next
		}
	}
	return next
}

func (h *Handover) write(ctx context.Context, m *corev1.ConfigMap, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m = m.DeepCopy()
	m.Data = map[string]string{templatesKey: strings.Join(names, "\n"), renewedKey: time.Now().UTC().Format(time.RFC3339Nano) + " " + h.options.Instance}
	_, err := h.options.ConfigMaps.Update(ctx, m, metav1.UpdateOptions{FieldManager: "pillion"})
	if err == nil {
		h.renewed, h.seenAt = m.Data[renewedKey], time.Now()
	}
	return err
}

// next returns what is to be recorded where names are.
func (h *Handover) next(names []string) []string {
	count := h.latest()
	if count == nil {
		return names
	}
	mine := inUse(*count)
	for _, name := range mine {
		h.had[name] = true
	}
	lacks := lacking(names, count.Set)
	naming := h.options.Rules.Naming(lacks, h.options.Namespaces())
	next := map[string]bool{}
	for _, name := range mine {
		next[name] = true
	}
	for _, name := range lacks {
		// Another replica may have a template that this one has not seen yet.
		next[name] = len(naming[name]) > 0 && !h.had[name] && !h.gone[name]
	}
	maps.DeleteFunc(next, func(_ string, in bool) bool { return !in })
	return slices.Sorted(maps.Keys(next))
}

// sleep waits for a time, and a new count ends the wait, but not within a second. It returns
// false if ctx has ended.
func (h *Handover) sleep(ctx context.Context, d time.Duration) bool {
	if h.Ready() == nil {
		if !waiting.For(ctx, poll) {
			return false
		}
		d -= poll
	}
	return waiting.Until(ctx, d, h.wake)
}

var failingDesc = prometheus.NewDesc("pillion_in_use_record_failing", "1 while the templates in use cannot be recorded, so that an upgrade that drops one would not be held up; the log says why.", nil, nil)

// Describe implements prometheus.Collector.
func (h *Handover) Describe(ch chan<- *prometheus.Desc) { ch <- failingDesc }

// Collect implements prometheus.Collector.
func (h *Handover) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	failing := 0.0
	if h.failure != "" {
		failing = 1
	}
	h.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, failing)
}

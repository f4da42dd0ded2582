package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/webhook"
)

// leaving is what a replica does while its release is removed. Helm first makes a ConfigMap,
// the marker. A replica that sees it sets no more labels. Then Helm makes others, whose reviews are
// answered when the labels are off, or when the API server waits no longer. So Helm waits for
// as long as a review takes, and where nobody answers, not at all.
type leaving struct {
	// marker watches the marker.
	marker func(ctx context.Context) (watch.Interface, error)
	// sweep takes the labels off.
	sweep func(ctx context.Context) (map[string][]string, error)
	log   *slog.Logger

	// seen is done when the marker is there, by see.
	seen context.Context
	see  context.CancelFunc
	// waiting bounds the reviews that wait.
	waiting chan struct{}
	mu      sync.Mutex
	// swept is closed when the sweep that runs has ended. It is nil if none does, and stays
	// when one found nothing more to do.
	swept chan struct{}
}

// leavingSettle is how long writes that other replicas had begun may still come.
const leavingSettle = 500 * time.Millisecond

func newLeaving(client metadata.Interface, c settings.Settings, remover labels.Remover, log *slog.Logger) *leaving {
	configMaps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(c.Server.Namespace)
	seen, see := context.WithCancel(context.Background())
	return &leaving{
		marker: func(ctx context.Context) (watch.Interface, error) {
			return configMaps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + c.Namespaces.UninstallMarker})
		},
		sweep: remover.Remove, log: log, seen: seen, see: see, waiting: make(chan struct{}, 4),
	}
}

// Run watches for the marker until ctx ends, which is no error.
func (l *leaving) Run(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil && !l.yes() {
		pause := time.Second
		w, err := l.marker(ctx)
		if err == nil {
			l.follow(ctx, w)
			w.Stop()
			said = ""
		} else if pause = 10 * time.Second; err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			l.log.Warn("the ConfigMap that announces an uninstall cannot be watched: labels of namespaces stay after an uninstall, until you run `pillion unlabel`", "error", err)
		}
		waiting.Until(ctx, pause, l.seen.Done())
	}
	<-ctx.Done()
	return nil
}

func (l *leaving) follow(ctx context.Context, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return
			}
			if e.Type == watch.Added || e.Type == watch.Modified {
				l.log.Info("the release is being removed, so this replica sets no more labels on namespaces; if that is wrong, restart it")
				l.see()
				return
			}
		}
	}
}

// yes reports whether the release is being removed.
func (l *leaving) yes() bool { return l.seen.Err() != nil }

// until returns a function that runs f until the release is being removed.
func (l *leaving) until(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(l.seen, stop)()
		err := f(running)
		if err == nil {
			<-ctx.Done()
		}
		return err
	}
}

// Name implements [webhook.Webhook].
func (*leaving) Name() string { return "uninstall" }

// Review implements [webhook.Webhook]. It refuses nothing. Everybody who reaches the port could
// send such a review, so without the marker it does nothing.
func (l *leaving) Review(ctx context.Context, r *webhook.Review) (webhook.Response, error) {
	if r.DryRun {
		return webhook.Allowed(), nil
	}
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		return webhook.Allowed(), nil
	}
	select {
	case <-l.seen.Done():
	case <-ctx.Done():
		return webhook.Allowed(), nil
	case <-time.After(2 * time.Second): // the watch may be late by a moment
		return webhook.Allowed(), nil
	}
	l.mu.Lock()
	if l.swept == nil {
		l.swept = make(chan struct{})
		// Not in the review's time: what is left is done after it.
		go l.takeOff(context.WithoutCancel(ctx), l.swept)
	}
	swept := l.swept
	l.mu.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(5 * time.Second)
	}
	select {
	case <-swept:
	case <-ctx.Done():
	case <-time.After(time.Until(deadline) - leavingSettle): // the answer takes time, too
	}
	return webhook.Allowed(), nil
}

// takeOff takes the labels off until none is left, or none can be taken off. Then it closes
// swept.
func (l *leaving) takeOff(ctx context.Context, swept chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer close(swept)
	for {
		done, err := l.sweep(ctx)
		l.log.Info("removed labels from namespaces", "namespaces", len(done))
		if len(done) == 0 {
			if err != nil {
				l.log.Error("labels of namespaces cannot be removed; they have no effect without Pillion, and `pillion unlabel` removes them", "error", err)
				l.mu.Lock()
				l.swept = nil // the next review tries again
				l.mu.Unlock()
			}
			return
		}
		waiting.For(ctx, leavingSettle) // after its end the next sweep says what is wrong
	}
}

// unlessLeaving is a webhook for namespaces that changes nothing once the release is being
// removed.
type unlessLeaving struct {
	webhook.Webhook
	leaving *leaving
}

// Review implements [webhook.Webhook].
func (u unlessLeaving) Review(ctx context.Context, r *webhook.Review) (webhook.Response, error) {
	if u.leaving.yes() {
		return webhook.Allowed(), nil
	}
	return u.Webhook.Review(ctx, r)
}

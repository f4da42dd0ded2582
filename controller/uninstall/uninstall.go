package uninstall

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// Settle is how long writes that other replicas had begun may still arrive.
	Settle = 500 * time.Millisecond
	// sweepTimeout bounds one removal of all labels.
	sweepTimeout = time.Minute
)

// Options are the dependencies of an [Uninstall].
type Options struct {
	// Watch watches the marker.
	Watch func(context.Context) (watch.Interface, error)
	// Remove removes labels, and returns their keys by namespace.
	Remove func(context.Context) (map[string][]string, error)
	Logger *slog.Logger
}

// Uninstall is the state of a release that may be removed while this replica runs. It begins when the marker
// appears, and never ends.
type Uninstall struct {
	Options
	// begun is done once the marker is there.
	begun context.Context
	begin context.CancelFunc

	mu sync.Mutex
	// sweep is closed when the running or the last removal has ended. It is nil before the first removal, and after
	// a removal that failed.
	sweep chan struct{}
}

// New returns an Uninstall that has not begun.
func New(o Options) *Uninstall {
	begun, begin := context.WithCancel(context.Background())
	return &Uninstall{Options: o, begun: begun, begin: begin}
}

// WatchMarker returns a function that watches the ConfigMap of this name.
func WatchMarker(configMaps metadata.ResourceInterface, name string) func(context.Context) (watch.Interface, error) {
	return func(ctx context.Context) (watch.Interface, error) {
		return configMaps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	}
}

// Run watches for the marker until ctx ends, which is no error.
func (u *Uninstall) Run(ctx context.Context) error {
	logged := ""
	for ctx.Err() == nil && !u.HasBegun() {
		pause := time.Second
		w, err := u.Watch(ctx)
		if err == nil {
			u.awaitMarker(ctx, w)
			w.Stop()
			logged = ""
		} else if pause = 10 * time.Second; err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			u.Logger.Warn("the ConfigMap that announces an uninstall cannot be watched: labels of namespaces stay after an uninstall, until you run `pillion unlabel`", "error", err)
		}
		waiting.Until(ctx, pause, u.Begun())
	}
	<-ctx.Done()
	return nil
}

// awaitMarker returns when the marker is there, or the watch has ended.
func (u *Uninstall) awaitMarker(ctx context.Context, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return
			}
			if e.Type == watch.Added || e.Type == watch.Modified {
				u.Logger.Info("the release is being removed, so this replica sets no more labels on namespaces; if that is wrong, restart it")
				u.begin()
				return
			}
		}
	}
}

// Begun returns a channel that is closed once the release is being removed.
func (u *Uninstall) Begun() <-chan struct{} { return u.begun.Done() }

// HasBegun reports whether the release is being removed.
func (u *Uninstall) HasBegun() bool { return u.begun.Err() != nil }

// Until returns a function that runs f until the release is being removed.
func (u *Uninstall) Until(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(u.begun, stop)()
		err := f(running)
		if err == nil {
			<-ctx.Done()
		}
		return err
	}
}

// Sweep removes the labels in the background, unless a removal runs or has left none. The returned channel is
// closed when the removal has ended. It goes on after ctx.
func (u *Uninstall) Sweep(ctx context.Context) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sweep == nil {
		u.sweep = make(chan struct{})
		go u.removeAll(context.WithoutCancel(ctx), u.sweep)
	}
	return u.sweep
}

// removeAll removes labels until none is left, or none can be removed. Then it closes swept.
func (u *Uninstall) removeAll(ctx context.Context, swept chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	defer close(swept)
	for {
		removed, err := u.Remove(ctx)
		u.Logger.Info("removed labels from namespaces", "namespaces", len(removed))
		if len(removed) == 0 {
			if err != nil {
				u.Logger.Error("labels of namespaces cannot be removed; they have no effect without Pillion, and `pillion unlabel` removes them", "error", err)
				u.mu.Lock()
				u.sweep = nil // the next review tries again
				u.mu.Unlock()
			}
			return
		}
		waiting.For(ctx, Settle) // after its end the next removal returns the error
	}
}

package bounds

import (
	"context"
	"fmt"
	"sync"
)

// Small is the size in bytes up to which a request for memory counts as small.
const Small = 1 << 20

// Budget is an amount of memory that tenants share. Small requests, up to [Small], have a
// part of their own: what large ones take and wait for does not touch them. Where memory is
// short, tenants take turns, and each tenant's requests are served in the order in which
// they came. A tenant with a thousand requests waits for its turn as one with a single
// request does.
type Budget struct{ small, large lane }

// BudgetOptions are the sizes of a [Budget]. All must be positive.
type BudgetOptions struct {
	// Small and Large are the bytes for small and for large requests.
	Small, Large int64
	// SmallWorkers and LargeWorkers are how many requests of each kind hold memory at
	// the same time.
	SmallWorkers, LargeWorkers int
}

// NewBudget returns a budget. Nothing of it is taken yet.
func NewBudget(o BudgetOptions) *Budget {
	return &Budget{
		small: lane{size: o.Small, free: o.Small, workers: o.SmallWorkers, tenants: map[string]*tenant{}},
		large: lane{size: o.Large, free: o.Large, workers: o.LargeWorkers, tenants: map[string]*tenant{}},
	}
}

// TooLargeError says that a request can never be served.
type TooLargeError struct {
	// Bytes were asked for; Most is what the budget has.
	Bytes, Most int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d MiB of memory are needed, and there are %d", mebibytes(e.Bytes), mebibytes(e.Most))
}

// BusyError says that a request's context ended before the memory was free.
type BusyError struct {
	// Large reports whether the request was a large one.
	Large bool
	// Cause is the context's error.
	Cause error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the memory was taken by other requests all the time: %v", e.Cause)
}

func (e *BusyError) Unwrap() error { return e.Cause }

func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// Take waits until the bytes are free and it is the tenant's turn, and takes them. The
// caller gives them back by release, once. The error is a [TooLargeError] or a [BusyError].
func (b *Budget) Take(ctx context.Context, tenant string, bytes int64) (release func(), err error) {
	if bytes <= Small {
		return b.small.take(ctx, tenant, max(bytes, 1), false)
	}
	return b.large.take(ctx, tenant, bytes, true)
}

// Taken returns the bytes that are taken at the moment, by small and by large requests.
func (b *Budget) Taken() (small, large int64) { return b.small.taken(), b.large.taken() }

// lane is the part of a budget for one kind of requests.
type lane struct {
	size int64

	mu      sync.Mutex
	free    int64
	workers int // how many more requests may hold memory
	// tenants has those that hold memory or wait for it.
	tenants map[string]*tenant
	turns   uint64
}

type tenant struct {
	waiting []*request
	holding int
	// turn tells when the tenant was served last, or when it came.
	turn uint64
}

type request struct {
	bytes   int64
	granted chan struct{}
}

func (l *lane) taken() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size - l.free
}

func (l *lane) take(ctx context.Context, name string, bytes int64, large bool) (func(), error) {
	if bytes > l.size {
		return nil, &TooLargeError{Bytes: bytes, Most: l.size}
	}
	if err := ctx.Err(); err != nil {
		return nil, &BusyError{Large: large, Cause: err}
	}
	r := &request{bytes: bytes, granted: make(chan struct{})}
	l.mu.Lock()
	t := l.tenants[name]
	if t == nil {
		l.turns++
		t = &tenant{turn: l.turns}
		l.tenants[name] = t
	}
	t.waiting = append(t.waiting, r)
	l.grant()
	l.mu.Unlock()
	select {
	case <-r.granted:
	case <-ctx.Done():
		if l.withdraw(name, t, r) {
			return nil, &BusyError{Large: large, Cause: ctx.Err()}
		}
	}
	return sync.OnceFunc(func() { l.release(name, t, bytes) }), nil
}

// withdraw takes a request back. It reports false if the request has been granted.
func (l *lane) withdraw(name string, t *tenant, r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-r.granted:
		return false
	default:
	}
	for i, other := range t.waiting {
		if other == r {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			break
		}
	}
	l.forget(name, t)
	l.grant() // the request may have been the one that did not fit
	return true
}

func (l *lane) release(name string, t *tenant, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free += bytes
	l.workers++
	t.holding--
	l.forget(name, t)
	l.grant()
}

// forget drops a tenant that neither holds nor waits for anything.
func (l *lane) forget(name string, t *tenant) {
	if t.holding == 0 && len(t.waiting) == 0 && l.tenants[name] == t {
		delete(l.tenants, name)
	}
}

// grant serves requests as long as the next one fits. The next one is the first of the
// tenant that was served, or came, the longest ago. A request that does not fit is not
// overtaken, or a large one could wait for ever.
func (l *lane) grant() {
	for l.workers > 0 {
		var next *tenant
		for _, t := range l.tenants {
			if len(t.waiting) > 0 && (next == nil || t.turn < next.turn) {
				next = t
			}
		}
		if next == nil || next.waiting[0].bytes > l.free {
			return
		}
		r := next.waiting[0]
		next.waiting = next.waiting[1:]
		next.holding++
		l.turns++
		next.turn = l.turns
		l.free -= r.bytes
		l.workers--
		close(r.granted)
	}
}

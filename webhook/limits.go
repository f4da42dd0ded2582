package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Memory bounds the memory of reviews.
type Memory struct {
	// Connections bounds the connections. Each may bring a body of up to ordinaryBody bytes.
	Connections int
	// Bodies bounds the sum of all larger bodies, in bytes.
	Bodies int64
	// Slots is how many small objects are processed at a time. A larger object needs more slots.
	Slots int64
}

// The shares of a process's memory limit, in 64ths. TestTheSharesOfTheMemoryAreNotMoreThanThereIs
// adds them up.
const (
	objectShare     = 27
	bodyShare       = 7
	connectionShare = 8
	// sideShare is for the webhook for namespaces, and as much for those that give advice.
	sideShare = 4
	// CacheShare is for the metadata of namespaces, TemplateShare for their templates, and
	// ProcessShare for memory without a bound: the runtime, and the templates of the cluster.
	CacheShare    = 4
	TemplateShare = 4
	ProcessShare  = 4
)

// Share is so many 64ths of a limit.
func Share(limit, share int64) int64 { return limit * share / 64 }

// MemoryFor divides the memory that a process may use, in bytes.
func MemoryFor(limit int64) Memory {
	return Memory{
		Connections: int(Share(limit, connectionShare) / connectionMemory),
		Bodies:      max(Share(limit, bodyShare), maxBody),
		Slots:       max(Share(limit, objectShare)/slotMemory, 4),
	}
}

// SideMemoryFor is the memory of webhooks that have a room of their own: the webhook for namespaces, so that a flood of
// pods cannot prevent a label, and the webhooks that only advise. A namespace that needs more is labelled unread. Any
// other object that needs more gets no advice.
func SideMemoryFor(limit int64) Memory {
	return Memory{Bodies: Share(limit, sideShare) / 2, Slots: 1} // the other processors are for pods
}

const (
	// connectionMemory is the memory of a connection, in bytes: 48 KiB for TLS with an unread record and for a
	// goroutine, and a body of ordinaryBody bytes.
	connectionMemory = 48<<10 + ordinaryBody
	// slotMemory is the memory of a slot, in bytes. 256 MiB give 16 slots.
	slotMemory = 27 << 18
	// podMemory is the largest memory of a pod for each byte of its JSON. A list of {"name":"a"} needs the most.
	podMemory = 36
	// workPerContainer is the memory of a template for each container that it extends, in bytes: the rendered
	// and merged items, and their entries in the record.
	workPerContainer = 4608
)

// room is one semaphore of slots for the reviews in work. A namespace may have a quarter of the slots, and waits for
// them in a queue of its own: a thousand reviews of one namespace do not delay the first review of another one. Only
// one object at a time may have more than a quarter, and an eighth of the slots is reserved for small objects.
type room struct {
	size, share, largest int64
	all, large           *semaphore.Weighted

	mu sync.Mutex
	// namespaces has the namespaces with a review that has slots or waits for them.
	namespaces map[string]*tenant
}

// tenant has the queue of a namespace and the number of its reviews.
type tenant struct {
	share   *semaphore.Weighted
	reviews int
}

func newRoom(slots int64) *room {
	return &room{
		size: slots, share: max(slots/4, 1), largest: slots - slots/8,
		all: semaphore.NewWeighted(slots), large: semaphore.NewWeighted(1), namespaces: map[string]*tenant{},
	}
}

// acquire waits for slots for an object of a namespace. The caller calls release once. The error is the context's.
func (r *room) acquire(ctx context.Context, namespace string, slots int64) (release func(), err error) {
	type queue struct {
		of     *semaphore.Weighted
		weight int64
	}
	queues := []queue{{r.enter(namespace), min(slots, r.share)}, {r.all, slots}}
	if slots > r.share {
		queues = []queue{queues[0], {r.large, 1}, queues[1]}
	}
	held := 0
	release = func() {
		for _, q := range queues[:held] {
			q.of.Release(q.weight)
		}
		r.exit(namespace)
	}
	for _, q := range queues {
		if err := q.of.Acquire(ctx, q.weight); err != nil {
			release()
			return nil, err
		}
		held++
	}
	return release, nil
}

func (r *room) enter(namespace string) *semaphore.Weighted {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.namespaces[namespace]
	if t == nil {
		t = &tenant{share: semaphore.NewWeighted(r.share)}
		r.namespaces[namespace] = t
	}
	t.reviews++
	return t.share
}

func (r *room) exit(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.namespaces[namespace]; t.reviews > 1 {
		t.reviews--
	} else {
		delete(r.namespaces, namespace)
	}
}

// tooLargeError means that an object needs more memory than the limit for one object, in bytes.
type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("more than %d MiB of memory are needed", e.limit>>20)
}

// busyError means that a context ended before the object got its slots.
type busyError struct {
	large bool
	cause error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("other requests used all of the memory until the deadline: %v", e.cause)
}

func (e *busyError) Unwrap() error { return e.cause }

// memory is the part of a room that one review has.
type memory struct {
	room *room
	// slots counts the review's slots. release returns them, and is nil if there are no slots.
	slots   int64
	release func()
}

// acquire waits for the bytes, on behalf of a namespace. It first releases the slots that the review has: a review
// that waited for more while it had some could wait for ever. The error is a [tooLargeError] or a [busyError].
func (m *memory) acquire(ctx context.Context, namespace string, bytes int64) error {
	slots := max((bytes+slotMemory-1)/slotMemory, 1)
	switch {
	case slots <= m.slots:
		return nil
	case slots > m.room.largest:
		return &tooLargeError{m.limit()}
	}
	m.releaseSlots()
	large := slots > m.room.share
	if deadline, ok := ctx.Deadline(); ok && large {
		// The other half is for the work, or for a refusal that arrives in time at a busy
		// API server.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	release, err := m.room.acquire(ctx, namespace, slots)
	if err != nil {
		return &busyError{large, err}
	}
	m.release, m.slots = release, slots
	return nil
}

// acquireForPod waits for the memory of a pod with that length of JSON, and of the work on it. The largest pod gets the
// limit for one object.
func (m *memory) acquireForPod(ctx context.Context, namespace string, json int, work int64) error {
	if work > m.limit()/2 {
		return &tooLargeError{m.limit()}
	}
	return m.acquire(ctx, namespace, min(podMemory*int64(json)+work, m.limit()))
}

// limit is the memory that one object may have, in bytes.
func (m *memory) limit() int64 { return m.room.largest * slotMemory }

// bytes is the memory that the review has, in bytes.
func (m *memory) bytes() int64 { return m.slots * slotMemory }

func (m *memory) releaseSlots() {
	if m.release != nil {
		m.release()
		m.release, m.slots = nil, 0
	}
}

// refuseForMemory returns the refusal of an object for which there is not enough memory,
// and false for every other error. Webhooks acquire memory only for objects that they may
// refuse, so admitting a large object would let it bypass them.
func refuseForMemory(r *Review, err error) (Response, bool) {
	var tooLarge *tooLargeError
	var busy *busyError
	var why string
	switch {
	case errors.As(err, &tooLarge):
		why = fmt.Sprintf("the object is too large: %d KiB of JSON, and to work on it takes more than the %d MiB of memory that Pillion has for one object. "+
			"Make the object smaller, or ask the cluster's admin for a larger resources.limits.memory in the values of Pillion's chart",
			len(r.Object)>>10, tooLarge.limit>>20)
	case errors.As(err, &busy) && busy.large && !errors.Is(err, context.Canceled):
		why = fmt.Sprintf("the object is large (%d KiB of JSON), and Pillion was busy with other large objects for half of the time that the API server waits. Try again, or make the object smaller",
			len(r.Object)>>10)
	default:
		return Response{}, false
	}
	response := Denied(reason.TemplateTooExpensive, why+" ("+string(reason.TemplateTooExpensive)+")")
	response.Events = []events.Event{{Pod: r.metadata, Code: reason.TemplateTooExpensive, Message: why, Refused: true}}
	return response, true
}

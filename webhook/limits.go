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

// Memory is what reviews may take of the process.
type Memory struct {
	// Connections is how many there may be at a time. Each may bring a body of up to ordinaryBody bytes.
	Connections int
	// Bodies is how many bytes larger bodies may have together.
	Bodies int64
	// Slots is how many small objects are worked on at a time. A larger object takes more slots.
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
	// ProcessShare for all that is not bounded: the runtime, and the templates of the cluster.
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

// SideMemoryFor is the memory of webhooks that have a room of their own: the one for namespaces, so that no flood of
// pods keeps a label off, and those whose answers are advice. A namespace that needs more is labelled unread, and what
// else needs more goes without advice.
func SideMemoryFor(limit int64) Memory {
	return Memory{Bodies: Share(limit, sideShare) / 2, Slots: 1} // the other processors are for pods
}

const (
	// connectionMemory is how many bytes a connection takes: 48 KiB for TLS, with a record that
	// nobody reads yet, and for a goroutine, and a body of ordinaryBody bytes.
	connectionMemory = 48<<10 + ordinaryBody
	// slotMemory is how many bytes of memory a slot stands for. Of 256 MiB there are 16 slots.
	slotMemory = 27 << 18
	// podMemory is the most memory that a pod takes for each byte of its JSON. A list of {"name":"a"} takes most.
	podMemory = 36
	// workPerContainer is how many bytes a template takes for each container that it
	// extends: what it renders and plans there, and what the record says of it.
	workPerContainer = 4608
)

// A room is where reviews are worked on: one semaphore of slots. A quarter of them is the share of a namespace, which
// waits for it in a queue of its own: a thousand reviews of one namespace do not stand in front of the first one of
// another. An object that takes more than a quarter is worked on while no other such object is, and an eighth of the
// slots is left for small objects.
type room struct {
	size, share, most int64
	all, large        *semaphore.Weighted

	mu sync.Mutex
	// namespaces has those that hold something or wait for it.
	namespaces map[string]*tenant
}

type tenant struct {
	share   *semaphore.Weighted
	reviews int
}

func newRoom(slots int64) *room {
	return &room{
		size: slots, share: max(slots/4, 1), most: slots - slots/8,
		all: semaphore.NewWeighted(slots), large: semaphore.NewWeighted(1), namespaces: map[string]*tenant{},
	}
}

// take waits for slots for an object of a namespace. The caller calls release once. The error is that of the context.
func (r *room) take(ctx context.Context, namespace string, slots int64) (release func(), err error) {
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
		r.leave(namespace)
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

func (r *room) leave(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.namespaces[namespace]; t.reviews > 1 {
		t.reviews--
	} else {
		delete(r.namespaces, namespace)
	}
}

// tooLargeError says that an object takes more memory than there is for one, in bytes.
type tooLargeError struct{ most int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("more than %d MiB of memory are needed", e.most>>20)
}

// busyError says that a context ended before an object could be worked on.
type busyError struct {
	large bool
	cause error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("the memory was taken by other requests all the time: %v", e.cause)
}

func (e *busyError) Unwrap() error { return e.cause }

// memory is what one review holds of a room.
type memory struct {
	room *room
	// release gives back what is held; nil if nothing is. Held is how many slots that are.
	release func()
	held    int64
}

// hold waits for so many bytes for a namespace, in place of what the review held until now:
// a review that holds some and waits for more could wait for ever. The error is a [tooLargeError] or a [busyError].
func (m *memory) hold(ctx context.Context, namespace string, bytes int64) error {
	slots := max((bytes+slotMemory-1)/slotMemory, 1)
	switch {
	case slots <= m.held:
		return nil
	case slots > m.room.most:
		return &tooLargeError{m.most()}
	}
	m.free()
	large := slots > m.room.share
	if deadline, ok := ctx.Deadline(); ok && large {
		// The other half is for the work, and for a refusal that arrives in time however
		// busy the API server is.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	release, err := m.room.take(ctx, namespace, slots)
	if err != nil {
		return &busyError{large, err}
	}
	m.release, m.held = release, slots
	return nil
}

// holdPod holds what a pod of so many bytes of JSON takes, and the work on it. The largest pod has all that one object
// may have.
func (m *memory) holdPod(ctx context.Context, namespace string, json int, work int64) error {
	if work > m.most()/2 {
		return &tooLargeError{m.most()}
	}
	return m.hold(ctx, namespace, min(podMemory*int64(json)+work, m.most()))
}

// most is how many bytes one object may take.
func (m *memory) most() int64 { return m.room.most * slotMemory }

// bytes is how many bytes the review holds.
func (m *memory) bytes() int64 { return m.held * slotMemory }

func (m *memory) free() {
	if m.release != nil {
		m.release()
		m.release, m.held = nil, 0
	}
}

// refuseForMemory returns the answer to a review that cannot be worked on for lack of
// memory, and false for every other error. Webhooks ask for memory where they have a
// say only. So letting the object through would let everybody past them by its size.
func refuseForMemory(r *Review, err error) (Response, bool) {
	var tooLarge *tooLargeError
	var busy *busyError
	var why string
	switch {
	case errors.As(err, &tooLarge):
		why = fmt.Sprintf("the object is too large: %d KiB of JSON, and to work on it takes more than the %d MiB of memory that Pillion has for one object. "+
			"Make the object smaller, or ask the cluster's admin for a larger resources.limits.memory in the values of Pillion's chart",
			len(r.Object)>>10, tooLarge.most>>20)
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

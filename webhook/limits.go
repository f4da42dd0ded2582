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
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Memory is what reviews may take of the process. Bodies of up to ordinaryBody bytes are
// bounded by the number of connections alone.
type Memory struct {
	// Connections is how many there may be at a time.
	Connections int
	// SmallBodies and LargeBodies are how many bytes other bodies may have together: those of up
	// to smallBody bytes, and larger ones.
	SmallBodies, LargeBodies int64
	// Small is how many objects of up to smallWork bytes are worked on at a time.
	Small int64
	// Large is how many bytes larger objects may take together, decoded and worked on, and
	// LargeWorkers how many of them are worked on at a time. One that takes more is refused.
	Large, LargeWorkers int64
}

// The shares of a process's memory limit, in 64ths. TestTheSharesOfTheMemoryAreNotMoreThanThereIs
// adds them up.
const (
	largeObjectShare = 25
	largeBodyShare   = 7
	smallObjectShare = 2
	smallBodyShare   = 2
	connectionShare  = 8
	adviceShare      = 4
	// NamespaceShare is for the metadata of namespaces, TemplateShare for their templates, and
	// ProcessShare for all that is not bounded: the runtime, and the templates of the cluster.
	NamespaceShare = 8
	TemplateShare  = 4
	ProcessShare   = 4
)

// Share is so many 64ths of a limit.
func Share(limit, share int64) int64 { return limit * share / 64 }

// MemoryFor divides the memory that a process may use, in bytes, for a number of CPUs.
func MemoryFor(limit int64, cpus int) Memory {
	return Memory{
		Connections: int(Share(limit, connectionShare) / connectionMemory),
		SmallBodies: Share(limit, smallBodyShare), LargeBodies: max(Share(limit, largeBodyShare), maxBody),
		Small: max(min(int64(2*cpus), Share(limit, smallObjectShare)/smallWork), 4),
		// One large pod keeps a CPU busy. Others have to have one, too.
		Large: Share(limit, largeObjectShare), LargeWorkers: int64(max(cpus/2, 1)),
	}
}

// AdviceMemoryFor is the part of the memory of a process that webhooks may take whose answers
// are advice. What needs more goes without advice.
func AdviceMemoryFor(limit int64) Memory {
	part := max(Share(limit, adviceShare)/4, smallWork)
	return Memory{SmallBodies: part, LargeBodies: part, Small: 1, Large: part, LargeWorkers: 1} // the other processors are for pods
}

const (
	// connectionMemory is how many bytes a connection takes: 48 KiB for TLS, with a record that
	// nobody reads yet, and for a goroutine, and a body of ordinaryBody bytes.
	connectionMemory = 48<<10 + ordinaryBody
	// smallWork is up to how many bytes of memory the work on an object counts as small.
	smallWork = 1 << 20
	// smallPart is the size in bytes up to which an object alone is small, whatever it is made of.
	smallPart = 8 << 10
	// workPerByte is how many bytes the pipeline takes besides a decoded object, for each
	// byte of it: copies of what it changes, and the patch. The largest pod that etcd can store
	// counts for 95 MiB, and takes 82 with its body.
	workPerByte = 0.1
	// workPerContainer is how many bytes a template takes for each container that it
	// extends: what it renders and plans there, and what the record says of it.
	workPerContainer = 4608
)

// workSize estimates the bytes of memory to decode JSON texts and to work on them, besides so many
// bytes. What is small whatever it is made of is not worth a look.
func workSize(besides int64, parts ...part) int64 {
	var length, decoded int64
	for _, p := range parts {
		length += int64(len(p))
	}
	if most := besides + worked(rawjson.MostPerByte*length); most <= smallWork {
		return most
	}
	for _, p := range parts {
		decoded += rawjson.DecodedSize(p)
	}
	return besides + worked(decoded)
}

func worked(decoded int64) int64 { return decoded + int64(workPerByte*float64(decoded)) }

// limits are the lanes in which objects wait to be worked on: small objects do not wait for
// large ones.
type limits struct {
	small, large *lane
	// leastLarge is what a large object counts for at least, so that no more than
	// Memory.LargeWorkers are worked on at a time.
	leastLarge int64
}

func newLimits(m Memory) *limits {
	return &limits{
		small: newLane(m.Small, max(m.Small/2, 1)),
		large: newLane(m.Large, m.Large), leastLarge: m.Large / m.LargeWorkers,
	}
}

// take waits until an object of a namespace may be worked on, which takes so many bytes. The
// caller calls release once. The error is a [tooLargeError] or a [busyError].
func (l *limits) take(ctx context.Context, namespace string, bytes int64) (release func(), err error) {
	large := bytes > smallWork
	switch {
	case !large:
		release, err = l.small.take(ctx, namespace, 1)
	case bytes > l.large.size:
		return nil, &tooLargeError{bytes: bytes, most: l.large.size}
	default:
		release, err = l.large.take(ctx, namespace, max(bytes, l.leastLarge))
	}
	if err != nil {
		return nil, &busyError{large: large, cause: err}
	}
	return release, nil
}

// lane is a weighted semaphore of which each namespace may hold a share. A namespace waits for
// its share in a queue of its own, so a thousand reviews of one namespace do not stand in front
// of the first one of another.
type lane struct {
	size, share int64
	all         *semaphore.Weighted

	mu sync.Mutex
	// namespaces has those that hold something or wait for it.
	namespaces map[string]*tenant
}

type tenant struct {
	share   *semaphore.Weighted
	reviews int
}

func newLane(size, share int64) *lane {
	return &lane{size: size, share: share, all: semaphore.NewWeighted(size), namespaces: map[string]*tenant{}}
}

func (l *lane) take(ctx context.Context, namespace string, weight int64) (release func(), err error) {
	own := l.enter(namespace)
	if err := own.Acquire(ctx, weight); err != nil {
		l.leave(namespace)
		return nil, err
	}
	if err := l.all.Acquire(ctx, weight); err != nil {
		own.Release(weight)
		l.leave(namespace)
		return nil, err
	}
	return func() {
		l.all.Release(weight)
		own.Release(weight)
		l.leave(namespace)
	}, nil
}

func (l *lane) enter(namespace string) *semaphore.Weighted {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.namespaces[namespace]
	if t == nil {
		t = &tenant{share: semaphore.NewWeighted(l.share)}
		l.namespaces[namespace] = t
	}
	t.reviews++
	return t.share
}

func (l *lane) leave(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.namespaces[namespace]; t.reviews > 1 {
		t.reviews--
	} else {
		delete(l.namespaces, namespace)
	}
}

// tooLargeError says that an object takes more memory than there is for one.
type tooLargeError struct{ bytes, most int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%d MiB of memory are needed, and there are %d", mebibytes(e.bytes), mebibytes(e.most))
}

func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// busyError says that a context ended before an object could be worked on.
type busyError struct {
	large bool
	cause error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("the memory was taken by other requests all the time: %v", e.cause)
}

func (e *busyError) Unwrap() error { return e.cause }

// memory is what one review holds of the limits.
type memory struct {
	limits *limits
	// release gives back what is held; nil if nothing is. Held is how many bytes that are.
	release func()
	held    int64
}

// hold waits for so many bytes for a namespace, in place of what the review held until now:
// who holds some and waits for more could wait for ever.
func (m *memory) hold(ctx context.Context, namespace string, bytes int64) error {
	if m.release != nil && bytes <= m.held {
		return nil
	}
	m.free()
	if deadline, ok := ctx.Deadline(); ok && bytes > smallWork {
		// The other half is for the work, and for a refusal that arrives in time however
		// busy the API server is.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	release, err := m.limits.take(ctx, namespace, bytes)
	m.release, m.held = release, bytes
	return err
}

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
		why = fmt.Sprintf("the object is too large: %d KiB of JSON, and to work on it takes about %d MiB of memory. Pillion has %d MiB for one object. "+
			"Make the object smaller, or ask the cluster's admin for a larger resources.limits.memory in the values of Pillion's chart",
			len(r.Object)>>10, tooLarge.bytes>>20, tooLarge.most>>20)
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

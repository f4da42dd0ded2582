package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion-dev/pillion/injector/bounds"
	"github.com/pillion-dev/pillion/injector/effects"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Memory is what reviews may take of the process, in bytes.
type Memory struct {
	// Bodies is for the bodies of ordinary reviews and for the first part of each other,
	// LargeBodies for the rest of those.
	Bodies, LargeBodies int64
	// Decoded is for decoded objects and the work on them. A pod that takes more than
	// Decoded.Large is refused.
	Decoded bounds.BudgetOptions
}

// MemoryFor divides the memory that a process may use, in bytes, for a number of CPUs.
// A quarter is left to the process itself: templates, namespaces, connections.
func MemoryFor(limit int64, cpus int) Memory {
	return Memory{
		Bodies:      limit / 16,
		LargeBodies: max(limit/8, maxBody+1),
		Decoded: bounds.BudgetOptions{
			Small: max(limit/16, bounds.Small), SmallWorkers: max(2*cpus, 4),
			// One large pod keeps a CPU busy. Others have to have one, too.
			Large: limit * 15 / 32, LargeWorkers: max(cpus/2, 1),
		},
	}
}

// AdviceMemoryFor is the part of the memory of a process that webhooks may take whose answers
// are advice: a twentieth, taken from what [MemoryFor] leaves to the process. What needs more goes
// without advice.
func AdviceMemoryFor(limit int64) Memory {
	part := max(limit/64, bounds.Small)
	return Memory{
		Bodies: part / 4, LargeBodies: part,
		// One at a time: the other processors are for pods.
		Decoded: bounds.BudgetOptions{Small: part, SmallWorkers: 1, Large: part, LargeWorkers: 1},
	}
}

const (
	// workPerByte is how many bytes the pipeline takes besides a decoded object, for each
	// byte of it: copies of what it changes, the patch, and garbage not yet collected.
	// TestThePipelineDoesNotCopyALargePod holds less.
	workPerByte = 0.25
	// workPerContainer is how many bytes a template takes for each container that it
	// extends: what it renders and plans there, and what the record says of it.
	workPerContainer = 4608
)

// memory is what one review holds of the budget.
type memory struct {
	budget *bounds.Budget
	// release gives back what is held; nil if nothing is. Held is how many bytes that are.
	release func()
	held    int64
}

// hold waits for the memory to decode the parts and to work on them. It gives back first
// what the review held until now: who holds some and waits for more could wait for ever.
func (m *memory) hold(ctx context.Context, namespace string, parts ...part) error {
	return m.holdFor(ctx, namespace, 0, parts...)
}

// holdFor is hold for parts and for work that takes so many bytes more.
func (m *memory) holdFor(ctx context.Context, namespace string, work int64, parts ...part) error {
	bytes := work
	for _, p := range parts {
		size := int64(bounds.MostPerByte * len(p))
		if len(p) > smallPart {
			size = bounds.DecodedSize(p)
		}
		bytes += size + int64(workPerByte*float64(size)) + decoderBuffer*int64(len(p))
	}
	if m.release != nil && bytes <= m.held {
		return nil
	}
	m.free()
	if deadline, ok := ctx.Deadline(); ok && bytes > bounds.Small {
		// The other half is for the work, and for a refusal that arrives in time however
		// busy the API server is.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	release, err := m.budget.Take(ctx, namespace, bytes)
	m.release, m.held = release, bytes
	return err
}

// smallPart is the size in bytes up to which the memory for a part is not worth an estimate.
const smallPart = 8 << 10

// decoderBuffer is how many times its input a json.Decoder holds at most.
const decoderBuffer = 2

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
	var tooLarge *bounds.TooLargeError
	var busy *bounds.BusyError
	var why string
	switch {
	case errors.As(err, &tooLarge):
		why = fmt.Sprintf("the object is too large: %d KiB of JSON, and to work on it takes about %d MiB of memory. Pillion has %d MiB for one object. "+
			"Make the object smaller, or ask the cluster's admin for a larger resources.limits.memory in the values of Pillion's chart",
			len(r.Object)>>10, tooLarge.Bytes>>20, tooLarge.Most>>20)
	case errors.As(err, &busy) && busy.Large && !errors.Is(err, context.Canceled):
		why = fmt.Sprintf("the object is large (%d KiB of JSON), and Pillion was busy with other large objects for half of the time that the API server waits. Try again, or make the object smaller",
			len(r.Object)>>10)
	default:
		return Response{}, false
	}
	response := Denied(reason.TemplateTooExpensive, why+" ("+string(reason.TemplateTooExpensive)+")")
	response.Events = []effects.Event{{Pod: r.metadata, Code: reason.TemplateTooExpensive, Message: why, Refused: true}}
	return response, true
}

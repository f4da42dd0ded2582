package labels

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// rank is where in the queue a namespace stands. Lower ones come first.
type rank int

const (
	// urgent: the namespace changed just now.
	urgent rank = iota
	usual
	// takesOff: labels are taken off only.
	takesOff
	ranks
)

// order is the order of a [k8s.io/client-go/util/workqueue.Queue]. Of a rank any namespace is next:
// replicas that begin together seldom write the same, and no tenant's thousand namespaces stand
// before another's one.
type order struct {
	mu sync.Mutex
	// marked are the namespaces whose rank is not usual.
	marked  map[string]rank
	waiting [ranks][]string
}

func newOrder() *order { return &order{marked: map[string]rank{}} }

// put gives a namespace a rank, for when it is added to the queue. Urgent stays.
func (o *order) put(name string, r rank) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, marked := o.marked[name]; r != usual && !(marked && before == urgent) {
		o.marked[name] = r
	}
}

// take reports whether a namespace was urgent, and makes its rank usual.
func (o *order) take(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, marked := o.marked[name]
	delete(o.marked, name)
	return marked && r == urgent
}

// Touch implements workqueue.Queue.
func (o *order) Touch(name string) {
	for r, of := range o.waiting {
		if i := slices.Index(of, name); i >= 0 {
			o.waiting[r] = without(of, i)
		}
	}
	o.Push(name)
}

// Push implements workqueue.Queue.
func (o *order) Push(name string) {
	o.mu.Lock()
	r, marked := o.marked[name]
	o.mu.Unlock()
	if !marked {
		r = usual
	}
	o.waiting[r] = append(o.waiting[r], name)
}

// Len implements workqueue.Queue.
func (o *order) Len() int {
	n := 0
	for _, of := range o.waiting {
		n += len(of)
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *order) Pop() string {
	r := slices.IndexFunc(o.waiting[:], func(of []string) bool { return len(of) > 0 })
	i := rand.IntN(len(o.waiting[r]))
	name := o.waiting[r][i]
	o.waiting[r] = without(o.waiting[r], i)
	return name
}

// without takes out an item. The last item takes its place.
func without(names []string, i int) []string {
	last := len(names) - 1
	names[i], names[last] = names[last], ""
	return names[:last]
}

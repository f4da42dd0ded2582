package labels

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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates"
)

const label = "pillion.dev/required"

// world is a cluster's namespaces, which all controllers see at once.
type world struct {
	mu          sync.Mutex
	labels      map[string]map[string]string
	controllers []*Controller
	writes      map[string]int
	tries       int
	// refuse returns the error of a write; nil refuses none.
	refuse func(namespace string, changes []Change) error
}

func newWorld(names ...string) *world {
	w := &world{labels: map[string]map[string]string{}, writes: map[string]int{}}
	for _, name := range names {
		w.labels[name] = map[string]string{"team": "payments"}
	}
	return w
}

// numbered returns the names of n namespaces.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("ns-", i))
	}
	return names
}

func (w *world) All() iter.Seq[Namespace] { return slices.Values(w.List()) }

func (w *world) List() []Namespace {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Namespace
	for name := range w.labels {
		all = append(all, w.namespace(name))
	}
	return all
}

func (w *world) Get(_ context.Context, name string) (Namespace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.labels[name]; !ok {
		return Namespace{}, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return w.namespace(name), nil
}

func (w *world) namespace(name string) Namespace {
	labels := maps.Clone(w.labels[name])
	// The injection label is somebody's hand's, so that there is one label to manage.
	return Namespace{Namespace: templates.Namespace{Name: name, Labels: labels}, ByHand: []string{injection}}
}

// change changes a namespace, or makes or removes it, and tells the controllers.
func (w *world) change(name string, f func(labels map[string]string) map[string]string) {
	w.mu.Lock()
	if labels := f(w.labels[name]); labels == nil {
		delete(w.labels, name)
	} else {
		w.labels[name] = labels
	}
	controllers := w.controllers
	w.mu.Unlock()
	for _, c := range controllers {
		c.NamespaceChanged(name)
	}
}

func (w *world) write(_ context.Context, ns Namespace, changes []Change) error {
	name := ns.Name
	w.mu.Lock()
	w.tries++
	_, ok := w.labels[name]
	refuse := w.refuse
	w.mu.Unlock()
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	if refuse != nil {
		if err := refuse(name, changes); err != nil {
			return err
		}
	}
	w.change(name, func(labels map[string]string) map[string]string {
		w.writes[name]++
		for _, change := range changes {
			if change.TakesOff() {
				delete(labels, change.Key)
			} else {
				labels[change.Key] = change.Value
			}
		}
		return labels
	})
	return nil
}

// labelled counts the namespaces with the label.
func (w *world) labelled() int {
	n := 0
	for _, ns := range w.List() {
		if ns.Labels[label] == "true" {
			n++
		}
	}
	return n
}

// has returns a namespace's label.
func (w *world) has(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.labels[name][label]
}

// written returns how often a namespace was written, tried how many writes there were.
func (w *world) written(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes[name]
}

func (w *world) tried() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tries
}

func (w *world) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, writes := range w.writes {
		n += writes
	}
	return n
}

// replica is a controller with templates of its own.
type replica struct {
	*Controller
	mu    sync.Mutex
	set   *templates.Set
	ready error
	held  []string // namespace and label of each call of Held
	log   *logtest.Log
}

// start runs a controller until the test ends.
func (w *world) start(t *testing.T, set *templates.Set, ready error) *replica {
	t.Helper()
	r := &replica{set: set, ready: ready, log: &logtest.Log{}}
	r.Controller = New(Options{
		Rules: Rules{Excluded: []string{"kube-system"}}, Namespaces: w.All, Namespace: w.Get, PutOn: w.write, TakeOff: w.write,
		Proven:    func() bool { return false },
		Templates: func() *templates.Set { r.mu.Lock(); defer r.mu.Unlock(); return r.set },
		Ready:     func() error { r.mu.Lock(); defer r.mu.Unlock(); return r.ready },
		ReportFailure: func(namespace, label string, _ error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.held = append(r.held, namespace+" "+label)
		},
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	w.mu.Lock()
	w.controllers = append(w.controllers, r.Controller)
	w.mu.Unlock()
	runtest.Start(t, r.Run)
	return r
}

// told returns the namespaces and labels of which the controller said that somebody holds them.
func (r *replica) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.held)
}

func (r *replica) serve(set *templates.Set) {
	r.mu.Lock()
	r.set, r.ready = set, nil
	r.mu.Unlock()
	r.Changed()
}

var none = templates.NewSet(nil)

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestATemplateThatComesLabelsItsNamespacesAtOnceAndOneThatGoesSoonAfter(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		w := newWorld("shop", "bank", "kube-system")
		w.labels["web"] = map[string]string{"team": "web"}
		r := w.start(t, none, nil)
		pass(time.Second)
		if w.total() != 0 {
			t.Errorf("%d writes without a required template", w.total())
		}
		r.serve(required(t, "payments"))
		pass(100 * time.Millisecond)
		if w.labelled() != 2 || w.has("web") != "" || w.has("kube-system") != "" || w.total() != 2 {
			t.Errorf("the namespaces are %v", w.List())
		}
		r.serve(none)
		pass(settleTime - time.Second)
		if w.labelled() != 2 {
			t.Error("the label is taken off before it is sure that nothing wants it")
		}
		pass(2 * time.Second)
		if w.labelled() != 0 || w.total() != 4 {
			t.Errorf("after %d writes %d namespaces are labelled, and nothing wants it", w.total(), w.labelled())
		}
		pass(time.Hour)
		if w.tried() != 4 {
			t.Errorf("%d writes where nothing changed, want 4", w.tried())
		}
	})
}

// A start with templates that are not there yet must open no hole.
func TestNothingIsTakenOffBeforeTheTemplatesAreRead(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		w := newWorld("shop")
		w.labels["shop"][label] = "true"
		r := w.start(t, none, errors.New("templates of the cluster: not read yet"))
		pass(time.Minute)
		if w.tried() != 0 {
			t.Fatalf("%d writes before the templates are read", w.tried())
		}
		// What is read first may not be all: an API server that has just started says that
		// there are no SidecarTemplates.
		r.serve(none)
		pass(settleTime / 2)
		r.serve(required(t, "payments"))
		pass(time.Hour)
		if w.tried() != 0 || w.labelled() != 1 {
			t.Errorf("%d writes, %d labels; the label was right all the time", w.tried(), w.labelled())
		}
	})
}

func TestALabelThatSomebodyTakesOffIsBackAtOnce(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		w := newWorld("shop")
		w.start(t, required(t, "payments"), nil)
		pass(time.Minute)
		takeOff := func(labels map[string]string) map[string]string { delete(labels, label); return labels }
		w.change("shop", takeOff)
		synctest.Wait()
		if w.labelled() != 1 || w.written("shop") != 2 {
			t.Fatalf("%d labels after %d writes, want 1 after 2", w.labelled(), w.written("shop"))
		}
		// Whoever goes on keeps Pillion from nothing else.
		for range 600 {
			w.change("shop", takeOff)
			pass(100 * time.Millisecond)
		}
		if n := w.written("shop"); n < 5 || n > 20 {
			t.Errorf("in a minute of taking the label off it was written %d times", n)
		}
		pass(writePause)
		if w.labelled() != 1 {
			t.Error("the label is not back after all")
		}
		w.change("shop", func(labels map[string]string) map[string]string {
			labels["team"] = "web"
			return labels
		})
		pass(settleTime + takeOffCost*writePause)
		if w.labelled() != 0 {
			t.Error("the label stays where nothing wants it any more")
		}
	})
}

func TestTenThousandNamespacesAreThroughInReasonableTimeAndOneThatChangesDoesNotWait(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		const many = 10_000
		w := newWorld(numbered(many)...)
		r := w.start(t, none, nil)
		pass(time.Second)
		r.serve(required(t, "payments"))
		pass(10 * time.Second)
		if n := w.labelled(); n < 400 || n > 600 {
			t.Errorf("after 10s %d namespaces are labelled, want about %d", n, 10*writesPerSecond)
		}
		w.change("urgent", func(map[string]string) map[string]string { return map[string]string{"team": "payments"} })
		pass(time.Second)
		if w.has("urgent") != "true" {
			t.Error("a namespace that came while the others wait is not labelled after a second")
		}
		pass(many / writesPerSecond * time.Second)
		if w.labelled() != many+1 || w.tried() != many+1 {
			t.Errorf("%d of %d namespaces are labelled after %d writes", w.labelled(), many+1, w.tried())
		}
	})
}

func TestReplicasThatAgreeWriteLittleMoreThanOne(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		w := newWorld(numbered(1000)...)
		for range 3 {
			w.start(t, required(t, "payments"), nil)
		}
		pass(time.Hour)
		if w.labelled() != 1000 || w.tried() > 1200 {
			t.Errorf("%d labels after %d writes", w.labelled(), w.tried())
		}
	})
}

// While one version replaces another, replicas can have different templates. They do not
// flood the API server, and the label is there nearly all the time.
func TestReplicasThatDisagreeDoNotFight(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		w := newWorld("shop")
		w.start(t, required(t, "payments"), nil)
		w.start(t, none, nil)
		pass(time.Hour)
		if n := w.total(); n < 2 || n > 60 {
			t.Errorf("%d writes in an hour", n)
		}
		if w.labelled() != 1 {
			t.Error("the label is off, and a replica verifies by it")
		}
	})
}

func TestALabelThatCannotBeWrittenIsTriedSeldomSaidOnceAndWrittenInTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		says []string
	}{
		"a missing right": {apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "shop", errors.New(`User "system:serviceaccount:a:b" cannot patch resource "namespaces" in API group "" in the namespace "shop"`)),
			[]string{"level=ERROR", "missing permission: the verb patch on the resource namespaces", "The chart grants it", "kubectl create clusterrolebinding", "serviceaccount:a:b"}},
		"an API server that is away": {errors.New("dial tcp: connection refused"), []string{"level=ERROR", "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			runtest.Bubble(t, func(t *testing.T) {
				w := newWorld(numbered(100)...)
				w.refuse = func(string, []Change) error { return c.err }
				r := w.start(t, required(t, "payments"), nil)
				pass(time.Minute)
				if w.tried() > 100*7 {
					t.Errorf("%d tries of a hundred namespaces in a minute", w.tried())
				}
				pass(9 * time.Minute)
				if w.tried() > 100*16 {
					t.Errorf("%d tries of a hundred namespaces in ten minutes", w.tried())
				}
				for _, want := range c.says {
					if r.log.Count(want) != 1 {
						t.Errorf("the log has %q %d times, want once:\n%s", want, r.log.Count(want), r.log)
					}
				}
				if err := testutil.CollectAndCompare(r, strings.NewReader(failing), "pillion_namespaces_failing_label", "pillion_namespaces_missing_label"); err != nil {
					t.Error(err)
				}
				w.mu.Lock()
				w.refuse = nil
				w.mu.Unlock()
				pass(lastRetry)
				if w.labelled() != 100 || r.log.Count("can be written again") == 0 {
					t.Errorf("%d of 100 namespaces are labelled; the log:\n%s", w.labelled(), r.log)
				}
			})
		})
	}
}

const failing = `
# HELP pillion_namespaces_failing_label Namespaces whose label cannot be set or removed, by label; the log says why.
# TYPE pillion_namespaces_failing_label gauge
pillion_namespaces_failing_label{label="pillion.dev/injection"} 0
pillion_namespaces_failing_label{label="pillion.dev/required"} 100
# HELP pillion_namespaces_missing_label Namespaces that should have a label of Pillion's and lack it, by label.
# TYPE pillion_namespaces_missing_label gauge
pillion_namespaces_missing_label{label="pillion.dev/injection"} 0
pillion_namespaces_missing_label{label="pillion.dev/required"} 100
`

// A policy or a webhook of others can refuse the write of a namespace.
func TestANamespaceThatCannotBeWrittenDelaysNoOther(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		w := newWorld(numbered(200)...)
		var bad atomic.Int32
		w.refuse = func(name string, _ []Change) error {
			if name != "ns-7" {
				return nil
			}
			bad.Add(1)
			return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, name, errors.New("no labels here"))
		}
		r := w.start(t, required(t, "payments"), nil)
		pass(200/writesPerSecond*time.Second + time.Second)
		if w.labelled() != 199 {
			t.Errorf("%d of 199 namespaces are labelled", w.labelled())
		}
		if told := r.told(); len(told) != 0 {
			t.Errorf("told of a failure that may pass: %q", told)
		}
		pass(20 * time.Second)
		if told := slices.Compact(r.told()); !slices.Equal(told, []string{"ns-7 " + label}) {
			t.Errorf("told of a failure that lasts is %q", told)
		}
		pass(time.Hour)
		if n := bad.Load(); n < 30 || n > 80 {
			t.Errorf("the bad one was tried %d times in an hour", n)
		}
		if n := strings.Count(r.log.String(), "no labels here"); n != 1 {
			t.Errorf("the log says it %d times:\n%s", n, r.log.String())
		}
	})
}

// Whatever happened, once nothing happens any more every label is what it should be.
func TestEveryLabelIsRightInTheEnd(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		sets := []*templates.Set{none, required(t, "payments"), required(t, "web")}
		w := newWorld()
		replicas := []*replica{w.start(t, none, nil), w.start(t, none, nil)}
		for range 20 {
			for range 50 {
				switch name := fmt.Sprint("ns-", r.IntN(20)); r.IntN(6) {
				case 0:
					set := sets[r.IntN(len(sets))]
					for _, replica := range replicas {
						replica.serve(set)
					}
				case 1:
					w.change(name, func(map[string]string) map[string]string { return nil })
				case 2:
					flaky := r.IntN(2) == 0
					w.mu.Lock()
					w.refuse = func(_ string, _ []Change) error {
						if flaky {
							return apierrors.NewInternalError(errors.New("flaky"))
						}
						return nil
					}
					w.mu.Unlock()
				default:
					labels := map[string]string{"team": []string{"payments", "web", ""}[r.IntN(3)]}
					if r.IntN(2) == 0 {
						labels[label] = []string{"true", "no", ""}[r.IntN(3)]
					}
					w.change(name, func(map[string]string) map[string]string { return labels })
				}
				pass(time.Duration(r.Int64N(int64(2 * time.Second))))
			}
			w.mu.Lock()
			w.refuse = nil
			w.mu.Unlock()
			pass(2*writesAtOnce*writePause + settleTime)
			for _, ns := range w.List() {
				if left := (Rules{}).Changes(replicas[0].set, false, ns); len(left) > 0 {
					t.Fatalf("the namespace %s with the labels %v still wants %v", ns.Name, ns.Labels, left)
				}
			}
			before := w.tried()
			pass(time.Hour)
			if w.tried() != before {
				t.Fatalf("%d writes where nothing happens", w.tried()-before)
			}
		}
	})
}

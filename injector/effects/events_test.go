package effects

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/clientset/clientsettest"
	"github.com/pillion-dev/pillion/injector/reason"
)

// world is a cluster with the namespaces shop, which the informer knows, and fresh, which it
// does not know yet. In shop there are the ReplicaSet web and the ConfigMap web, with UIDs of
// their kind and name.
type world struct {
	client   *fake.Clientset
	metadata *metadatafake.FakeMetadataClient
	events   *Events

	mu      sync.Mutex
	refused error // what creating an event returns
}

func object(apiVersion, kind, namespace, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(kind + "-" + name)},
	}
}

// start makes the world. It is called inside a bubble of synctest: time stands still while
// anything runs.
func start(t *testing.T, owners bool) *world {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{client: fake.NewClientset(), metadata: metadatafake.NewSimpleMetadataClient(scheme,
		object("v1", "Namespace", "", "shop"), object("v1", "Namespace", "", "fresh"),
		object("apps/v1", "ReplicaSet", "shop", "web"), object("v1", "ConfigMap", "shop", "web"), object("apps/v1", "Deployment", "shop", "web"))}
	w.client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.refused != nil, nil, w.refused
	})
	w.events = NewEvents(Options{
		Client: clientsettest.Of(w.client), Metadata: w.metadata, Owners: owners, Instance: "pillion-0", Logger: slog.New(slog.DiscardHandler),
		Namespace: func(name string) (types.UID, bool) { return "Namespace-shop", name == "shop" },
	})
	t.Cleanup(w.events.Close)
	return w
}

// fail has every creation of an event fail with the error, nil for none.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = err
}

// written returns the events that were created so far, once nothing moves any more.
func (w *world) written(t *testing.T) []eventsv1.Event {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	var all []eventsv1.Event
	for _, action := range w.client.Actions() {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetVerb() != "create" || action.GetResource() != eventsv1.SchemeGroupVersion.WithResource("events") {
			t.Errorf("a request other than the creation of an event of events.k8s.io: %v", action)
			continue
		}
		all = append(all, *create.GetObject().(*eventsv1.Event))
	}
	return all
}

// reads counts the reads of owners and namespaces.
func (w *world) reads() int { return len(w.metadata.Actions()) }

// ownedBy is a pod with a controller, besides another owner.
func ownedBy(apiVersion, kind, name, uid string) map[string]any {
	return map[string]any{"metadata": map[string]any{"ownerReferences": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": "ConfigMap-web"},
		map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid, "controller": true},
	}}}
}

func TestAnEventIsOnTheOwnerThatAReadConfirmsOrElseOnTheNamespace(t *testing.T) {
	const onNamespace = "v1 Namespace shop Namespace-shop in shop"
	for name, c := range map[string]struct {
		pod     map[string]any
		owners  bool
		want    string
		noReads bool
	}{
		"a ReplicaSet that exists":              {pod: ownedBy("apps/v1", "ReplicaSet", "web", "ReplicaSet-web"), owners: true, want: "apps/v1 ReplicaSet web ReplicaSet-web in shop"},
		"without the right to read owners":      {pod: ownedBy("apps/v1", "ReplicaSet", "web", "ReplicaSet-web"), want: onNamespace, noReads: true},
		"a forged name":                         {pod: ownedBy("apps/v1", "ReplicaSet", "other", "ReplicaSet-web"), owners: true, want: onNamespace},
		"a forged UID":                          {pod: ownedBy("apps/v1", "ReplicaSet", "web", "another"), owners: true, want: onNamespace},
		"no UID":                                {pod: ownedBy("apps/v1", "ReplicaSet", "web", ""), owners: true, want: onNamespace, noReads: true},
		"an object that creates no pods":        {pod: ownedBy("v1", "ConfigMap", "web", "ConfigMap-web"), owners: true, want: onNamespace, noReads: true},
		"a kind that creates ReplicaSets":       {pod: ownedBy("apps/v1", "Deployment", "web", "Deployment-web"), owners: true, want: onNamespace, noReads: true},
		"a kind of another group":               {pod: ownedBy("apps.example.com/v1", "ReplicaSet", "web", "ReplicaSet-web"), owners: true, want: onNamespace, noReads: true},
		"a path for a name":                     {pod: ownedBy("apps/v1", "ReplicaSet", "../../secrets/web", "ReplicaSet-web"), owners: true, want: onNamespace},
		"a name without end":                    {pod: ownedBy("apps/v1", "ReplicaSet", strings.Repeat("a", 1<<20), "ReplicaSet-web"), owners: true, want: onNamespace, noReads: true},
		"a pod without an owner":                {pod: map[string]any{}, owners: true, want: onNamespace, noReads: true},
		"an owner that is not the controller":   {pod: map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"kind": "ReplicaSet"}}}}, owners: true, want: onNamespace, noReads: true},
		"owners that are not objects":           {pod: map[string]any{"metadata": map[string]any{"ownerReferences": []any{"x", 3}}}, owners: true, want: onNamespace, noReads: true},
		"metadata that is not an object either": {pod: map[string]any{"metadata": []any{}}, owners: true, want: onNamespace, noReads: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, c.owners)
				w.events.Record(Event{Namespace: "shop", Pod: c.pod, Code: reason.Conflict, Message: "said"})
				written := w.written(t)
				if len(written) != 1 {
					t.Fatalf("%d events, want one", len(written))
				}
				e := written[0]
				got := fmt.Sprintf("%s %s %s %s in %s", e.Regarding.APIVersion, e.Regarding.Kind, e.Regarding.Name, e.Regarding.UID, e.Namespace)
				if got != c.want || e.Regarding.Namespace != "shop" {
					t.Errorf("the event is about %s, want %s", got, c.want)
				}
				if e.Reason != string(reason.Conflict) || e.Note != "said" || e.Type != "Warning" || e.ReportingController == "" || e.ReportingInstance != "pillion-0" || e.Action == "" || e.EventTime.IsZero() {
					t.Errorf("the event is %+v", e)
				}
				if c.noReads && w.reads() > 0 {
					t.Errorf("something was read: %v", w.metadata.Actions())
				}
			})
		})
	}
}

func TestAnEventIsWrittenOnlyForANamespaceThatExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		for _, namespace := range []string{"none", "", "../shop", "Shop", strings.Repeat("a", 64), "fresh"} {
			w.events.Record(Event{Namespace: namespace, Code: reason.Conflict, Message: "in " + namespace})
		}
		written := w.written(t)
		if len(written) != 1 || written[0].Namespace != "fresh" || written[0].Regarding.UID != "Namespace-fresh" {
			t.Errorf("the events are %+v, want one, about the namespace that only a read finds", written)
		}
	})
}

func TestADryRunWritesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.events.Record(Event{DryRun: true, Namespace: "shop", Code: reason.Conflict, Message: "dry"})
		w.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "real"})
		if written := w.written(t); len(written) != 1 || written[0].Note != "real" {
			t.Errorf("the events are %+v, want only that of the second outcome", written)
		}
	})
}

func TestAnEqualEventIsRepeatedOnlyAfterMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		record := func(message string) {
			w.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: message, Pod: ownedBy("apps/v1", "ReplicaSet", "web", "ReplicaSet-web")})
		}
		for range 5 {
			record("same")
		}
		record("other")
		if n := len(w.written(t)); n != 2 {
			t.Fatalf("%d events, want two", n)
		}
		time.Sleep(repeatAfter - 2*time.Second)
		record("same")
		if n := len(w.written(t)); n != 2 {
			t.Fatalf("%d events, want no third so soon", n)
		}
		time.Sleep(2 * time.Second)
		record("same")
		written := w.written(t)
		if len(written) != 3 || written[0].Name == written[2].Name || written[0].Name == written[1].Name {
			t.Errorf("the events are %+v, want a third with a name of its own", written)
		}
	})
}

// The API server refuses an event whose name exists: the replicas share their names.
func TestTwoReplicasNameTheSameEventAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := start(t, true), start(t, true)
		two.fail(apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, "x"))
		for _, w := range []*world{one, two} {
			w.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "same"})
		}
		if a, b := one.written(t), two.written(t); len(a) != 1 || len(b) != 1 || a[0].Name != b[0].Name {
			t.Errorf("the events are %+v and %+v, want one name", a, b)
		}
		two.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "same"})
		if n := len(two.written(t)); n != 1 {
			t.Errorf("%d attempts, want none after it was found to exist", n)
		}
	})
}

func TestAnEventThatCouldNotBeWrittenMayBeWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.fail(errors.New("no connection"))
		record := func() { w.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "same"}) }
		record()
		if n := len(w.written(t)); n != 1 {
			t.Fatalf("%d attempts, want one", n)
		}
		w.fail(nil)
		record()
		if n := len(w.written(t)); n != 2 {
			t.Errorf("%d attempts, want a second one", n)
		}
	})
}

// A flood of forged reviews in one namespace takes no other namespace's events, and the API
// server is not asked more often than the rate allows.
func TestAFloodIsBoundedAndTakesNoOtherNamespacesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		for i := range 5_000 {
			w.events.Record(Event{Namespace: fmt.Sprintf("none-%d", i), Code: reason.Conflict, Message: "forged"})
			w.events.Record(Event{Namespace: "fresh", Code: reason.Conflict, Message: fmt.Sprint("forged ", i)})
		}
		w.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "true"})
		time.Sleep(time.Minute)
		written := w.written(t)
		if !strings.Contains(fmt.Sprint(written), "true") {
			t.Error("the flood took another namespace's event")
		}
		if len(written) > namespaceBurst+1 || w.reads() > namespaceBurst {
			t.Errorf("%d events, %d reads, want at most %d by the flood", len(written), w.reads(), namespaceBurst)
		}
		if n := len(w.events.bounds.written); n > remembered {
			t.Errorf("%d events are remembered", n)
		}
	})
}

// Record neither blocks nor grows while the API server does not answer.
func TestAnAPIServerThatHangsCostsABoundedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		hang := make(chan struct{})
		w.client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hang
			return true, nil, errors.New("too late")
		})
		w.events.options.Namespace = func(string) (types.UID, bool) { return "known", true }
		began := time.Now()
		for i := range 10_000 {
			w.events.Record(Event{Namespace: fmt.Sprintf("n-%d", i%3000), Code: reason.Conflict, Message: fmt.Sprint(i)})
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("recording took %s of the bubble's time: it waited", took)
		}
		if n := len(w.events.queue); n > queueLength {
			t.Errorf("%d events are queued", n)
		}
		close(hang)
	})
}

func TestBoundsNeverGrowPastTheirLimits(t *testing.T) {
	b, now := newBounds(), time.Unix(1e9, 0)
	for i := range 3 * remembered {
		b.allow(fmt.Sprint("key ", i), fmt.Sprint("namespace ", i), now)
		if i%7 == 0 {
			now = now.Add(time.Millisecond)
		}
		if len(b.written) > remembered || len(b.buckets) > namespacesCounted {
			t.Fatalf("%d events and %d namespaces are held", len(b.written), len(b.buckets))
		}
	}
	if now = now.Add(time.Hour); !b.allow("later", "another", now) {
		t.Error("no event is allowed an hour after a flood")
	}
}

// The API server's rules for an event, for any text that a review can bring about.
func FuzzAnEventKeepsTheAPIsLimits(f *testing.F) {
	f.Add("said", "web", "shop")
	f.Add(strings.Repeat("ä", 600), strings.Repeat("a.", 126)+"a", "shop")
	f.Add("\xff\xfe", "", "")
	f.Fuzz(func(t *testing.T, message, name, uid string) {
		n := noteOf(Event{Namespace: "shop", Code: reason.Conflict, Message: message, Pod: ownedBy("apps/v1", "ReplicaSet", name, uid)}, time.Unix(1e9, 0))
		if len(n.message) > maxNote || utf8.ValidString(message) && !utf8.ValidString(n.message) || !strings.HasPrefix(message, n.message) {
			t.Errorf("the note has %d bytes: %q", len(n.message), n.message)
		}
		if len(n.owner.Name) > maxName || len(n.owner.UID) > maxUID {
			t.Errorf("the owner is %+v", n.owner)
		}
		event := n.event(n.owner, "pillion-0")
		if len(event.Name) > maxName || strings.Contains(event.Name, "..") && !strings.Contains(name, "..") {
			t.Errorf("the name is %q", event.Name)
		}
	})
}

func TestCloseEndsTheWriterAndLaterEventsAreHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.events.Close()
		w.events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "late"})
		if n := len(w.written(t)); n != 0 {
			t.Errorf("%d events after Close", n)
		}
	})
}

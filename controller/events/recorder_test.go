package events

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
)

// world is a cluster with the namespaces shop, which the informer knows, and fresh, which it
// does not know yet. In shop there are objects with UIDs of their kind and name: the ReplicaSet
// web; web-1 of the Deployment web; web-2 of a Rollout, which is of another project; the Job night-1 of the CronJob night; and
// the ConfigMap web.
type world struct {
	client   *fake.Clientset
	metadata *metadatafake.FakeMetadataClient
	events   *Recorder
}

func object(apiVersion, kind, namespace, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(kind + "-" + name)},
	}
}

// owned gives an object a controller.
func owned(o *metav1.PartialObjectMetadata, apiVersion, kind, name string, uid types.UID) *metav1.PartialObjectMetadata {
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	return o
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
		object("apps/v1", "ReplicaSet", "shop", "web"), object("v1", "ConfigMap", "shop", "web"), object("apps/v1", "Deployment", "shop", "web"),
		owned(object("apps/v1", "ReplicaSet", "shop", "web-1"), "apps/v1", "Deployment", "web", "Deployment-web"),
		owned(object("apps/v1", "ReplicaSet", "shop", "web-2"), "argoproj.io/v1alpha1", "Rollout", "web", "Rollout-web"),
		owned(object("batch/v1", "Job", "shop", "night-1"), "batch/v1", "CronJob", "night", "CronJob-night"), object("batch/v1", "CronJob", "shop", "night"))}
	w.events = New(Options{
		Client: w.client.EventsV1(), Metadata: w.metadata, Owners: owners, Logger: slog.New(slog.DiscardHandler),
		Explain:   injector.Config{}.ExplainCommand,
		Namespace: func(name string) (types.UID, bool) { return "Namespace-shop", name == "shop" },
	})
	runtest.Start(t, w.events.Run)
	return w
}

// written returns the events that were created so far, once nothing moves any more.
func (w *world) written(t *testing.T) []eventsv1.Event {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	var all []eventsv1.Event
	for _, action := range w.client.Actions() {
		if action.GetResource() != eventsv1.SchemeGroupVersion.WithResource("events") {
			t.Errorf("a request that is not about an event of events.k8s.io: %v", action)
		}
		switch action := action.(type) {
		case clienttesting.CreateAction:
			all = append(all, *action.GetObject().(*eventsv1.Event))
		case clienttesting.PatchAction:
		default:
			t.Errorf("a request other than the creation and a patch of an event: %v", action)
		}
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
		"the Deployment above":                  {pod: ownedBy("apps/v1", "ReplicaSet", "web-1", "ReplicaSet-web-1"), owners: true, want: "apps/v1 Deployment web Deployment-web in shop"},
		"the CronJob above":                     {pod: ownedBy("batch/v1", "Job", "night-1", "Job-night-1"), owners: true, want: "batch/v1 CronJob night CronJob-night in shop"},
		"another project's kind above":          {pod: ownedBy("apps/v1", "ReplicaSet", "web-2", "ReplicaSet-web-2"), owners: true, want: "apps/v1 ReplicaSet web-2 ReplicaSet-web-2 in shop"},
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
				if e.Reason != string(reason.Conflict) || !strings.HasPrefix(e.Note, "said (why: kubectl pillion explain ") || e.Type != "Warning" || e.ReportingController == "" || e.ReportingInstance == "" || e.Action == "" || e.EventTime.IsZero() {
					t.Errorf("the event is %+v", e)
				}
				if c.noReads && w.reads() > 0 {
					t.Errorf("something was read: %v", w.metadata.Actions())
				}
			})
		})
	}
}

// The creator of a pod by hand saw the warning. A controller shows none to anybody.
func TestAnEventIsWrittenOnceForANamespaceThatExistsWhereNobodySawIt(t *testing.T) {
	byController, byAnotherProject := ownedBy("apps/v1", "ReplicaSet", "web-1", "ReplicaSet-web-1"), ownedBy("example.com/v1", "Runner", "web", "x")
	for name, c := range map[string]struct {
		event Event
		want  int
	}{
		"of a namespace":                  {Event{Namespace: "shop", Code: reason.Conflict}, 1},
		"of one that only a read finds":   {Event{Namespace: "fresh", Code: reason.Conflict}, 1},
		"of none":                         {Event{Namespace: "none", Code: reason.Conflict}, 0},
		"without a namespace":             {Event{Code: reason.Conflict}, 0},
		"of a path":                       {Event{Namespace: "../shop", Code: reason.Conflict}, 0},
		"of a name in capital letters":    {Event{Namespace: "Shop", Code: reason.Conflict}, 0},
		"of a name that is too long":      {Event{Namespace: strings.Repeat("a", 64), Code: reason.Conflict}, 0},
		"of a dry run":                    {Event{Namespace: "shop", Code: reason.Conflict, DryRun: true}, 0},
		"warned of, by hand":              {Event{Namespace: "shop", Code: InjectionNote, Pod: map[string]any{}, Warned: true}, 0},
		"warned of, by a controller":      {Event{Namespace: "shop", Code: InjectionNote, Pod: byController, Warned: true}, 1},
		"warned of, by another project's": {Event{Namespace: "shop", Code: InjectionNote, Pod: byAnotherProject, Warned: true}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, true)
			for range 3 { // equal events are one series
				w.events.Record(c.event)
			}
			if written := w.written(t); len(written) != c.want || c.want > 0 && string(written[0].Regarding.UID) == "" || c.want > 0 && written[0].Namespace != c.event.Namespace {
				t.Errorf("%s: the events are %+v, want %d", name, written, c.want)
			}
		})
	}
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
		if len(written) > namespaceAtOnce+1 || w.reads() > namespaceAtOnce {
			t.Errorf("%d events, %d reads, want at most %d by the flood", len(written), w.reads(), namespaceAtOnce)
		}
	})
}

// Record neither blocks nor grows while the API server does not answer.
func TestAnAPIServerThatHangsHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		hang := make(chan struct{})
		w.metadata.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-hang
			return true, nil, errors.New("too late")
		})
		w.events.options.Namespace = func(string) (types.UID, bool) { return "known", true }
		began := time.Now()
		for i := range 2 * maxNamespaces {
			w.events.Record(Event{Namespace: fmt.Sprint("n-", i), Code: reason.Conflict, Message: fmt.Sprint(i), Pod: ownedBy("apps/v1", "ReplicaSet", "web", "ReplicaSet-web")})
		}
		if took := time.Since(began); took > 0 || w.events.rates.Len() > maxNamespaces || len(w.events.queue) != queueLength {
			t.Errorf("recording waited %s; %d rates are remembered, and %d events wait", took, w.events.rates.Len(), len(w.events.queue))
		}
		close(hang)
	})
}

// The API server's rules for an event, for any text that a review can bring about.
func FuzzAnEventKeepsTheAPIsLimits(f *testing.F) {
	f.Add("said", "web", "shop")
	f.Add(strings.Repeat("ä", 600), strings.Repeat("a.", 126)+"a", "shop")
	f.Add("\xff\xfe", "", "")
	f.Fuzz(func(t *testing.T, message, name, uid string) {
		n, _ := newNote(Event{Namespace: "shop", Code: reason.Conflict, Message: message, Pod: ownedBy("apps/v1", "ReplicaSet", name, uid)})
		if len(n.message) > maxNote || utf8.ValidString(message) && !utf8.ValidString(n.message) || !strings.HasPrefix(message, n.message) {
			t.Errorf("the note has %d bytes: %q", len(n.message), n.message)
		}
		if len(n.owner.Name) > maxName || len(n.owner.UID) > maxUID {
			t.Errorf("the owner is %+v", n.owner)
		}
		text := n.text(n.owner, injector.Config{}.ExplainCommand)
		if len(text) > maxNote || utf8.ValidString(message) && utf8.ValidString(name) && !utf8.ValidString(text) {
			t.Errorf("the note has %d bytes: %q", len(text), text)
		}
	})
}

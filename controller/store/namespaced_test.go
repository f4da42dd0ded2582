package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// tenants are NamespacedSidecarTemplates of a fake API: metadata and specs.
type tenants struct {
	mu    sync.Mutex
	specs map[string]string
	reads map[string]int
	meta  []runtime.Object
	// off and excluded are of the options.
	off      bool
	excluded []string
}

func (w *tenants) add(namespace, name, spec string, age time.Duration) {
	w.specs[namespace+"/"+name] = spec
	w.meta = append(w.meta, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "pillion.dev/v1alpha1", Kind: "NamespacedSidecarTemplate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1, ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
	})
}

func (w *tenants) read(_ context.Context, namespace, name string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads[namespace]++
	spec, ok := w.specs[namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace, "uid": namespace + name, "generation": 1, "resourceVersion": "1"}, "spec": json.RawMessage(spec)})
}

func metadataClient(t *testing.T, objects ...runtime.Object) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewSimpleMetadataClient(scheme, objects...)
}

// namespaced returns what reads these templates, in a cluster with these objects.
func (w *tenants) namespaced(t *testing.T, objects ...runtime.Object) *Namespaced {
	t.Helper()
	return NewNamespaced(NamespacedOptions{Metadata: metadataClient(t, objects...), Group: "pillion.dev", Read: w.read, Budget: 1 << 30, Logger: slog.New(slog.DiscardHandler), SwitchedOff: w.off, Excluded: w.excluded})
}

// run follows the templates until all are read, and returns the set with them, and the reasons.
func (w *tenants) run(t *testing.T, budget int64, cluster ...templates.Entry) (*templates.Set, map[string]string) {
	t.Helper()
	var set *templates.Set
	reasons := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		n := w.namespaced(t, w.meta...)
		n.o.Budget = budget
		store := New(Options{Logger: n.o.Logger})
		store.set.Store(templates.NewSet(cluster))
		store.Attach(n)
		n.OnVerdicts(func(_ string, verdicts []Verdict) {
			for _, v := range verdicts {
				reasons[v.Object.Name] = v.Reason
			}
		})
		stop := runtest.Start(t, n.Run)
		for n.Loaded() != nil {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // those that find no room hear of it
		synctest.Wait()
		set = store.Snapshot()
		stop()
	})
	return set, reasons
}

func newTenants() *tenants { return &tenants{specs: map[string]string{}, reads: map[string]int{}} }

const small = `{"inject": {"spec": {"containers": [{"name": "own", "image": "registry.example.com/own:1"}]}}}`

// costly is a spec of n expressions.
func costly(n int) string {
	var variables []string
	for i := range n {
		variables = append(variables, fmt.Sprintf(`{"name": "v%d", "expression": "1 + %d"}`, i, i))
	}
	return `{"variables": [` + strings.Join(variables, ",") + `], "inject": {"metadata": {"annotations": {"a": "b"}}}}`
}

func TestOfANamespaceTheOldestTwentyTemplatesCount(t *testing.T) {
	w := newTenants()
	for i := range 22 {
		w.add("shop", fmt.Sprintf("t%02d", i), small, time.Duration(i%21)*time.Minute) // t00 and t21 are the youngest
	}
	w.add("pay", "other", small, 0)
	set, reasons := w.run(t, 1<<30)
	for i := range 22 {
		name, want := fmt.Sprintf("t%02d", i), Compiled
		if i == 0 || i == 21 {
			want = TooMany
		}
		_, there := set.In("shop").Get(name)
		if got := reasons["shop/"+name]; got != want || there != (want == Compiled) {
			t.Errorf("%s is %s and in force %v, want %s", name, got, there, want)
		}
		if _, elsewhere := set.In("pay").Get(name); elsewhere {
			t.Errorf("%s reached another namespace", name)
		}
	}
	if _, everywhere := set.Get("other"); everywhere || len(set.Entries()) != 0 {
		t.Error("a template of a namespace is in the set of the cluster")
	}
}

func TestATenantWithExpensiveTemplatesTakesNobodysPlace(t *testing.T) {
	w := newTenants()
	w.add("large", "huge", `{"inject": {"metadata": {"annotations": {"a": "`+strings.Repeat("x", 1_400_000)+`"}}}}`, 0)
	w.add("large", "fits", small, 0)
	w.add("many", "a-first", costly(70), time.Hour)
	w.add("many", "b-second", costly(70), 0)
	for i := range 5 {
		w.add(fmt.Sprint("hostile-", i), "worst", costly(70), 0)
	}
	w.add("honest", "own", costly(5), 0)
	w.add("shadowed", "taken", small, 0)
	set, reasons := w.run(t, 4<<20, templates.Entry{Name: "taken", Err: fmt.Errorf("broken")})
	for name, want := range map[string]string{
		"large/huge": TooExpensive, "large/fits": Compiled, "many/b-second": TooExpensive,
		"honest/own": Compiled, "hostile-0/worst": Compiled, "hostile-4/worst": NoRoom, "shadowed/taken": Shadowed,
	} {
		if got := reasons[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if e, ok := set.In("hostile-4").Get("worst"); !ok || e.Template != nil || e.Err == nil {
		t.Errorf("a template without room is %+v", e)
	}
	if e, _ := set.In("shadowed").Get("taken"); e.Namespace != "" {
		t.Error("the template of the namespace counts, and the cluster has one of the name")
	}
}

func TestABrokenTemplateStaysBrokenWhenItsNameIsItsOwnAgain(t *testing.T) {
	w := newTenants()
	w.add("shop", "own", `{"inject": {"spec": {"containers": [{"nome": "x"}]}}}`, 0)
	n := w.namespaced(t)
	var said string
	n.OnVerdicts(func(_ string, verdicts []Verdict) { said = verdicts[0].Reason })
	s := &namespaceState{objects: map[string]*objectMetadata{"own": {metav1.ObjectMeta{Namespace: "shop", Name: "own", UID: "shopown", ResourceVersion: "1"}}}, limiter: rate.NewLimiter(1, 1)}
	n.namespaces["shop"] = s
	canary := templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: own}, spec: {canary: {of: audit}, inject: {metadata: {labels: {a: b}}}}}`)
	for _, c := range []struct {
		cluster []templates.Entry
		want    string
	}{{nil, CompileFailed}, {[]templates.Entry{{Name: "own"}}, Shadowed}, {nil, CompileFailed}, {[]templates.Entry{{Name: "own", Template: canary}}, Shadowed}} {
		n.cluster = func() *templates.Set { return templates.NewSet(c.cluster) }
		n.look(t.Context(), "shop")
		if said != c.want {
			t.Errorf("the template is %s, want %s", said, c.want)
		}
	}
}

// Who deletes the CRD means no template by it: those of namespaces stay in force until they are back.
func TestTemplatesOfNamespacesSurviveTheirCRD(t *testing.T) {
	made := time.Unix(1e9, 0)
	definition := func(created time.Time, going bool) []runtime.Object {
		d := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: "namespacedsidecartemplates.pillion.dev", CreationTimestamp: metav1.NewTime(created)},
		}
		if going {
			d.DeletionTimestamp = new(metav1.NewTime(created))
		}
		return []runtime.Object{d}
	}
	for name, c := range map[string]struct {
		crd  []runtime.Object
		want bool
	}{
		"deleted alone":            {definition(made.Add(-time.Hour), false), false},
		"deleted with its CRD":     {nil, true},
		"while its CRD is deleted": {definition(made.Add(-time.Hour), true), true},
		"its CRD is made anew":     {definition(made.Add(time.Hour), false), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenants()
			w.add("shop", "own", small, 0)
			n := w.namespaced(t, c.crd...)
			object := &objectMetadata{metav1.ObjectMeta{Namespace: "shop", Name: "own", UID: "shopown", ResourceVersion: "1", CreationTimestamp: metav1.NewTime(made)}}
			s := &namespaceState{objects: map[string]*objectMetadata{"own": object}, limiter: rate.NewLimiter(1, 1)}
			n.namespaces["shop"] = s
			inForce := func() bool {
				n.look(t.Context(), "shop")
				entries := (*n.all.Load())["shop"]
				return len(entries) == 1 && entries[0].Template != nil
			}
			if !inForce() {
				t.Fatal("the template is not in force")
			}
			delete(s.objects, "own")
			for range 2 {
				if inForce() != c.want {
					t.Errorf("the template is in force: %v, want %v", !c.want, c.want)
				}
			}
			if !c.want {
				return
			}
			n.o.Metadata = metadataClient(t, definition(made.Add(time.Hour), false)...)
			object.CreationTimestamp = metav1.NewTime(made.Add(2 * time.Hour))
			s.objects["own"] = object
			if !inForce() || n.Reasons()[Compiled] != 1 {
				t.Error("the template is back, and not in force")
			}
			delete(s.objects, "own")
			if inForce() {
				t.Error("the template is back and was deleted, and is in force")
			}
		})
	}
}

// A namespace whose templates could not be read in time has them by name: pods that name one are
// refused with the reason.
func TestTemplatesThatAreListedAndNotReadAreKnownByName(t *testing.T) {
	w := newTenants()
	w.add("shop", "own", small, 0)
	n := w.namespaced(t)
	store := New(Options{Logger: slog.New(slog.DiscardHandler)})
	store.Attach(n)
	n.namespaces["shop"] = &namespaceState{objects: map[string]*objectMetadata{"own": {metav1.ObjectMeta{Namespace: "shop", Name: "own", UID: "shopown", ResourceVersion: "1"}}}, limiter: rate.NewLimiter(1, 1)}
	n.listed()
	if n.Loaded() == nil {
		t.Error("a replica is ready before the templates of namespaces are read")
	}
	n.firstBy = time.Now()
	if err := n.Loaded(); err != nil {
		t.Errorf("a replica waits for ever: %v", err)
	}
	set := store.Snapshot().In("shop")
	if e, ok := set.Get("own"); !ok || e.Err == nil || e.Template != nil || !set.Unread() {
		t.Errorf("%+v, %v", e, ok)
	}
	n.look(t.Context(), "shop")
	set = store.Snapshot().In("shop")
	if e, ok := set.Get("own"); !ok || e.Err != nil || e.Template == nil || set.Unread() {
		t.Errorf("once read: %+v, %v", e, ok)
	}
}

func TestATemplateWithoutRoomIsBrokenForThePodsThatItMatches(t *testing.T) {
	const wants = `{"injectByDefault": true, "onError": "Skip", "match": {"podSelector": {"matchLabels": {"app": "web"}}}, `
	w := newTenants()
	w.add("a-huge", "own", wants+`"inject": {"metadata": {"annotations": {"a": "`+strings.Repeat("x", 70_000)+`"}}}}`, 0)
	w.add("b-many", "first", costly(70), time.Hour)
	w.add("b-many", "own", wants+costly(70)[1:], 0)
	w.add("c-late", "own", wants+costly(70)[1:], 0)
	set, reasons := w.run(t, 2<<20)
	for namespace, reason := range map[string]string{"a-huge": TooExpensive, "b-many": TooExpensive, "c-late": NoRoom} {
		e, _ := set.In(namespace).Get("own")
		if got := reasons[namespace+"/own"]; got != reason || e.Template != nil || e.Err == nil {
			t.Errorf("%s: %s, want %s: %+v", namespace, got, reason, e)
		}
		_, pod, ok := e.Match()
		if !ok || !pod.Matches(labels.Set{"app": "web"}) || pod.Matches(labels.Set{}) || !e.InjectByDefault() || e.Known() == nil || e.Known().Spec().OnError != v1alpha1.ErrorSkip {
			t.Errorf("%s: the error does not tell which pods want it: %v", namespace, e.Err)
		}
		if !set.MatchedIn(templates.Namespace{Name: namespace}) && !set.In(namespace).MatchedIn(templates.Namespace{Name: namespace}) {
			t.Errorf("%s: no template matches", namespace)
		}
	}
}

// What no pod gets says so in its status, and does not hold the room of others.
func TestTemplatesThatNoPodGetsAreNotInForce(t *testing.T) {
	w := newTenants()
	w.excluded = []string{"kube-system"}
	for i := range 22 {
		w.add("kube-system", fmt.Sprintf("t%02d", i), small, 0)
	}
	w.add("kube-system", "bad", `{"nome": "x"}`, 0)
	w.add("shop", "own", small, 0)
	for _, off := range []bool{false, true} {
		w.off = off
		set, reasons := w.run(t, 1<<30)
		if len(reasons) != 24 {
			t.Errorf("switched off %t: verdicts on %d objects", off, len(reasons))
		}
		for name, got := range reasons {
			want := NamespaceExcluded
			switch {
			case off:
				want = SwitchedOff
			case name == "shop/own":
				want = Compiled
			}
			if got != want {
				t.Errorf("switched off %t: %s is %s, want %s", off, name, got, want)
			}
		}
		if excluded, shop := set.In("kube-system").Entries(), set.In("shop").Entries(); len(excluded) > 0 || (len(shop) == 1) == off {
			t.Errorf("switched off %t: in force are %v and %v", off, excluded, shop)
		}
	}
}

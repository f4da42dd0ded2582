package namespaces

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates"
)

func TestASmallNamespaceIsKeptAsTheAPIServerSentIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.String(), rapid.Map(rapid.IntRange(0, 5_000), func(n int) string { return strings.Repeat("x", n) })))
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: rapid.StringN(1, 63, -1).Draw(t, "name"), UID: "u", ResourceVersion: "7",
			Labels: texts.Draw(t, "labels"), Annotations: texts.Draw(t, "annotations"),
		}}
		if rapid.Bool().Draw(t, "being deleted") {
			object.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		k := &keeping{prefix: templates.DefaultPrefix, reads: func() *templates.NamespaceReads { return noReads }, left: math.MaxInt64, sizes: map[string]int64{}}
		c := k.keep(object)
		got := c.namespace()
		if small := sizeOf(object.Labels)+sizeOf(object.Annotations) <= mostKept; small != (c.part == nil) {
			t.Fatalf("a namespace is kept whole: %v, want %v", c.part == nil, small)
		} else if !small {
			return
		}
		if got.Name != object.Name || !maps.Equal(got.Labels, object.Labels) || !maps.Equal(got.Annotations, object.Annotations) {
			t.Fatalf("%+v of %+v", got, object)
		}
		key, err := cache.MetaNamespaceKeyFunc(c)
		meta := c.GetObjectMeta()
		if err != nil || key != object.Name || meta.GetUID() != object.UID || meta.GetResourceVersion() != "7" || c.deleting != (object.DeletionTimestamp != nil) {
			t.Fatalf("%+v of %+v", c, object)
		}
	})
}

func TestWhatKubectlKeepsOfANamespaceIsNoAnnotationForTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := namespace("shop", "a")
		object.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
		i := newInformer(newClient(t, object))
		live, err := i.Get(t.Context(), "shop", noReads, always)
		if err != nil {
			t.Fatal(err)
		}
		go i.Run(t.Context())
		waitFor(t, "ready", func() bool { return i.Ready() == nil })
		inCache, err := i.Get(t.Context(), "shop", noReads, always)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"pillion.dev/inject": "a"}
		if !maps.Equal(live.Annotations, want) || !maps.Equal(inCache.Annotations, want) {
			t.Errorf("live %v, in the cache %v, want %v", live.Annotations, inCache.Annotations, want)
		}
	})
}

// filled returns an informer with as many namespaces in its cache.
func filled(t *testing.T, n int) *Informer {
	t.Helper()
	var objects []runtime.Object
	for i := range n {
		ns := namespace(fmt.Sprintf("team-%04d", i), "a")
		switch i % 3 {
		case 0:
			ns.Annotations = nil
		case 1:
			ns.Labels = map[string]string{"team": ns.Name}
		}
		objects = append(objects, ns)
	}
	i := newInformer(newClient(t, objects...))
	go i.Run(t.Context())
	waitFor(t, "loaded", func() bool { return i.Loaded() == nil })
	return i
}

func TestAllGoesOverTheNamespacesAsTheyAreInTheCache(t *testing.T) {
	i := filled(t, 30)
	seen := 0
	for ns := range i.All() {
		seen++
		if want, ok := i.Cached(ns.Name); !ok || !maps.Equal(ns.Labels, want.Labels) || !maps.Equal(ns.Annotations, want.Annotations) {
			t.Errorf("%+v, in the cache %+v", ns, want)
		}
	}
	for range i.All() {
		break // a loop may end early
	}
	if seen != 30 {
		t.Errorf("%d of 30 namespaces", seen)
	}
}

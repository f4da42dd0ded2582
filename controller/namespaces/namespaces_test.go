package namespaces

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/templates"
)

func namespace(name, inject string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pillion.dev/inject": inject}},
	}
}

// noReads is for templates that read nothing of namespaces.
var noReads = templates.NewSet(nil).NamespaceReads()

// newInformer returns an informer for no templates, with the memory of the chart.
func newInformer(client metadata.Interface) *Informer {
	return New(informerOptions(client, func() *templates.NamespaceReads { return noReads }))
}

func informerOptions(client metadata.Interface, reads func() *templates.NamespaceReads) Options {
	return Options{
		Client: client, Reads: reads, Bytes: 32 << 20, Logger: slog.New(slog.DiscardHandler),
		List: func(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
			list, err := client.Resource(resource).List(ctx, o)
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(list)
			return io.NopCloser(bytes.NewReader(text)), err
		},
	}
}

// always agrees with any metadata.
func always(templates.Namespace) bool { return true }

func newClient(t *testing.T, objects ...runtime.Object) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewSimpleMetadataClient(scheme, objects...)
}

func waitFor(t *testing.T, event string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10s: %s", event)
		}
	}
}

func TestAChangedNamespaceReachesTheCacheAndAnUnseenNamespaceIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, namespace("shop", "a"))
		i := newInformer(client)
		// The empty cache holds no namespace, so Get reads live.
		ns, err := i.Get(t.Context(), "shop", noReads, always)
		if err != nil || ns.Name != "shop" || ns.Annotations["pillion.dev/inject"] != "a" {
			t.Fatalf("%+v, %v", ns, err)
		}
		if err := i.Ready(); err == nil {
			t.Error("ready before the namespaces have been listed")
		}
		if _, err := i.Get(t.Context(), "none", noReads, always); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "none") {
			t.Errorf("a namespace that does not exist: %v", err)
		}
		go i.Run(t.Context())
		waitFor(t, "ready", func() bool { return i.Ready() == nil })
		synctest.Wait() // until a fake watch stands: it tells nothing of before
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), namespace("shop", "b"), ""); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the change", func() bool {
			ns, err := i.Get(context.Background(), "shop", noReads, always)
			return err == nil && ns.Annotations["pillion.dev/inject"] == "b"
		})
	})
}

func TestAMissingPermissionIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t)
		client.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", nil)
		})
		i := newInformer(client)
		go i.Run(t.Context())
		waitFor(t, "the permission named", func() bool {
			err := i.Ready()
			return err != nil && strings.Contains(err.Error(), "not permitted") && strings.Contains(err.Error(), "ClusterRole")
		})
	})
}

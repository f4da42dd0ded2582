package effects

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/pillion-dev/pillion/injector/reason"
)

func owned(controller bool) map[string]any {
	return map[string]any{"metadata": map[string]any{"ownerReferences": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1"},
		map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": controller},
	}}}
}

func TestTheEventIsOnTheControllerOrElseOnTheNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		pod  map[string]any
		want string
	}{
		"a pod of a controller":               {owned(true), "ReplicaSet/web in shop"},
		"an owner that is not the controller": {owned(false), "Namespace/shop in shop"},
		"a pod without an owner":              {map[string]any{}, "Namespace/shop in shop"},
		"owners that are not objects":         {map[string]any{"metadata": map[string]any{"ownerReferences": []any{"x"}}}, "Namespace/shop in shop"},
	} {
		ref := involved(Event{Namespace: "shop", Pod: c.pod})
		if got := ref.Kind + "/" + ref.Name + " in " + ref.Namespace; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The outcome of a dry run comes before another outcome. When the second event has arrived,
// an event of the first would have arrived too.
func TestADryRunWritesNoEvent(t *testing.T) {
	client := fake.NewClientset()
	events := NewEvents(client.CoreV1())
	defer events.Close()
	events.Record(Event{DryRun: true, Namespace: "shop", Code: reason.Conflict, Message: "dry"})
	events.Record(Event{Namespace: "shop", Code: reason.Conflict, Message: "real"})
	deadline := time.Now().Add(10 * time.Second)
	for {
		list, err := client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 1 && list.Items[0].Message == "real" && list.Items[0].Type == corev1.EventTypeWarning && list.Items[0].Namespace == "shop" {
			return
		}
		if len(list.Items) > 1 || time.Now().After(deadline) {
			t.Fatalf("events %+v, want only the event of the second outcome", list.Items)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

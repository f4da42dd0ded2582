package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// Whoever reaches the port can post any review. An event comes of it at most about an object
// that exists, and a flood of reviews is a few events.
func TestForgedReviewsBringNoEventAboutWhatTheAPIServerDoesNotConfirm(t *testing.T) {
	t.Parallel()
	target, other := newNamespace(t, nil, nil), newNamespace(t, nil, nil)
	labels := map[string]string{"app": "web"}
	set, err := client.AppsV1().ReplicaSets(target.name).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := newReviewer(t, shared.Replicas(ground.Namespace)[0])
	forge := func(namespace, inject, kind, name, uid string) {
		t.Helper()
		meta := fmt.Sprintf(`"metadata":{"annotations":{"pillion.dev/inject":%q},"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":%q,"controller":true}],`, inject, kind, name, uid)
		review := strings.Replace(strings.Replace(goodReview, `"metadata":{`, meta, 1), `"namespace":"default"`, fmt.Sprintf(`"namespace":%q`, namespace), 1)
		response, err := r.client.Post(r.url, "application/json", strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode == http.StatusBadRequest {
			t.Fatalf("the forged review is answered with %s", response.Status)
		}
	}
	forge(other.name, "a,,another-namespace", "ReplicaSet", "web", string(set.UID))
	forge(target.name, "a,,no-such-name", "ReplicaSet", "none", string(set.UID))
	forge(target.name, "a,,no-such-uid", "ReplicaSet", "web", "0")
	forge(target.name, "a,,no-controller", "Secret", "web", "0")
	forge("there-is-none", "a,,no-namespace", "ReplicaSet", "web", string(set.UID))
	for i := range 100 {
		forge(other.name, fmt.Sprintf("a,,flood-%d", i), "ReplicaSet", "web", "0")
	}
	forge(target.name, "a,,confirmed", "ReplicaSet", "web", string(set.UID))

	var all []eventsv1.Event
	eventually(t, soon, func() error {
		all = nil
		for _, n := range []*namespace{target, other} {
			list, err := client.EventsV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.ReportingController == "pillion" {
					all = append(all, e)
				}
			}
		}
		for _, e := range all {
			if e.Regarding.Kind == "ReplicaSet" && strings.Contains(e.Note, "confirmed") {
				return nil // the last one: those before it are written, or never will be
			}
		}
		return fmt.Errorf("no event about the ReplicaSet that exists:\n%s", pretty(all))
	})
	flood := 0
	for _, e := range all {
		if strings.Contains(e.Note, "flood") {
			flood++
		}
		if e.Regarding.Kind != "Namespace" && !strings.Contains(e.Note, "confirmed") || e.Regarding.UID == "" {
			t.Errorf("an event about\n%s\nnobody has confirmed it: %s", pretty(e.Regarding), e.Note)
		}
	}
	if flood == 0 || flood > 12 {
		t.Errorf("100 forged reviews are %d events, want some and few", flood)
	}
	for _, note := range []string{"no-such-name", "no-such-uid", "no-controller", "another-namespace"} {
		found := false
		for _, e := range all {
			found = found || strings.Contains(e.Note, note)
		}
		if !found {
			t.Errorf("nothing on the namespace about %s", note)
		}
	}
}

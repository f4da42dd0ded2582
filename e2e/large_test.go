package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// labelsOfOne makes a namespace about as large as etcd takes it.
const labelsOfOne = 3600

// largeLabel is the key of a label of large namespaces. With its value it has 360 characters.
func largeLabel(n int) string {
	return strings.Repeat(strings.Repeat("d", 60)+".", 3) + strings.Repeat("d", 60) + fmt.Sprintf("/n%054d", n)
}

// newLargeNamespaces makes n large namespaces that ask for a template.
func newLargeNamespaces(t *testing.T, n int, template string) (names []string) {
	t.Helper()
	labels := map[string]string{}
	for i := range labelsOfOne {
		labels[largeLabel(i)] = strings.Repeat("v", 61)
	}
	prefix := unique("large")
	for i := range n {
		names = append(names, fmt.Sprint(prefix, "-", i))
	}
	t.Cleanup(func() {
		many(8, func(worker int) {
			for i := worker; i < n; i += 8 {
				wantNoError(t, client.CoreV1().Namespaces().Delete(context.Background(), names[i], metav1.DeleteOptions{}), "removing namespace", names[i])
			}
		})
	})
	many(8, func(worker int) {
		for i := worker; i < n; i += 8 {
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: names[i], Annotations: asking(template), Labels: labels,
				ManagedFields: []metav1.ManagedFieldsEntry{{}}, // they would take as much again
			}}
			wantNoError(t, errorOf(client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})), "making namespace", names[i])
		}
	})
	return names
}

// Namespaces are listed at the start, followed afterwards, and read anew for templates that read
// other labels of them. None of it may take what the namespaces have.
func TestLargeNamespacesTakeTheProcessNotPastItsMemory(t *testing.T) {
	count, settling := 6, time.Second
	if os.Getenv("ATTACK") != "" {
		count, settling = 157, 5*time.Second // these once took the process past its limit, made while it ran and met at a start
	}
	backToOne(t)
	met := func(when string, pid int, began time.Time) {
		t.Helper()
		peak := peakMiB(t, pid)
		t.Attr("attack", fmt.Sprintf("%d namespaces of %d labels, %s: peak %d MiB, %.1f s", count, labelsOfOne, when, peak, time.Since(began).Seconds()))
		if peak > mostMiB {
			t.Errorf("%s: the process took %d MiB; allowed are %d", when, peak, mostMiB)
		}
	}
	replica := shared.Replicas(ground.Namespace)[0]
	resetPeak(t, replica.PID)
	began := time.Now()
	names := newLargeNamespaces(t, count, "fluent-bit")
	last := &namespace{name: names[count-1], client: client}
	// The controller manager takes long for so many large namespaces.
	eventually(t, 5*soon, func() error {
		return errorOf(client.CoreV1().ServiceAccounts(last.name).Get(t.Context(), "default", metav1.GetOptions{}))
	})
	injects(t, last, "fluent-bit")
	time.Sleep(settling) // the garbage of it all
	met("made while it runs", replica.PID, began)

	began = time.Now()
	for _, n := range []int{0, 1} {
		expectNoError(t, shared.Scale(t.Context(), ground.Namespace, n))
	}
	replica = shared.Replicas(ground.Namespace)[0]
	injects(t, last, "fluent-bit")
	time.Sleep(settling)
	met("met at a start", replica.PID, began)

	// A small namespace shows that the template is in force. From then on no pod of a large one
	// goes without it, though its label has been kept by nobody so far.
	resetPeak(t, replica.PID)
	began = time.Now()
	small := newNamespace(t, nil, map[string]string{largeLabel(7): ""})
	m := manifest{name: unique("required"), spec: fmt.Sprintf(`
required: true
match: {namespaceSelector: {matchExpressions: [{key: %q, operator: Exists}]}}
inject: {spec: {initContainers: [{name: NAME, image: 'registry.example.com/NAME:1', restartPolicy: Always}]}}`, largeLabel(7))}
	m.apply(t)
	injects(t, small, m.name)
	asked := 0
	for _, name := range names[:min(count, 20)] {
		n := &namespace{name: name, client: client}
		if n.labels(t)[injectionLabel] == "" {
			continue // the API server did not wait for Pillion when it was made, and calls nobody for its pods
		}
		asked++
		pod, err := n.preview(t, newPod("probe", nil))
		if err != nil || sidecar(pod, m.name) == nil || sidecar(pod, "fluent-bit") == nil {
			t.Errorf("%s: %v, containers %s, want %s and fluent-bit", name, err, containerNames(pod), m.name)
		}
	}
	if asked < min(count, 20)/2 {
		t.Errorf("only %d of %d namespaces have their pods sent to Pillion", asked, min(count, 20))
	}
	time.Sleep(settling)
	met("read anew for a template", replica.PID, began)
}

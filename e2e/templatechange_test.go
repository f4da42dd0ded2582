package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/rotation"
)

// Not in parallel: it starts more replicas, and measures.
func TestAChangeOfATemplateIsInForceOnEveryReplicaWithinASecond(t *testing.T) {
	backToOne(t)
	scale(t, 3)
	replicas := shared.Replicas(ground.Namespace)
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects := c.Resource(schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"})
	before := map[string]string{}
	for _, r := range replicas {
		eventually(t, soon, func() error {
			if before[r.Name] = servedHash(t, r, m.name); before[r.Name] == "" {
				return fmt.Errorf("%s does not serve %s yet", r.Name, m.name)
			}
			return nil
		})
	}
	const changes = 50 // `make faults` does a hundred of each kind, under load
	var took []time.Duration
	for i := range changes {
		change := fmt.Sprintf(`{"spec":{"inject":{"metadata":{"labels":{"change":"c%d"}}}}}`, i)
		if _, err := objects.Patch(t.Context(), m.name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, r := range replicas {
			for {
				hash := servedHash(t, r, m.name)
				if hash != "" && hash != before[r.Name] {
					before[r.Name] = hash
					break
				}
				if time.Since(began) > soon {
					t.Fatalf("change %d is not in force on %s after %s", i, r.Name, soon)
				}
				time.Sleep(time.Millisecond)
			}
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	p50, p99 := rotation.Percentile(took, 50), rotation.Percentile(took, 99)
	t.Logf("from a change of a template to its effect on all of %d replicas, over %d changes: p50 %s, p99 %s, longest %s", len(replicas), changes, p50.Round(time.Millisecond), p99.Round(time.Millisecond), took[changes-1].Round(time.Millisecond))
	t.Attr("template-change-to-effect-p50", p50.Round(time.Millisecond).String())
	t.Attr("template-change-to-effect-p99", p99.Round(time.Millisecond).String())
	if p99 > time.Second {
		t.Errorf("p99 is %s, want at most a second", p99)
	}
}

var infoLine = regexp.MustCompile(`pillion_template_info\{good="true",hash="([0-9a-f]+)",template="([^"]+)"\} 1`)

// servedHash is the hash of the template that a replica applies, by its metrics.
func servedHash(t *testing.T, r ground.Replica, name string) string {
	t.Helper()
	response, err := http.Get("http://" + r.Admin.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range infoLine.FindAllStringSubmatch(string(metrics), -1) {
		if found[2] == name {
			return found[1]
		}
	}
	return ""
}

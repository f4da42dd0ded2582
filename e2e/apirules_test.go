package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
)

// The product's rules of the API are held against a table in its tests. This test holds the
// table against a real API server.
func TestTheAPIServerRefusesThePodsThatTheRulesSay(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(checkout.Path("offline", "apirules", "testdata", "pods.yaml"))
	expectNoError(t, err)
	var cases []struct {
		Why               string
		Refused           bool
		Metadata, Spec, C map[string]any
	}
	expectNoError(t, yaml.Unmarshal(data, &cases))
	n := newNamespace(t, nil, nil)
	for _, c := range cases {
		spec := map[string]any{"containers": []any{map[string]any{"name": "app", "image": "a:1"}}}
		maps.Copy(spec, c.Spec)
		maps.Copy(spec["containers"].([]any)[0].(map[string]any), c.C)
		metadata := map[string]any{"name": "p"}
		maps.Copy(metadata, c.Metadata)
		raw, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
		expectNoError(t, err)
		var pod corev1.Pod
		if err := json.Unmarshal(raw, &pod); err != nil {
			t.Fatalf("%s: %v", c.Why, err)
		}
		_, err = n.preview(t, &pod)
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) { // forbidden: there is no service account of that name
			t.Errorf("%s: %v", c.Why, err)
		} else if (err != nil) != c.Refused {
			t.Errorf("%s: refused is %t, and the API server says: %v", c.Why, c.Refused, err)
		}
	}
}

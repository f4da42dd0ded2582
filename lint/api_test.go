package lint

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/samples"
)

// brokenPod is a pod that breaks one line of the table.
type brokenPod struct {
	Field                     string
	Metadata, Spec, Container map[string]any
}

// A line that no pod breaks would never be held to a real API server.
func TestEachLineOfTheTableFindsItsMistakeAndNothingElse(t *testing.T) {
	data, err := os.ReadFile("testdata/pods.yaml")
	errtest.ExpectNone(t, err)
	var cases []brokenPod
	errtest.ExpectNone(t, yaml.Unmarshal(data, &cases))
	untried := map[string]bool{"spec.any.volumeMounts.name": true}
	for rule := range values {
		untried[rule] = true
	}
	for _, rule := range unique {
		untried[rule] = true
	}
	for _, path := range keyed {
		untried[strings.Join(path, ".")] = true
	}
	for _, c := range cases {
		container := map[string]any{"name": "app", "image": "a:1"}
		maps.Copy(container, c.Container)
		spec := map[string]any{"containers": []any{container}}
		maps.Copy(spec, c.Spec)
		text, err := json.Marshal(map[string]any{"metadata": c.Metadata, "spec": spec})
		errtest.ExpectNone(t, err)
		pod, err := podschema.DecodeObject(text)
		errtest.ExpectNone(t, err)
		found := mistakesOf(pod)
		if len(found) != 1 || found[0].field != c.Field {
			t.Errorf("%s: %+v", c.Field, found)
			continue
		}
		delete(untried, found[0].rule)
	}
	for rule := range untried {
		t.Errorf("no pod breaks %s", rule)
	}
	for _, s := range samples.Bundled() {
		if found := mistakesOf(s.Pod); len(found) > 0 {
			t.Errorf("the sample %s: %+v", s.Name, found)
		}
	}
}

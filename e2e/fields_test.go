package e2e

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"sigs.k8s.io/yaml"
)

// A newField is one that younger versions of Kubernetes serve. Each text is YAML of that
// place of the pod's author, "" for none; says is in the pod that the API server stores.
//
// A line for a version that the libraries of this build do not know yet is all that a test
// of it takes: nothing here reads the field.
type newField struct {
	Since                             int // the minor version that serves it without a feature gate being set
	Says                              string
	Spec, Container, Variable, Volume string
}

// author is the pod that somebody writes with the field, as JSON. It has no token, whose
// volume's name is another one for each pod.
func (f newField) author(t *testing.T, name string) []byte {
	t.Helper()
	container := map[string]any{"name": "app", "image": "nginx:1.29"}
	spec := map[string]any{"automountServiceAccountToken": false}
	for text, into := range map[string]map[string]any{f.Container: container, f.Spec: spec} {
		expectNoError(t, yaml.Unmarshal([]byte(text), &into))
	}
	if f.Variable != "" {
		var variable any
		expectNoError(t, yaml.Unmarshal([]byte(f.Variable), &variable))
		container["env"] = []any{variable}
	}
	if f.Volume != "" {
		volume := map[string]any{"name": "data"}
		expectNoError(t, yaml.Unmarshal([]byte(f.Volume), &volume))
		spec["volumes"], container["volumeMounts"] = []any{volume}, []any{map[string]any{"name": "data", "mountPath": "/mnt/data"}}
	}
	spec["containers"] = []any{container}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": spec})
	expectNoError(t, err)
	return text
}

// minor is the minor version of the API server.
func minor(t *testing.T) int {
	t.Helper()
	version, err := client.Discovery().ServerVersion()
	expectNoError(t, err)
	n, err := strconv.Atoi(version.Minor)
	expectNoError(t, err)
	return n
}

// specWithout is each field of a pod's spec as the API server writes it, without the items
// of lists that have the name.
func specWithout(t *testing.T, pod []byte, name string) (fields map[string]string, taken int) {
	t.Helper()
	var object struct{ Spec map[string]json.RawMessage }
	expectNoError(t, json.Unmarshal(pod, &object))
	fields = map[string]string{}
	for key, value := range object.Spec {
		var items []json.RawMessage
		if json.Unmarshal(value, &items) != nil {
			fields[key] = string(value)
			continue
		}
		for _, item := range items {
			var named struct{ Name string }
			if json.Unmarshal(item, &named) == nil && named.Name == name {
				taken++
				continue
			}
			fields[key] += string(item) + "\n"
		}
	}
	return fields, taken
}

func TestFieldsOfEachVersionPassThroughUntouched(t *testing.T) {
	t.Parallel()
	name := served(t, plainSpec).name
	n, bare, version := newNamespace(t, asking(name), nil), newNamespace(t, nil, nil), minor(t)
	var newFields map[string]newField
	fromYAML(t, "testdata/fields.yaml", &newFields)
	for what, field := range newFields {
		t.Run(what, func(t *testing.T) {
			if field.Since > version {
				t.Skipf("Kubernetes 1.%d does not serve it by itself, 1.%d does", version, field.Since)
			}
			store := func(namespace string) []byte {
				stored, err := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Param("dryRun", "All").Body(field.author(t, "web")).SetHeader("Content-Type", "application/json").Do(t.Context()).Raw()
				expectNoError(t, err)
				return stored
			}
			with, without := store(n.name), store(bare.name)
			if !bytes.Contains(without, []byte(field.Says)) {
				t.Fatalf("the API server itself does not store %s:\n%s", field.Says, without)
			}
			got, taken := specWithout(t, with, name)
			want, _ := specWithout(t, without, name)
			if taken != 2 {
				t.Fatalf("%d items of the template are in the pod, want 2:\n%s", taken, with)
			}
			for key := range want {
				if got[key] != want[key] {
					t.Errorf("spec.%s is\n%s\nwant\n%s", key, got[key], want[key])
				}
				delete(got, key)
			}
			for key, value := range got {
				if value != "" {
					t.Errorf("spec.%s is %s, and the author's pod has none", key, value)
				}
			}
		})
	}
}

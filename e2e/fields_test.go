package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// A newField is one that younger versions of Kubernetes serve. Each text is YAML of that
// place of the pod's author, "" for none; says is in the pod that the API server stores.
//
// A line for a version that the libraries of this build do not know yet is all that a test
// of it takes: nothing here reads the field.
type newField struct {
	since                             int // the minor version that serves it without a feature gate being set
	says                              string
	spec, container, variable, volume string
}

var newFields = map[string]newField{
	"resources of the pod": {since: 34, says: `"resources":{"limits":{"cpu":"1","memory":"512Mi"},"requests":{"cpu":"500m","memory":"256Mi"}}`,
		spec: `resources: {requests: {cpu: 500m, memory: 256Mi}, limits: {cpu: "1", memory: 512Mi}}`},
	"a variable from a file": {since: 35, says: `"fileKeyRef":{"volumeName":"data","path":"a.env","key":"A","optional":false}`,
		variable: `{name: FROM_FILE, valueFrom: {fileKeyRef: {volumeName: data, path: a.env, key: A}}}`, volume: `emptyDir: {}`},
	"an image volume": {since: 35, says: `"image":{"reference":"registry.example.com/model:1","pullPolicy":"IfNotPresent"}`,
		volume: `image: {reference: "registry.example.com/model:1"}`},
	"rules of restarts": {since: 35, says: `"restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}]`,
		container: `{restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}`},
	"a restart of all containers": {since: 36, says: `"action":"RestartAllContainers"`,
		container: `{restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: NotIn, values: [0]}}]}`},
	"a host name of its own": {since: 35, says: `"hostnameOverride":"web.example.com"`, spec: `hostnameOverride: web.example.com`},
	"a ClusterTrustBundle": {since: 37, says: `"clusterTrustBundle":{"name":"example.com:roots:a","path":"roots.pem"}`,
		volume: `projected: {sources: [{clusterTrustBundle: {name: "example.com:roots:a", path: roots.pem}}]}`},
	"a pod's certificate": {since: 37, says: `"podCertificate":{"signerName":"example.com/pods","keyType":"ED25519"`,
		volume: `projected: {sources: [{podCertificate: {signerName: example.com/pods, keyType: ED25519, credentialBundlePath: bundle.pem}}]}`},
}

// author is the pod that somebody writes with the field, as JSON. It has no token, whose
// volume's name is another one for each pod.
func (f newField) author(t *testing.T, name string) []byte {
	t.Helper()
	container := map[string]any{"name": "app", "image": "nginx:1.29"}
	spec := map[string]any{"automountServiceAccountToken": false}
	for text, into := range map[string]map[string]any{f.container: container, f.spec: spec} {
		expectNoError(t, yaml.Unmarshal([]byte(text), &into))
	}
	if f.variable != "" {
		var variable any
		expectNoError(t, yaml.Unmarshal([]byte(f.variable), &variable))
		container["env"] = []any{variable}
	}
	if f.volume != "" {
		volume := map[string]any{"name": "data"}
		expectNoError(t, yaml.Unmarshal([]byte(f.volume), &volume))
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

// plainSpec adds a sidecar and its volume, and nothing to anything of the author's.
const plainSpec = `
inject:
  spec:
    initContainers:
    - {name: NAME, $position: First, restartPolicy: Always, image: "NAME:1", volumeMounts: [{name: NAME, mountPath: /x}]}
    volumes: [{name: NAME, emptyDir: {}}]
`

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
	for what, field := range newFields {
		t.Run(what, func(t *testing.T) {
			if field.since > version {
				t.Skipf("Kubernetes 1.%d does not serve it by itself, 1.%d does", version, field.since)
			}
			store := func(namespace string) []byte {
				stored, err := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Param("dryRun", "All").Body(field.author(t, "web")).SetHeader("Content-Type", "application/json").Do(t.Context()).Raw()
				expectNoError(t, err)
				return stored
			}
			with, without := store(n.name), store(bare.name)
			if !bytes.Contains(without, []byte(field.says)) {
				t.Fatalf("the API server itself does not store %s:\n%s", field.says, without)
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

// newFieldsSpec has the fields in a template. What a version does not serve is below the
// line that names it.
const newFieldsSpec = `
parameters:
- {name: model, type: image, default: "registry.example.com/model:1"}
inject:
  spec:
    initContainers:
    - name: NAME
      $position: First
      restartPolicy: Always
      restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
      image: NAME:1
      env:
      - {name: FROM_FILE, valueFrom: {fileKeyRef: {volumeName: NAME, path: a.env, key: A, optional: true}}}
      volumeMounts: [{name: NAME, mountPath: /x}, {name: NAME-model, mountPath: /model}, {name: NAME-identity, mountPath: /identity}]
    containers:
    - {name: NAME-once, image: "NAME:1", restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]}
    volumes:
    - {name: NAME, emptyDir: {}}
    - {name: NAME-model, image: {reference: "${params.model}", pullPolicy: IfNotPresent}}
    - name: NAME-identity
      projected:
        sources:
        - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
`

const since37 = `        - clusterTrustBundle: {signerName: example.com/NAME, labelSelector: {matchLabels: {a: b}}, path: roots.pem}
        - podCertificate: {signerName: example.com/NAME, keyType: ED25519, maxExpirationSeconds: 3600, credentialBundlePath: bundle.pem}
`

func TestATemplateHasTheFieldsOfEachVersion(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: newFieldsSpec}
	if minor(t) >= 37 {
		m.spec += since37
	}
	if out, _, err := run(t, "", "pillion", "lint", inFile(t, "template.yaml", m.yaml())); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	m.apply(t)
	m.waitServed(t)
	// By a required template's strict comparison nothing of it is lost either.
	required, strict := newRequiredBy(t, m.spec, enforced())
	for name, n := range map[string]*namespace{m.name: newNamespace(t, asking(m.name), nil), required.name: strict} {
		pod := n.mustCreate(t, newPod("web", nil))
		s, once := sidecar(pod, name), sidecar(pod, name+"-once")
		if len(s.RestartPolicyRules) != 1 || s.RestartPolicyRules[0].Action != corev1.ContainerRestartRuleActionRestartAllContainers || s.Env[0].ValueFrom.FileKeyRef == nil || len(once.RestartPolicyRules) != 1 {
			t.Errorf("the containers are %s\n%s", pretty(s), pretty(once))
		}
		volumes := map[string]corev1.Volume{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = v
		}
		if image := volumes[name+"-model"].Image; image == nil || image.Reference != "registry.example.com/model:1" {
			t.Errorf("the image volume is %s", pretty(volumes[name+"-model"]))
		}
		sources := volumes[name+"-identity"].Projected.Sources
		if minor(t) >= 37 && (len(sources) != 3 || sources[1].ClusterTrustBundle == nil || sources[2].PodCertificate == nil) {
			t.Errorf("the projected volume is %s", pretty(sources))
		}
	}
}

// A mode of an emptyDir is a field of 1.37, and behind a feature gate there.
func TestARequiredTemplateMissesAFieldThatTheAPIServerDoesNotServe(t *testing.T) {
	t.Parallel()
	gated := strings.Replace(plainSpec, "emptyDir: {}", "emptyDir: {mode: 448}", 1)
	name := served(t, gated).name
	pod := newNamespace(t, asking(name), nil).mustCreate(t, newPod("web", nil))
	for _, v := range pod.Spec.Volumes {
		if v.Name == name && (v.EmptyDir == nil || v.EmptyDir.Mode != nil) {
			t.Errorf("the volume is %s", pretty(v))
		}
	}
	team := unique("team")
	m := requiredFor(team, gated)
	m.apply(t)
	waitRequired(t, map[string]string{"team": team})
	n := newNamespace(t, nil, map[string]string{"team": team, injectionLabel: "enforced"})
	eventually(t, soon, func() error {
		if _, err := n.preview(t, newPod("web", nil)); err == nil || !strings.Contains(err.Error(), "template "+m.name+": spec.volumes[name="+m.name+"]") || !strings.Contains(err.Error(), "(RequiredMissing") {
			return fmt.Errorf("a pod of the required template: %v", err)
		}
		return nil
	})
}

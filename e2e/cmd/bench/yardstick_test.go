package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/measure"
)

var (
	token = corev1.VolumeMount{Name: "kube-api-access-abcde", MountPath: measure.TokenPath, ReadOnly: true}

	// small is an addition with what the template has: lists that are replaced as a whole,
	// maps, numbers, texts with quotes.
	small = addition{
		Sidecar: corev1.Container{
			Name: template, Args: []string{`--say="a\b"`},
			Ports:        []corev1.ContainerPort{{ContainerPort: 2020}},
			VolumeMounts: []corev1.VolumeMount{{Name: "state", MountPath: "/state"}},
		},
		Volumes: []corev1.Volume{{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Mounts:  []corev1.VolumeMount{{Name: "state", MountPath: "/logs"}},
		Record:  `{"v":1}`,
	}
)

// isToken reports whether a mount is the one of the service account's token.
func isToken(mount corev1.VolumeMount) bool { return equality.Semantic.DeepEqual(mount, token) }

// admitted is a pod as the API server sends it.
func admitted() *corev1.Pod {
	pod := measure.ReplicaSetPod()
	pod.Spec.Volumes = []corev1.Volume{{Name: token.Name}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{token}
	return pod
}

// answered is the pod as the yardstick's webhook makes it, and whether it made anything.
func answered(t *testing.T, path string, pod *corev1.Pod) (*corev1.Pod, bool) {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	review, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "u", Object: runtime.RawExtension{Raw: raw}}})
	if err != nil {
		t.Fatal(err)
	}
	y := yardstick{addition: small}
	w := httptest.NewRecorder()
	y.handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(review)))
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response == nil || answer.Response.UID != "u" || !answer.Response.Allowed {
		t.Fatalf("%s: the answer is %d %s (%v)", path, w.Code, w.Body, err)
	}
	if answer.Response.Patch == nil {
		return pod, false
	}
	patch, err := jsonpatch.DecodePatch(answer.Response.Patch)
	if err == nil {
		raw, err = patch.Apply(raw)
	}
	out := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, true
}

func TestTheFixedWebhooksAddTheSidecarOnce(t *testing.T) {
	for path, withToken := range map[string]bool{fixedPath: false, withMountPath: true, recordPath: true} {
		pod, changed := answered(t, path, admitted())
		if !changed {
			t.Errorf("%s does nothing", path)
			continue
		}
		got, err := additionOf(pod)
		got.Record = small.Record
		if err != nil || !equality.Semantic.DeepEqual(got, small) {
			t.Errorf("%s adds %+v (%v), want %+v", path, got, err, small)
		}
		if has := slices.ContainsFunc(pod.Spec.InitContainers[0].VolumeMounts, isToken); has != withToken {
			t.Errorf("%s: the sidecar has the token: %t, want %t", path, has, withToken)
		}
		if has := pod.Annotations[statusKey] == small.Record; has != (path == recordPath) {
			t.Errorf("%s: the pod has the record: %t", path, has)
		}
		if _, changed := answered(t, path, pod); changed {
			t.Errorf("%s changes the pod a second time", path)
		}
	}
	if _, changed := answered(t, noOpPath, admitted()); changed {
		t.Error("the no-op webhook changes the pod")
	}
	if len(small.Sidecar.VolumeMounts) != 1 {
		t.Error("the fixed patch has changed")
	}
}

func TestAYardstickAnswersNothingThatIsNoReview(t *testing.T) {
	for _, body := range []string{"", "{}", "[]", `{"request":{"object":[]}}`} {
		w := httptest.NewRecorder()
		(&yardstick{}).handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, fixedPath, bytes.NewBufferString(body)))
		if w.Code < 400 {
			t.Errorf("%q is answered with %d %s", body, w.Code, w.Body)
		}
	}
}

func TestAPolicyNamesTheTypesOfObjects(t *testing.T) {
	manifest, err := small.policy("p", "n")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Spec struct {
			Mutations []struct {
				JSONPatch struct{ Expression string } `json:"jsonPatch"`
			}
		}
	}
	if err := yaml.Unmarshal([]byte(manifest[:bytes.Index([]byte(manifest), []byte("\n---\n"))]), &policy); err != nil {
		t.Fatal(err)
	}
	const want = `[JSONPatch{op: "add", path: "/spec/initContainers", value: []}, ` +
		`JSONPatch{op: "add", path: "/spec/initContainers/-", value: Object.spec.initContainers{args: ["--say=\"a\\b\""], name: "fluent-bit", ` +
		`ports: [Object.spec.initContainers.ports{containerPort: 2020}], resources: Object.spec.initContainers.resources{}, ` +
		`volumeMounts: [Object.spec.initContainers.volumeMounts{mountPath: "/state", name: "state"}]}}, ` +
		`JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{emptyDir: Object.spec.volumes.emptyDir{}, name: "state"}}, ` +
		`JSONPatch{op: "add", path: "/spec/containers/0/volumeMounts/-", value: Object.spec.containers.volumeMounts{mountPath: "/logs", name: "state"}}]`
	if got := policy.Spec.Mutations[0].JSONPatch.Expression; got != want {
		t.Errorf("the expression is\n%s\nwant\n%s", got, want)
	}
	if got, want := celObject(map[string]any{"limits": map[string]any{"memory": "64Mi"}}, "T"), `T{limits: {"memory": "64Mi"}}`; got != want {
		t.Errorf("a map is %s, want %s", got, want)
	}
}

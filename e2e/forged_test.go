package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

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

func TestHostileReviewsGetAReasonAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	replica := shared.Replicas(ground.Namespace)[0]
	r := newReviewer(t, replica)
	for why, c := range map[string]struct {
		contentType string // JSON unless it says otherwise
		body        io.Reader
		status      int
		says        string
	}{
		"garbage":                 {body: strings.NewReader("\x00\xff{{{{"), status: 400, says: "pillion"},
		"half a review":           {body: strings.NewReader(goodReview[:len(goodReview)/2]), status: 400, says: "pillion"},
		"brackets a million deep": {body: strings.NewReader(strings.Repeat("[", 1_000_000)), status: 400, says: "pillion"},
		"40 MiB":                  {body: bytes.NewReader(bytes.Repeat([]byte(" "), 40<<20)), status: 413, says: "larger"},
		"no end":                  {body: endless{}, status: 413, says: "larger"},
		"a control character in what is told back": {contentType: "a/b\tc", body: strings.NewReader(goodReview), status: 415, says: "application/json"},
	} {
		status, answer := r.post(t, c.contentType, c.body)
		if status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s: the answer is %d %q, want %d with %q", why, status, answer, c.status, c.says)
		}
		if strings.ContainsAny(strings.TrimSpace(answer), "\t\n\r\x00") {
			t.Errorf("%s: the answer has control characters: %q", why, answer)
		}
		r.works(t)
	}
	if now := shared.Replicas(ground.Namespace); len(now) != 1 || now[0].PID != replica.PID {
		t.Errorf("Pillion was %+v, and is %+v now", replica, now)
	}
}

// strictSpec is a template that changes a pod everywhere that a tenant could change back.
const strictSpec = `
verify:
  images: ["mirror.example.com/*"]
` + strictInject

const strictInject = `
inject:
  metadata:
    annotations: {example.com/audited: "yes"}
  spec:
    initContainers:
    - name: NAME
      $position: First
      restartPolicy: Always
      image: registry.example.com/NAME:1
      env:
      - {name: MODE, value: strict}
      readinessProbe: {httpGet: {path: /ready, port: 8080}}
      resources: {limits: {cpu: 200m, memory: 64Mi}}
      volumeMounts: [{name: NAME, mountPath: /data}]
    containers:
    - $each: App
      env:
      - {name: SHARED, value: /data}
      - {name: AUDIT, value: "on", $onConflict: Deny}
      volumeMounts: [{name: NAME, mountPath: /data}]
    volumes:
    - {name: NAME, emptyDir: {}}
`

// sinceSays is in the refusal of a place that the pod's status says is as it has to be.
const sinceSays = "pillion.dev/status says that Pillion wrote it as it has to be: another webhook changed it since, which spec.verify.allow of the template can allow, " +
	"or the annotation is another pod's: leave it out"

// copyOf is a pod that somebody wrote after a stored one: with its status and its spec, the
// sidecar at their disposal.
func copyOf(stored *corev1.Pod) *corev1.Pod {
	pod := newPod("copy", map[string]string{statusAnnotation: stored.Annotations[statusAnnotation]})
	pod.Spec = *stored.Spec.DeepCopy()
	pod.Spec.NodeName = ""
	return pod
}

// checkRefusal fails the test unless err refuses a pod and its message says this of the
// template; NAME stands for the template's name. If says is empty, it wants no error.
func (m manifest) checkRefusal(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	text := strings.ReplaceAll("template NAME"+says, "NAME", m.name)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("the answer is %v; want it forbidden, with %q", err, text)
	}
	t.Log(err)
}

func TestASidecarThatATenantDeclaresIsAsTheRequiredTemplateRendersIt(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, enforced())
	stored := n.mustCreate(t, newPod("good", nil))
	if s := sidecar(stored, m.name); len(s.VolumeMounts) != 2 || s.TerminationMessagePath == "" || s.Resources.Requests.Cpu().IsZero() {
		t.Fatalf("the API server added nothing to the sidecar, so that this test shows less: %s", pretty(s))
	}
	volume := func(pod *corev1.Pod, name string) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	mountOf := func(c *corev1.Container) *corev1.VolumeMount {
		for i := range c.VolumeMounts {
			if c.VolumeMounts[i].MountPath == "/data" {
				return &c.VolumeMounts[i]
			}
		}
		return nil
	}
	const at = ": spec.initContainers[name=NAME]."
	for why, test := range map[string]struct {
		change func(pod *corev1.Pod, c *corev1.Container)
		says   string // nothing for a pod that passes
		since  bool   // it says that the status says otherwise
	}{
		"nothing":           {func(*corev1.Pod, *corev1.Container) {}, "", false},
		"an accepted image": {func(_ *corev1.Pod, c *corev1.Container) { c.Image = "mirror.example.com/x:2" }, "", false},
		"an image in a folder of the mirror": {func(_ *corev1.Pod, c *corev1.Container) { c.Image = "mirror.example.com/evil/x:2" },
			at + `image is "mirror.example.com/evil/x:2"; want "registry.example.com/NAME:1", or an image that the template's spec.verify.images allows`, true},
		"another image": {func(_ *corev1.Pod, c *corev1.Container) { c.Image = "evil:1" },
			at + `image is "evil:1"; want "registry.example.com/NAME:1", or an image that the template's spec.verify.images allows`, true},
		"a command":     {func(_ *corev1.Pod, c *corev1.Container) { c.Command = []string{"sleep"} }, at + `command is ["sleep"], which the template leaves alone`, true},
		"another value": {func(_ *corev1.Pod, c *corev1.Container) { c.Env[0].Value = "off" }, at + `env[name=MODE] is {"name":"MODE","value":"off"}; want {"name":"MODE","value":"strict"}`, true},
		"a second variable": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "MODE", Value: "off"})
		}, at + `env[name=MODE] is {"name":"MODE","value":"off"}; want {"name":"MODE","value":"strict"}`, true},
		"a second one in front": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = append([]corev1.EnvVar{{Name: "MODE", Value: "off"}}, c.Env...)
		}, at + `env[name=MODE] is {"name":"MODE","value":"off"}; want {"name":"MODE","value":"strict"}`, true},
		"a value from elsewhere": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env[0] = corev1.EnvVar{Name: "MODE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}, Key: "mode"}}}
		}, at + `env[name=MODE] is {"name":"MODE","valueFrom":{"configMapKeyRef":{"key":"mode","name":"own"}}}; want {"name":"MODE","value":"strict"}`, true},
		"LD_PRELOAD": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "/data/evil.so"})
		},
			at + "env[name=LD_PRELOAD] is there, and the template does not render it", true},
		"envFrom": {func(_ *corev1.Pod, c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}}}
		}, at + `envFrom is [{"configMapRef":{"name":"own"}}], which the template leaves alone`, true},
		"another volume at the mount": {func(pod *corev1.Pod, c *corev1.Container) {
			volume(pod, "own")
			mountOf(c).Name = "own"
		}, at + `volumeMounts[mountPath=/data] is {"mountPath":"/data","name":"own"}; want {"mountPath":"/data","name":"NAME"}`, true},
		"a subPath at the mount": {func(_ *corev1.Pod, c *corev1.Container) { mountOf(c).SubPath = "own" },
			at + `volumeMounts[mountPath=/data] is {"mountPath":"/data","name":"NAME","subPath":"own"}; want {"mountPath":"/data","name":"NAME"}`, true},
		"a mount over the program": {func(pod *corev1.Pod, c *corev1.Container) {
			volume(pod, "own")
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: "/usr/bin"})
		}, at + "volumeMounts[mountPath=/usr/bin] is there, and the template does not render it", true},
		"another volume where the token is": {func(pod *corev1.Pod, c *corev1.Container) {
			volume(pod, "own")
			for i := range c.VolumeMounts {
				if c.VolumeMounts[i].MountPath != "/data" {
					c.VolumeMounts[i].Name = "own"
				}
			}
		}, at + "volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is there, and the template does not render it", true},
		"a probe that fails": {func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(1)}}}
		}, at + "livenessProbe is ", true},
		"another probe": {func(_ *corev1.Pod, c *corev1.Container) { c.ReadinessProbe.HTTPGet.Port = intstr.FromInt32(1) }, at + "readinessProbe is ", true},
		"less CPU": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Resources.Limits["cpu"], c.Resources.Requests["cpu"] = resource.MustParse("1m"), resource.MustParse("1m")
		}, at + `resources is {"limits":{"cpu":"1m","memory":"64Mi"},"requests":{"cpu":"1m","memory":"64Mi"}}; want {"limits":{"cpu":"200m","memory":"64Mi"}}`, true},
		"less CPU asked for": {func(_ *corev1.Pod, c *corev1.Container) { c.Resources.Requests["cpu"] = resource.MustParse("1m") },
			at + `resources is {"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"1m","memory":"64Mi"}…; want {"limits":{"cpu":"200m","memory":"64Mi"}}`, true},
		"privileged": {func(_ *corev1.Pod, c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
			at + `securityContext is {"privileged":true}, which the template leaves alone`, true},
		"terminationMessagePath": {func(_ *corev1.Pod, c *corev1.Container) { c.TerminationMessagePath = "/data/x" },
			at + `terminationMessagePath is "/data/x", which the template leaves alone`, true},
		"behind the pod's own": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.InitContainers = append([]corev1.Container{{Name: "own", Image: "own:1"}}, pod.Spec.InitContainers...)
		}, ": spec.initContainers[name=NAME] stands behind own, and the template wants it first", false},
	} {
		t.Run(why, func(t *testing.T) {
			pod := copyOf(stored)
			test.change(pod, sidecar(pod, m.name))
			_, err := n.preview(t, pod)
			m.checkRefusal(t, err, test.says)
			if err != nil && strings.Contains(err.Error(), sinceSays) != test.since {
				t.Errorf("says that another webhook may have changed it: %t, want %t", !test.since, test.since)
			}
			if test.says == "" {
				return
			}
			// Without a status nobody says that another webhook may have done it.
			delete(pod.Annotations, statusAnnotation)
			_, err = n.preview(t, pod)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template "+m.name) || strings.Contains(err.Error(), sinceSays) {
				t.Errorf("without a status: %v", err)
			}
		})
	}
}

func TestARunningSidecarStaysAsItIs(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, nil)
	pod := n.mustCreate(t, newPod("web", nil))
	spec := func(list string, container map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{list: []any{container}}}
	}
	size := func(cpu string) map[string]any {
		amounts := map[string]any{"cpu": cpu}
		return spec("initContainers", map[string]any{"name": m.name, "resources": map[string]any{"limits": amounts, "requests": amounts}})
	}
	debug := func(name string, target any) map[string]any {
		return spec("ephemeralContainers", map[string]any{"name": name, "image": "busybox:1", "targetContainerName": target})
	}
	for _, test := range []struct {
		why, subresource string
		patch            map[string]any
		says             string
	}{
		{"metadata", "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{statusAnnotation: nil}}}, ""},
		{"the app's image", "", spec("containers", map[string]any{"name": "app", "image": "nginx:1.30"}), ""},
		{"an accepted image", "", spec("initContainers", map[string]any{"name": m.name, "image": "mirror.example.com/x:1"}), ""},
		{"another image", "", spec("initContainers", map[string]any{"name": m.name, "image": "evil:1"}),
			`: the container NAME would have the image "evil:1"; want "registry.example.com/NAME:1", or an image that the template's spec.verify.images allows`},
		{"another size", "resize", size("1m"),
			`: the container NAME would have the resources {"limits":{"cpu":"1m","memory":"64Mi"},"requests":{"cpu":"1m","memory":"64Mi"}}; ` +
				`want {"limits":{"cpu":"200m","memory":"64Mi"}}, as the template renders them (spec.verify.allow.resources could allow others)`},
		{"an ephemeral container in the app", "ephemeralcontainers", debug("beside-app", "app"), ""},
		{"an ephemeral container in no container", "ephemeralcontainers", debug("beside", nil), ""},
		{"an ephemeral container in the sidecar", "ephemeralcontainers", debug("within", m.name),
			": the ephemeral container within targets the container NAME; leave out targetContainerName, or target another container"},
	} {
		t.Run(test.why, func(t *testing.T) {
			data, err := json.Marshal(test.patch)
			if err != nil {
				t.Fatal(err)
			}
			var subresources []string
			if test.subresource != "" {
				subresources = []string{test.subresource}
			}
			_, err = n.client.CoreV1().Pods(n.name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
			m.checkRefusal(t, err, test.says)
		})
	}
}

// goodReview is the review of a pod that nothing asks about.
const goodReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",
"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},
"namespace":"default","operation":"CREATE","userInfo":{},
"object":{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}}}`

// endless is a body without an end: spaces, which JSON lets stand anywhere.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// post sends one review, as JSON unless contentType says otherwise, and returns the status and
// the beginning of the answer.
func (r reviewer) post(t *testing.T, contentType string, body io.Reader) (int, string) {
	t.Helper()
	if contentType == "" {
		contentType = "application/json"
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"?timeout=5s", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header["Content-Type"] = []string{contentType}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return response.StatusCode, string(answer)
}

// works fails the test unless a good review is answered.
func (r reviewer) works(t *testing.T) {
	t.Helper()
	if status, answer := r.post(t, "", strings.NewReader(goodReview)); status != 200 || !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("a good review is answered with %d %s", status, answer)
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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

func TestAPodsOwnValuesDoNotTakeThePlaceOfWhatIsRequired(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, enforced())
	rendered := sidecar(n.mustCreate(t, newPod("good", nil)), m.name)
	for why, test := range map[string]struct {
		change func(pod *corev1.Pod, app *corev1.Container)
		says   string
	}{
		"a volume at the template's path": {func(pod *corev1.Pod, app *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			app.VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: "/data"}}
		}, ` conflicts at spec.containers[name=app].volumeMounts[mountPath=/data]: the pod has {"mountPath":"/data","name":"own"}, the template wants {"mountPath":"/data","name":"NAME"} (Conflict;`},
		"a volume at the template's path, written otherwise": {func(pod *corev1.Pod, app *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			app.VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: "/data/"}}
		}, `: spec.containers[name=app].volumeMounts[mountPath=/data] is mounted over by a mount at "/data/" (RequiredMissing;`},
		"a volume under the name of the token's": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, ": spec.initContainers[name=NAME].volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is there, and the template does not render it"},
		"a file in a volume under the name of the token's": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}},
			}}}}}
		}, ": spec.initContainers[name=NAME].volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is there, and the template does not render it"},
		"a volume under that name that nobody mounts": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.AutomountServiceAccountToken = new(false)
			pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, ""},
		"an annotation": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Annotations = map[string]string{"example.com/audited": "no"}
		},
			` conflicts at metadata.annotations["example.com/audited"]: the pod has "no", the template wants "yes" (Conflict;`},
		"a variable": {func(_ *corev1.Pod, app *corev1.Container) { app.Env = []corev1.EnvVar{{Name: "SHARED", Value: "/own"}} },
			` conflicts at spec.containers[name=app].env[name=SHARED]: the pod has {"name":"SHARED","value":"/own"}, the template wants {"name":"SHARED","value":"/data"} (Conflict;`},
		"a variable where the template denies": {func(_ *corev1.Pod, app *corev1.Container) { app.Env = []corev1.EnvVar{{Name: "AUDIT", Value: "off"}} },
			` conflicts at spec.containers[name=app].env[name=AUDIT]: the pod has {"name":"AUDIT","value":"off"}, the template wants {"name":"AUDIT","value":"on"} (Conflict;`},
		"the sidecar behind the pod's own container": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "own", Image: "own:1"}, *rendered.DeepCopy()}
			pod.Spec.InitContainers[1].VolumeMounts = rendered.VolumeMounts[:1]
		}, ": spec.initContainers[name=NAME] stands behind own, and the template wants it first (RequiredMissing;"},
	} {
		t.Run(why, func(t *testing.T) {
			pod := newPod("own", nil)
			test.change(pod, &pod.Spec.Containers[0])
			_, err := n.preview(t, pod)
			m.checkRefusal(t, err, test.says)
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

// Each of these webhooks changes the sidecar after Pillion, as products do.
func TestOtherWebhooksChangeOfARequiredSidecarWhatTheTemplateAllows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, allow string
		change     func(path string, c *corev1.Container) []map[string]any
		says       string
	}{
		{"resources, as a VPA sets them", "resources: true", func(path string, c *corev1.Container) []map[string]any {
			return []map[string]any{{"op": "add", "path": path + "/resources", "value": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "128Mi"}, "requests": map[string]any{"cpu": "300m", "memory": "128Mi"}}}}
		}, ": spec.initContainers[name=NAME].resources is "},
		{"probes, as a mesh rewrites them", "probes: true", func(path string, c *corev1.Container) []map[string]any {
			return []map[string]any{{"op": "add", "path": path + "/readinessProbe/httpGet", "value": map[string]any{"path": "/app-health/" + c.Name + "/readyz", "port": 15020, "scheme": "HTTP"}}}
		}, ": spec.initContainers[name=NAME].readinessProbe is "},
		{"a variable, as a proxy's webhook adds it", "env: [HTTP_PROXY]", func(path string, c *corev1.Container) []map[string]any {
			if environment(c, "HTTP_PROXY") != "" {
				return nil
			}
			return []map[string]any{{"op": "add", "path": path + "/env/-", "value": map[string]any{"name": "HTTP_PROXY", "value": "http://proxy:3128"}}}
		}, ": spec.initContainers[name=NAME].env[name=HTTP_PROXY] is there, and the template does not render it"},
		{"a mount, as one for certificates adds it", "volumeMounts: [/etc/ssl/*]", func(path string, c *corev1.Container) []map[string]any {
			if count(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "certificates" }) > 0 {
				return nil
			}
			return []map[string]any{
				{"op": "add", "path": "/spec/volumes/-", "value": map[string]any{"name": "certificates", "configMap": map[string]any{"name": "certificates"}}},
				{"op": "add", "path": path + "/volumeMounts/-", "value": map[string]any{"name": "certificates", "mountPath": "/etc/ssl/certs"}},
			}
		}, ": spec.initContainers[name=NAME].volumeMounts[mountPath=/etc/ssl/certs] is there, and the template does not render it"},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			for verify, says := range map[string]string{"": test.says, "\nverify: {allow: {" + test.allow + "}}": ""} {
				m, n := newRequiredBy(t, verify+strictInject, enforced())
				calls := otherWebhook(t, n, func(pod *corev1.Pod) []map[string]any {
					for i, c := range pod.Spec.InitContainers {
						if c.Name == m.name {
							return test.change(fmt.Sprint("/spec/initContainers/", i), &c)
						}
					}
					return nil
				})
				eventually(t, soon, func() error {
					_, err := n.preview(t, newPod("probe", nil))
					if calls.Load() == 0 {
						return fmt.Errorf("the other webhook is not called yet: %v", err)
					}
					return nil
				})
				_, err := n.preview(t, newPod("web", nil))
				m.checkRefusal(t, err, says)
				if says != "" && (err == nil || !strings.Contains(err.Error(), sinceSays)) {
					t.Errorf("the refusal does not say that another webhook did it: %v", err)
				}
			}
		})
	}
}

// A tenant may change a pod's labels, annotations and images one after the other. Each step
// is judged by the names of the template's containers, whatever it renders by then.
func TestNoOrderOfUpdatesChangesARequiredSidecar(t *testing.T) {
	t.Parallel()
	team := unique("team")
	m := manifest{name: unique("audit"), spec: fmt.Sprintf(`
required: true
match: {namespaceSelector: {matchLabels: {team: %s}}, podSelector: {matchLabels: {app: db}}}
verify: {images: ["mirror.example.com/*"]}
inject:
  spec:
    initContainers:
    - $if: "pod.spec.containers.exists(c, c.image.startsWith('db:'))"
      name: NAME
      restartPolicy: Always
      image: registry.example.com/NAME:1
      args: ["${string(int(pod.metadata.?annotations['port'].orValue('1')))}"]
      resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}
`, team)}
	m.apply(t)
	labels := enforced()
	labels["team"] = team
	waitRequired(t, labels)
	n := newNamespace(t, nil, labels)
	database := func(name string) *corev1.Pod {
		pod := newPod(name, nil)
		pod.Labels = map[string]string{"app": "db"}
		pod.Spec.Containers[0].Image = "db:1"
		return pod
	}
	eventually(t, soon, func() error {
		pod, err := n.preview(t, database("probe"))
		if err == nil && sidecar(pod, m.name) == nil {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
	const rendersNone, fails = "the template does not render it for the pod as it is now", "the template fails for the pod as it is now"
	image := func(list, name, image string) string {
		return fmt.Sprintf(`{"spec":{%q:[{"name":%q,"image":%q}]}}`, list, name, image)
	}
	evil, good := image("initContainers", m.name, "evil:1"), image("initContainers", m.name, "mirror.example.com/x:1")
	size := fmt.Sprintf(`{"spec":{"initContainers":[{"name":%q,"resources":{"requests":{"cpu":"1m"},"limits":{"cpu":"1m"}}}]}}`, m.name)
	type step struct{ patch, subresource, says string }
	for why, steps := range map[string][]step{
		"another app, the sidecar, the app again": {
			{evil, "", `would have the image "evil:1"; want "registry.example.com/NAME:1", or`},
			{image("containers", "app", "x:1"), "", ""},
			{evil, "", rendersNone},
			{size, "resize", rendersNone},
			{good, "", ""},
			{image("containers", "app", "db:1"), "", ""},
		},
		"a failing annotation, other labels, the sidecar": {
			{`{"metadata":{"annotations":{"port":"abc"},"labels":{"app":null}}}`, "", ""},
			{evil, "", fails},
			{size, "resize", fails},
			{good, "", ""},
			{image("containers", "app", "db:2"), "", "type conversion error"},
			{`{"metadata":{"annotations":{"port":null}}}`, "", ""},
			{image("containers", "app", "x:1"), "", ""},
			{evil, "", rendersNone},
		},
	} {
		t.Run(why, func(t *testing.T) {
			pod := n.mustCreate(t, database(unique("db")))
			for _, s := range steps {
				var subresources []string
				if s.subresource != "" {
					subresources = []string{s.subresource}
				}
				_, err := n.client.CoreV1().Pods(n.name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(s.patch), metav1.PatchOptions{}, subresources...)
				if s.says == "" && err != nil || s.says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), strings.ReplaceAll(s.says, "NAME", m.name))) {
					t.Errorf("%s: %v; want %q", s.patch, err, s.says)
				}
				t.Log(err)
			}
		})
	}
}

// The other webhook is called once more because Pillion put the sidecar back, and then it is
// the last one.
func TestNoAnnotationOfAnotherWebhookSwitchesTheVerificationOff(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, enforced())
	calls := otherWebhookCalledAgain(t, n, "zz-other", admissionregistrationv1.IfNeededReinvocationPolicy, func(pod *corev1.Pod) []map[string]any {
		switch {
		case pod.Labels["evil"] == "":
			return nil
		case pod.Labels["evil"] == "first":
			return []map[string]any{{"op": "remove", "path": "/spec/initContainers"}, {"op": "replace", "path": "/metadata/labels/evil", "value": "second"}}
		}
		return []map[string]any{
			{"op": "replace", "path": "/spec/initContainers/0/image", "value": "evil:1"},
			{"op": "add", "path": "/metadata/annotations/pillion.dev~1inject", "value": "!!"},
		}
	})
	eventually(t, soon, func() error {
		_, err := n.preview(t, newPod("probe", nil))
		if calls.Load() == 0 {
			return fmt.Errorf("the other webhook is not called yet: %v", err)
		}
		return nil
	})
	pod := newPod("web", nil)
	pod.Labels = map[string]string{"evil": "first"}
	got, err := n.preview(t, pod)
	if err == nil {
		t.Logf("admitted: %s %s", got.Annotations["pillion.dev/inject"], pretty(got.Spec.InitContainers))
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template "+m.name) || !strings.Contains(err.Error(), "evil:1") {
		t.Errorf("the answer is %v; want it forbidden for the image", err)
	}
	t.Log(err)
}

// A volume of sources may be one with another template's. With a pod's own source the file that
// the sidecar reads would be the pod's. And the resources of a pod bound those of its containers.
func TestNoOwnSourceAndNoResizeOfThePodReachesARequiredSidecar(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, `
inject:
  spec:
    resources: {limits: {cpu: "1", memory: 128Mi}}
    initContainers:
    - {name: NAME, $position: First, restartPolicy: Always, image: "registry.example.com/NAME:1", volumeMounts: [{name: NAME, mountPath: /conf}]}
    volumes:
    - {name: NAME, projected: {sources: [{serviceAccountToken: {path: token, audience: audit}}]}}
`, enforced())
	pod := newPod("own", nil)
	pod.Spec.Volumes = []corev1.Volume{{Name: m.name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "audit"}},
	}}}}}
	_, err := n.preview(t, pod)
	m.checkRefusal(t, err, "")
	sources := &pod.Spec.Volumes[0].Projected.Sources
	*sources = append(*sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}})
	_, err = n.preview(t, pod)
	m.checkRefusal(t, err, " conflicts at spec.volumes[name=NAME]: ")
	stored := n.mustCreate(t, newPod("web", nil))
	for cpu, says := range map[string]string{
		"1m":    `: the pod would have the resources {"limits":{"cpu":"1m","memory":"128Mi"}`,
		"1000m": "",
	} {
		size := fmt.Sprintf(`{"spec":{"resources":{"limits":{"cpu":%[1]q},"requests":{"cpu":%[1]q}}}}`, cpu)
		_, err = n.client.CoreV1().Pods(n.name).Patch(t.Context(), stored.Name, types.StrategicMergePatchType, []byte(size), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "resize")
		m.checkRefusal(t, err, says)
	}
}

// agentSpec gives the app an agent, which an init container copies into a volume.
const agentSpec = `
verify: {allow: {volumeMounts: [/agent/conf/*]}}
inject:
  spec:
    initContainers:
    - {name: NAME, $position: First, image: "registry.example.com/NAME:1", volumeMounts: [{name: NAME, mountPath: /to}]}
    containers:
    - $each: App
      env: [{name: JAVA_TOOL_OPTIONS, value: "-javaagent:/agent/agent.jar"}]
      volumeMounts: [{name: NAME, mountPath: /agent, readOnly: true}]
    volumes:
    - {name: NAME, emptyDir: {}}
`

func TestNobodyReplacesTheFilesThatARequiredTemplateMounts(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, agentSpec, enforced())
	pod := n.mustCreate(t, newPod("web", nil))
	own := func(path, subPath string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}}}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: path, SubPath: subPath}}
		}
	}
	shared := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: m.name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	mount := func(path string) []corev1.VolumeMount { return []corev1.VolumeMount{{Name: m.name, MountPath: path}} }
	for why, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"an own file in place of the agent": {own("/agent/agent.jar", "agent.jar"), ": spec.containers[name=app].volumeMounts[mountPath=/agent/agent.jar] stands below /agent, "},
		"the same, spelled otherwise":       {own("/x/../agent//agent.jar", "agent.jar"), "stands below /agent, "},
		"a directory in the mount":          {own("/agent/lib", ""), "stands below /agent, "},
		"the mount's path with a slash":     {own("/agent/", ""), `: spec.containers[name=app].volumeMounts[mountPath=/agent] is mounted over by a mount at "/agent/"`},
		"the root":                          {own("/", ""), ": spec.containers[name=app].volumeMounts[mountPath=/] stands over /agent, "},
		"where the template allows it":      {own("/agent/conf/a", ""), ""},
		"beside the mount":                  {own("/agents", ""), ""},
		"the file for the app's last words": {func(pod *corev1.Pod) { pod.Spec.Containers[0].TerminationMessagePath = "/agent/agent.jar" },
			": spec.containers[name=app].terminationMessagePath stands below /agent, "},
		"the volume, in an own init container": {func(pod *corev1.Pod) {
			shared(pod)
			pod.Spec.InitContainers = []corev1.Container{{Name: "own", Image: "own:1", VolumeMounts: mount("/mine")}}
		}, ": spec.initContainers[name=own].volumeMounts[mountPath=/mine] mounts the volume NAME, which is the template's: "},
		"the volume, in the app once more": {func(pod *corev1.Pod) {
			shared(pod)
			pod.Spec.Containers[0].VolumeMounts = mount("/mine")
		}, ": spec.containers[name=app].volumeMounts[mountPath=/mine] mounts the volume NAME, which is the template's: "},
	} {
		t.Run(why, func(t *testing.T) {
			pod := newPod("own", nil)
			test.change(pod)
			_, err := n.preview(t, pod)
			if strings.HasPrefix(test.says, ":") || test.says == "" {
				m.checkRefusal(t, err, test.says)
			} else if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the answer is %v; want it forbidden, with %q", err, test.says)
			}
		})
	}
	for path, says := range map[string]string{
		"/mine":         ": the ephemeral container debug mounts the volume NAME, which is the template's: mount another volume, or none",
		"/agent/conf/a": "",
	} {
		debug := fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox:1","volumeMounts":[{"name":%q,"mountPath":%q}]}]}}`, m.name, path)
		_, err := n.client.CoreV1().Pods(n.name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(debug), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "ephemeralcontainers")
		m.checkRefusal(t, err, says)
	}
}

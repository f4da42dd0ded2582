package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// How many reviews the corpus has, and how large they are, in bytes.
const (
	corpusSize            = 200
	smallest, largest int = 2 << 10, 60 << 10
)

// A group is reviews of pods in one namespace.
type group struct {
	namespace string
	asks      map[string]string // the namespace's annotations
	pod       map[string]string // the pods' own annotations
	reviews   int
	again     int // how many of them are second calls
	injected  bool
}

// asking are annotations of a namespace: the templates, and what they have to be told.
func asking(templates string, settings ...string) map[string]string {
	asks := map[string]string{"pillion.dev/inject": templates}
	for i := 0; i < len(settings); i += 2 {
		asks[settings[i]] = settings[i+1]
	}
	return asks
}

var fluentBit = asking("fluent-bit")

// groups are about half pods that nobody asked for, and a third with fluent-bit.
var groups = []group{
	{namespace: "load-none", reviews: 90},
	{namespace: "load-fluent-bit", asks: fluentBit, pod: map[string]string{"pillion.dev/inject": "false"}, reviews: 10},
	{namespace: "load-fluent-bit", asks: fluentBit, reviews: 50, again: 15, injected: true},
	{namespace: "load-fluent-bit", asks: fluentBit, pod: map[string]string{"fluent-bit.pillion.dev/log-level": "debug"}, reviews: 10, injected: true},
	{namespace: "load-otel", asks: asking("otel-collector", "otel-collector.pillion.dev/endpoint", "https://otlp.example.com:4317"), reviews: 5, again: 1, injected: true},
	{namespace: "load-vault", asks: asking("vault-agent", "vault-agent.pillion.dev/role", "shop", "vault-agent.pillion.dev/secrets.db", "secret/data/shop/db"), reviews: 5, again: 1, injected: true},
	{namespace: "load-oauth2", asks: asking("oauth2-proxy", "oauth2-proxy.pillion.dev/login", "github", "oauth2-proxy.pillion.dev/client-id", "shop",
		"oauth2-proxy.pillion.dev/email-domains", "example.com"), reviews: 5, again: 1, injected: true},
	{namespace: "load-istio", asks: asking("istio-proxy"), reviews: 5, again: 1, injected: true},
	{namespace: "load-environment", asks: asking("environment", "environment.pillion.dev/env.HTTPS_PROXY", "http://proxy.example.com:3128"), reviews: 5, again: 1, injected: true},
	{namespace: "load-ca-bundle", asks: asking("ca-bundle", "ca-bundle.pillion.dev/config-map", "corporate-ca"), reviews: 5, again: 1, injected: true},
	{namespace: "load-statsd", asks: asking("statsd-exporter"), reviews: 5, again: 1, injected: true},
	{namespace: "load-three", asks: asking("environment,fluent-bit,statsd-exporter", "environment.pillion.dev/env.STATSD", "127.0.0.1:9125"), reviews: 5, again: 1, injected: true},
}

// templates are the names of those that any group asks for.
func templates() []string {
	names := map[string]bool{}
	for _, g := range groups {
		for _, name := range strings.Split(g.asks["pillion.dev/inject"], ",") {
			if name != "" {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// A review is one of the corpus.
type review struct {
	group group
	uid   types.UID
	// again has the pod go through once before, and be reviewed with the answer's patch.
	again bool
	size  int    // about, in bytes
	body  []byte // of the first call
}

// corpus makes all reviews, the same every time. Their sizes are spread evenly over the
// orders of magnitude.
func corpus() ([]review, error) {
	sizes := rand.New(rand.NewPCG(12, 0)).Perm(corpusSize)
	var reviews []review
	for _, g := range groups {
		for i := range g.reviews {
			n := len(reviews)
			share := (float64(sizes[n]) + 0.5) / corpusSize
			r := review{
				group: g, again: i < g.again, uid: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)),
				size: int(float64(smallest) * math.Pow(float64(largest)/float64(smallest), share)),
			}
			if r.again { // the second call is larger
				r.size = max(r.size/2, smallest)
			}
			if err := r.make(rand.New(rand.NewPCG(12, uint64(n)))); err != nil {
				return nil, err
			}
			reviews = append(reviews, r)
		}
	}
	return reviews, nil
}

// make makes the body: of about the review's size, and never more unless the smallest pod
// takes more.
func (r *review) make(random *rand.Rand) (err error) {
	pod := smallPod(r.group)
	if r.size < withoutToken {
		no := false
		pod.OwnerReferences, pod.Spec.AutomountServiceAccountToken, pod.Spec.Containers[0].Ports = nil, &no, nil
	}
	r.body, err = r.of(pod)
	for missing := r.size - len(r.body); err == nil && missing > r.size/32; missing = r.size - len(r.body) {
		larger := pod.DeepCopy()
		// What is added takes some 250 bytes, with its managed fields.
		for range max(1, missing/300) {
			grow(random, larger)
		}
		var body []byte
		if body, err = r.of(larger); err != nil || len(body) > r.size {
			break
		}
		pod, r.body = larger, body
	}
	return err
}

// withoutToken is the size, in bytes, below which a review has a pod that nobody owns and that
// has no token. A ReplicaSet's takes that much.
const withoutToken = 3300

// smallPod is the least that an API server sends of a ReplicaSet.
func smallPod(g group) *corev1.Pod {
	pod := measure.ReplicaSetPod()
	pod.Namespace, pod.Annotations = g.namespace, maps.Clone(g.pod)
	pod.Labels = map[string]string{"app": "web"}
	c := &pod.Spec.Containers[0]
	c.Env, c.ReadinessProbe, c.Resources = nil, nil, corev1.ResourceRequirements{}
	return pod
}

// admit is what the API server's own admission adds before it calls webhooks.
func admit(pod *corev1.Pod) {
	seconds, mode := int64(300), int32(420)
	yes, priority, policy := true, int32(0), corev1.PreemptLowerPriority
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "default", "default"
	pod.Spec.EnableServiceLinks, pod.Spec.Priority, pod.Spec.PreemptionPolicy = &yes, &priority, &policy
	if pod.Spec.AutomountServiceAccountToken != nil { // it says no
		return
	}
	expires := int64(3607)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
	}}}})
	mountToken(pod)
}

const tokenVolume = "kube-api-access-xkv25"

// mountToken mounts the service account's token into each container that has none there.
func mountToken(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if !slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == measure.TokenPath }) {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: tokenVolume, ReadOnly: true, MountPath: measure.TokenPath})
			}
		}
	}
}

// grow adds something to a pod: mostly variables, as in real ones.
func grow(random *rand.Rand, pod *corev1.Pod) {
	c := &pod.Spec.Containers[random.IntN(len(pod.Spec.Containers))]
	n, dice := len(pod.Spec.Containers), random.IntN(20)
	switch {
	case dice == 0 && n < 8:
		more := *measure.ReplicaSetPod().Spec.Containers[0].DeepCopy()
		more.Name, more.Ports[0].ContainerPort = fmt.Sprint("app-", n), int32(9000+n)
		pod.Spec.Containers = append(pod.Spec.Containers, more)
	case dice < 4 && len(pod.Spec.Volumes) < 30:
		name := fmt.Sprint("settings-", len(pod.Spec.Volumes))
		source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/etc/shop/" + name, ReadOnly: true})
	case dice < 6:
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[fmt.Sprint("example.com/note-", len(pod.Annotations))] = text(random, 40+random.IntN(200))
	case dice < 8:
		c.Args = append(c.Args, "--"+text(random, 10+random.IntN(40)))
	case dice < 9:
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("FROM_", len(c.Env)), ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shop"}, Key: text(random, 12)}}})
	default:
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", len(c.Env)), Value: text(random, 5+random.IntN(80))})
	}
}

func text(random *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-/.:"
	var b strings.Builder
	for range n {
		b.WriteByte(letters[random.IntN(len(letters))])
	}
	return b.String()
}

// of is the review of a pod that somebody sends: with its managed fields, and with what the
// API server's own admission adds.
func (r review) of(pod *corev1.Pod) ([]byte, error) {
	pod = pod.DeepCopy()
	fields, err := fieldsOf(pod)
	if err != nil {
		return nil, err
	}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
	}}
	admit(pod)
	object, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	return r.envelope(object)
}

func (r review) envelope(object []byte) ([]byte, error) {
	kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	no := false
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: r.uid, Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource, Namespace: r.group.namespace,
			Operation: admissionv1.Create, DryRun: &no, Object: runtime.RawExtension{Raw: object},
			UserInfo: authenticationv1.UserInfo{
				Username: "system:serviceaccount:kube-system:replicaset-controller", UID: "5a3c4d0e-4f2f-4b0c-9d8e-7c6b5a493827",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
			},
			Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	})
}

// secondCall is the review of the pod as the answer to r makes it, and as the API server's
// own admission completes it.
func (r review) secondCall(answer *admissionv1.AdmissionResponse) ([]byte, error) {
	var first admissionv1.AdmissionReview
	if err := json.Unmarshal(r.body, &first); err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	if err != nil {
		return nil, err
	}
	object, err := patch.Apply(first.Request.Object.Raw)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(object, &pod); err != nil {
		return nil, err
	}
	if pod.Spec.AutomountServiceAccountToken == nil {
		mountToken(&pod)
	}
	if object, err = json.Marshal(&pod); err != nil {
		return nil, err
	}
	return r.envelope(object)
}

// listKeys are the fields by which managed fields tell the items of a list apart, by its name.
var listKeys = map[string][]string{
	"containers": {"name"}, "env": {"name"}, "volumes": {"name"}, "volumeMounts": {"mountPath"}, "ports": {"containerPort", "protocol"}, "ownerReferences": {"uid"},
}

// fieldsOf are the managed fields of all that stands in a pod, as JSON.
func fieldsOf(pod *corev1.Pod) ([]byte, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	metadata, isObject := object["metadata"].(map[string]any)
	if !isObject {
		return nil, errors.New("a pod without metadata")
	}
	delete(metadata, "namespace")
	fields := map[string]any{"f:metadata": fieldsIn(metadata, ""), "f:spec": fieldsIn(object["spec"], "")}
	for _, name := range []string{"f:metadata", "f:spec"} {
		delete(fields[name].(map[string]any), ".") // the roots are nobody's
	}
	return json.Marshal(fields)
}

// fieldsIn are those of a value that is the field name.
func fieldsIn(value any, name string) any {
	fields := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		fields["."] = map[string]any{}
		for key, inner := range v {
			fields["f:"+key] = fieldsIn(inner, key)
		}
	case []any:
		keys := listKeys[name]
		if keys == nil {
			break
		}
		fields["."] = map[string]any{}
		for _, item := range v {
			object := item.(map[string]any)
			by := map[string]any{}
			for _, key := range keys {
				by[key] = object[key]
			}
			text, _ := json.Marshal(by) // plain data
			fields["k:"+string(text)] = fieldsIn(item, "")
		}
	}
	return fields
}

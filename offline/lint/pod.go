package lint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	kjson "sigs.k8s.io/json"

	"github.com/pillion-dev/pillion/offline/samples"
	"github.com/pillion-dev/pillion/templates"
)

// decodePod reads a pod into the API's type. The problems are about fields that the API
// does not have, and about values of another type.
func decodePod(raw map[string]any, allowUnknownFields bool) (*corev1.Pod, []string) {
	data, err := json.Marshal(raw)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var pod corev1.Pod
	strict, err := kjson.UnmarshalStrict(data, &pod)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var problems []string
	if !allowUnknownFields {
		for _, err := range strict {
			problems = append(problems, err.Error())
		}
	}
	return &pod, problems
}

// placed is a container and its list.
type placed struct {
	corev1.Container
	list string
}

func containersOf(pod *corev1.Pod) []placed {
	var all []placed
	for _, c := range pod.Spec.InitContainers {
		all = append(all, placed{c, "initContainers"})
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, placed{c, "containers"})
	}
	return all
}

func isNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// injected checks the pod that a template gives.
func (j *judged) injected(s samples.Sample, before, after *corev1.Pod, fragment map[string]any) {
	there := map[string]bool{}
	for _, c := range containersOf(before) {
		there[c.Name] = true
	}
	for _, c := range containersOf(after) {
		if !there[c.Name] {
			j.sidecar(s, c, after)
		}
	}
	j.order(before, after, there, fragment)
	for _, err := range invalid(after, before) {
		path, line := j.field(err.Field)
		// Cut off the API's regular expression.
		message, _, _ := strings.Cut(err.Error(), " (e.g. ")
		j.add(Finding{Severity: Error, Rule: "api", Pod: s.Name, Path: path, Line: line, Message: message})
	}
}

// field returns the place in the manifest that is nearest to a field of the pod, such as
// spec.containers[web].volumeMounts[/data].
func (j *judged) field(of string) (path string, line int) {
	parts := strings.FieldsFunc(of, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	steps := []any{"spec", "inject"}
	for i, part := range parts[:min(len(parts), 3)] {
		if i < 2 {
			steps = append(steps, part)
			continue
		}
		if index := j.index(parts[1], part); index >= 0 {
			steps = append(steps, index)
		}
	}
	return templates.Place(j.document.Document, steps...)
}

// sidecar checks a container that the template added.
func (j *judged) sidecar(s samples.Sample, c placed, pod *corev1.Pod) {
	if untagged(c.Image) {
		j.about("image-tag", Warning, fmt.Sprintf("the image %s has neither a digest nor a tag of its own: what runs changes without anybody changing it", c.Image), c.list, c.Name, "image")
	}
	var lacks []string
	if c.Resources.Requests.Cpu().IsZero() && c.Resources.Limits.Cpu().IsZero() {
		lacks = append(lacks, "no CPU request")
	}
	if c.Resources.Requests.Memory().IsZero() && c.Resources.Limits.Memory().IsZero() {
		lacks = append(lacks, "no memory request")
	}
	if c.Resources.Limits.Memory().IsZero() {
		lacks = append(lacks, "no memory limit")
	}
	if len(lacks) > 0 {
		j.about("resources", Warning, fmt.Sprintf("the container %s has %s", c.Name, strings.Join(lacks, ", ")), c.list, c.Name, "resources")
	}
	if s.Name == samples.Job && c.list == "containers" && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		j.about("job-never-finishes", Warning, fmt.Sprintf("the container %s goes on running when the Job's work is done, so the Job never finishes; make it a native sidecar (spec.initContainers, restartPolicy: Always), or keep it from Jobs by a matchCondition", c.Name), c.list, c.Name)
	}
}

// untagged reports whether an image has no digest, and no tag or the tag latest.
func untagged(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, ok := strings.Cut(name, ":")
	return !ok || tag == "latest"
}

// order checks the positions of the containers.
func (j *judged) order(before, after *corev1.Pod, there map[string]bool, fragment map[string]any) {
	if first := after.Spec.Containers; len(first) > 0 && !there[first[0].Name] && after.Annotations["kubectl.kubernetes.io/default-container"] == "" {
		j.about("default-container", Warning, fmt.Sprintf("the container %s stands before the pod's own, so that kubectl logs and exec take it by default; leave $position away, or set the annotation kubectl.kubernetes.io/default-container", first[0].Name), "containers", first[0].Name)
	}
	if len(before.Spec.InitContainers) > 0 {
		extends := false
		spec, _ := fragment["spec"].(map[string]any)
		items, _ := spec["initContainers"].([]any)
		for _, item := range items {
			c, _ := item.(map[string]any)
			name, _ := c["name"].(string)
			extends = extends || there[name]
		}
		own := slices.IndexFunc(after.Spec.InitContainers, func(c corev1.Container) bool { return there[c.Name] })
		for i := range after.Spec.InitContainers {
			if c := &after.Spec.InitContainers[i]; extends && i > own && !there[c.Name] && isNative(c) {
				j.about("init-order", Warning, fmt.Sprintf("the sidecar %s starts after the pod's init containers, which the template extends too: they run without it; put it first ($position: First), or extend only App", c.Name), "initContainers", c.Name)
			}
		}
	}
	if c := after.Spec.InitContainers; len(c) > 0 && !there[c[0].Name] && isNative(&c[0]) && len(before.Spec.InitContainers) > 0 {
		j.placedFirst(c[0].Name)
	}
}

// placedFirst notes a native sidecar that stands first, and warns if another template
// puts one there, too.
func (j *judged) placedFirst(name string) {
	order := j.template.Order()
	for _, other := range j.first {
		if other.name == j.template.Name() {
			return
		}
		if other.order == order {
			j.about("same-place", Warning, fmt.Sprintf("this template and %s (%s) both put a sidecar first and have the order %d, so that their names decide which starts first; give them different values of spec.order", other.name, other.source, order), "initContainers", name)
		}
	}
	j.linter.first = append(j.linter.first, placedFirst{name: j.template.Name(), source: j.result.Source, order: order})
}

// podSecurity reports the Pod Security Standard of the injected parts. The pod keeps to
// the strictest standard without them. A template that adds no container and changes no
// level gives no finding.
func (j *judged) podSecurity(pod *corev1.Pod, adds bool) {
	level, why := PodSecurity(pod)
	if why != "" {
		why = "; not " + why
	}
	switch {
	case level == api.LevelPrivileged:
		j.about("pod-security", Warning, "a pod becomes privileged by the Pod Security Standards"+why, "", "")
	case level != api.LevelRestricted || adds:
		j.about("pod-security", Note, "a restricted pod stays "+string(level)+" by the Pod Security Standards"+why, "", "")
	}
}

// invalid returns the parts of a pod that the API would refuse, as far as libraries check
// them. The API accepts the pod before the injection.
func invalid(pod, before *corev1.Pod) field.ErrorList {
	var all field.ErrorList
	spec := field.NewPath("spec")
	all = append(all, metav1validation.ValidateLabels(pod.Labels, field.NewPath("metadata", "labels"))...)
	all = append(all, apivalidation.ValidateAnnotations(pod.Annotations, field.NewPath("metadata", "annotations"))...)
	all = append(all, metav1validation.ValidateLabels(pod.Spec.NodeSelector, spec.Child("nodeSelector"))...)
	check := func(at *field.Path, value string, problems []string) {
		for _, p := range problems {
			all = append(all, field.Invalid(at, value, p))
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		at := spec.Child("volumes").Key(v.Name)
		check(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))
		volumes[v.Name] = true
		if v.ConfigMap != nil {
			check(at.Child("configMap", "name"), v.ConfigMap.Name, validation.IsDNS1123Subdomain(v.ConfigMap.Name))
		}
		if v.Secret != nil {
			check(at.Child("secret", "secretName"), v.Secret.SecretName, validation.IsDNS1123Subdomain(v.Secret.SecretName))
		}
	}
	known := map[string]bool{}
	for _, c := range containersOf(before) {
		known[c.Name] = true
	}
	for _, c := range containersOf(pod) {
		at := spec.Child(c.list).Key(c.Name)
		check(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))
		if c.RestartPolicy != nil && c.list == "initContainers" && !isNative(&c.Container) {
			all = append(all, field.NotSupported(at.Child("restartPolicy"), *c.RestartPolicy, []string{"Always"}))
		}
		if strings.TrimSpace(c.Image) != c.Image {
			all = append(all, field.Invalid(at.Child("image"), c.Image, "must not have white space around it"))
		}
		all = append(all, invalidParts(&c.Container, at, volumes)...)
		if known[c.Name] {
			continue
		}
		for name, request := range c.Resources.Requests {
			if limit, ok := c.Resources.Limits[name]; ok && request.Cmp(limit) > 0 {
				all = append(all, field.Invalid(at.Child("resources", "requests").Key(string(name)), request.String(), "must be at most the limit "+limit.String()))
			}
		}
	}
	if name := pod.Spec.ServiceAccountName; name != "" {
		check(spec.Child("serviceAccountName"), name, validation.IsDNS1123Subdomain(name))
	}
	if name := pod.Spec.PriorityClassName; name != "" {
		check(spec.Child("priorityClassName"), name, validation.IsDNS1123Subdomain(name))
	}
	slices.SortStableFunc(all, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}

func invalidParts(c *corev1.Container, at *field.Path, volumes map[string]bool) field.ErrorList {
	var all field.ErrorList
	check := func(at *field.Path, value any, problems []string) {
		for _, p := range problems {
			all = append(all, field.Invalid(at, value, p))
		}
	}
	for _, e := range c.Env {
		at := at.Child("env").Key(e.Name)
		check(at.Child("name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))
		if e.Value != "" && e.ValueFrom != nil {
			all = append(all, field.Invalid(at, e.Name, "has both value and valueFrom"))
		}
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		at := at.Child("ports").Key(fmt.Sprint(p.ContainerPort))
		check(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))
		if p.Name != "" {
			check(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))
		}
		ports[p.Name] = true
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		at := at.Child("volumeMounts").Key(m.MountPath)
		if !volumes[m.Name] {
			all = append(all, field.NotFound(at.Child("name"), m.Name))
		}
		if mounted[m.MountPath] {
			all = append(all, field.Duplicate(at, m.MountPath))
		}
		mounted[m.MountPath] = true
	}
	for name, probe := range map[string]*corev1.Probe{"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe} {
		if probe == nil {
			continue
		}
		if probe.HTTPGet == nil && probe.TCPSocket == nil && probe.Exec == nil && probe.GRPC == nil {
			all = append(all, field.Required(at.Child(name), "a probe has httpGet, tcpSocket, exec or grpc"))
		}
		if probe.HTTPGet != nil && probe.HTTPGet.Port.StrVal != "" && !ports[probe.HTTPGet.Port.StrVal] {
			all = append(all, field.NotFound(at.Child(name, "httpGet", "port"), probe.HTTPGet.Port.StrVal))
		}
	}
	return all
}

package lint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/samples"
)

// containerIn is a container and the list that it stands in.
type containerIn struct {
	corev1.Container
	list string
}

// containersOf returns the init containers and the containers of a pod, in their order.
func containersOf(pod *corev1.Pod) []containerIn {
	var all []containerIn
	for _, c := range pod.Spec.InitContainers {
		all = append(all, containerIn{c, "initContainers"})
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, containerIn{c, "containers"})
	}
	return all
}

// isNative reports whether an init container is a native sidecar.
func isNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// injected checks the pod that a template makes of a sample.
func (tr *trial) injected(s samples.Sample, merged map[string]any, f *fragment.Node) {
	tr.api(s, merged)
	tr.users(s, merged)
	before, err := workload.Decode[corev1.Pod](s.Pod)
	if err != nil {
		return // one of the author's, which no API server takes
	}
	after, err := workload.Decode[corev1.Pod](merged)
	if err != nil {
		return
	}
	there := sets.Set[string]{}
	for _, c := range containersOf(before) {
		there.Insert(c.Name)
	}
	for _, c := range containersOf(after) {
		if !there.Has(c.Name) {
			tr.sidecar(s, c, after)
		}
	}
	tr.quality(s, before, after, there)
	tr.order(before, after, there, f)
	tr.references(before, after, there)
}

// api reports the typing mistakes that a pod has and the sample does not, and the values that the types
// of the API cannot hold.
func (tr *trial) api(s samples.Sample, merged map[string]any) {
	report := func(field, message string) {
		tr.cause(Finding{Severity: Error, Rule: "api", Pod: s.Name}, oracle.NewCause(tr.template, merged, field, message))
	}
	var undecodable *workload.FieldError
	if _, err := workload.Decode[corev1.Pod](merged); errors.As(err, &undecodable) {
		report(undecodable.Field, undecodable.Message())
	}
	had := map[mistake]bool{}
	for _, m := range mistakesOf(s.Pod) {
		had[mistake{rule: m.rule, message: m.message}] = true
	}
	for _, m := range mistakesOf(merged) {
		if !had[mistake{rule: m.rule, message: m.message}] {
			report(m.field, m.message)
		}
	}
}

// users finds containers of the template that never start because of their user.
func (tr *trial) users(s samples.Sample, merged map[string]any) {
	had := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range podschema.ObjectsIn(podschema.ObjectOf(s.Pod["spec"]), list) {
			had[fmt.Sprint(c["name"])] = true
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range podschema.ObjectsIn(podschema.ObjectOf(merged["spec"]), list) {
			name, _ := c["name"].(string)
			why := injector.NeverStarts(merged, c)
			if had[name] || why == "" {
				continue
			}
			f := Finding{Severity: tr.severityFor(s), Rule: "never-starts", Pod: s.Name, Message: why}
			f.Path, f.Line = tr.placeOf(list, name, "securityContext")
			tr.add(f)
		}
	}
}

// quality warns of sidecars that lower what the kubelet promises the pod: its quality of service, or its room on
// the disk.
func (tr *trial) quality(s samples.Sample, before, after *corev1.Pod, there sets.Set[string]) {
	guaranteed := isGuaranteed(before)
	for _, c := range containersOf(after) {
		if there.Has(c.Name) {
			continue
		}
		if limit, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]; ok && !hasStorageLimit(before) {
			tr.warn("ephemeral-storage", fmt.Sprintf("the limit of the container %s is that of all of a pod whose other containers have none: the kubelet evicts a pod that uses more than %s, logs and emptyDirs of the app included; leave it out, and give the sidecar's emptyDirs a sizeLimit", c.Name, limit.String()), c.list, c.Name, "resources")
		}
		if guaranteed && !isFixed(c.Resources) {
			f := Finding{Severity: Warning, Rule: "quality-of-service", Pod: s.Name, Message: fmt.Sprintf("the pod is Guaranteed, and the container %s makes it Burstable: give it limits for CPU and memory, and requests that are the same or absent", c.Name)}
			f.Path, f.Line = tr.placeOf(c.list, c.Name, "resources")
			tr.add(f)
		}
	}
}

// isGuaranteed reports whether a pod has the quality of service Guaranteed.
func isGuaranteed(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(containersOf(pod), func(c containerIn) bool { return !isFixed(c.Resources) })
}

// isFixed reports whether a container has limits for CPU and memory, and no other requests.
func isFixed(r corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, request := r.Limits[name], r.Requests[name]
		if _, requested := r.Requests[name]; limit.IsZero() || requested && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

func hasStorageLimit(pod *corev1.Pod) bool {
	return slices.ContainsFunc(containersOf(pod), func(c containerIn) bool {
		_, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		return ok
	})
}

// cause adds a finding about a mistake of a pod.
func (tr *trial) cause(f Finding, c oracle.Cause) {
	f.Path, f.Line = templates.Place(tr.document.Document, c.Steps...)
	f.Message = c.Message
	tr.add(f)
}

// references warns of names that the API server accepts, and that name no object on the node:
// the containers do not start, or never become ready.
func (tr *trial) references(before, after *corev1.Pod, there sets.Set[string]) {
	had := sets.Set[string]{}
	for _, v := range before.Spec.Volumes {
		had.Insert(v.Name)
	}
	for _, v := range after.Spec.Volumes {
		name, of := "", ""
		switch {
		case v.ConfigMap != nil:
			name, of = v.ConfigMap.Name, "ConfigMap"
		case v.Secret != nil:
			name, of = v.Secret.SecretName, "Secret"
		}
		if name != "" && !had.Has(v.Name) && len(validation.IsDNS1123Subdomain(name)) > 0 {
			tr.warn("reference", fmt.Sprintf("the volume %s is of the %s %q, and none can have that name: the pod's containers never start", v.Name, of, name), "volumes", v.Name)
		}
	}
	for _, c := range containersOf(after) {
		if there.Has(c.Name) {
			continue
		}
		ports := map[string]bool{}
		for _, p := range c.Ports {
			ports[p.Name] = true
		}
		for _, p := range []struct {
			name  string
			probe *corev1.Probe
		}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
			port := ""
			switch {
			case p.probe == nil:
			case p.probe.HTTPGet != nil:
				port = p.probe.HTTPGet.Port.StrVal
			case p.probe.TCPSocket != nil:
				port = p.probe.TCPSocket.Port.StrVal
			}
			if port != "" && !ports[port] {
				tr.warn("reference", fmt.Sprintf("the %s of the container %s asks the port %q, and the container has none of that name: the probe always fails", p.name, c.Name, port), c.list, c.Name, p.name)
			}
		}
	}
}

// sidecar checks a container that the template added.
func (tr *trial) sidecar(s samples.Sample, c containerIn, pod *corev1.Pod) {
	if untagged(c.Image) {
		tr.warn("image-tag", fmt.Sprintf("the image %s has no digest and no tag, or the tag latest: the program can change without a change of the template", c.Image), c.list, c.Name, "image")
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
		tr.warn("resources", fmt.Sprintf("the container %s has %s", c.Name, strings.Join(lacks, ", ")), c.list, c.Name, "resources")
	}
	if c.list == "initContainers" && !isNative(&c.Container) && !ends(c.Container, pod) {
		tr.warn("init-waits", fmt.Sprintf("every pod waits until the container %s ends; a sidecar needs restartPolicy: Always", c.Name), c.list, c.Name)
	}
	if s.Name == samples.Job && c.list == "containers" && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		tr.warn("job-never-finishes", fmt.Sprintf("the container %s keeps running when the Job's work is done, so the Job never finishes; make it a native sidecar (spec.initContainers, restartPolicy: Always), or keep it from Jobs by a matchCondition", c.Name), c.list, c.Name)
	}
}

// ends reports whether an init container looks like one that ends: it opens no port, and it has a command, shares
// a volume with another container, or may configure the pod's network.
func ends(c corev1.Container, pod *corev1.Pod) bool {
	if len(c.Ports) > 0 {
		return false
	}
	if len(c.Command) > 0 || c.SecurityContext != nil && c.SecurityContext.Capabilities != nil && len(c.SecurityContext.Capabilities.Add) > 0 {
		return true
	}
	mounts := sets.Set[string]{}
	for _, m := range c.VolumeMounts {
		mounts.Insert(m.Name)
	}
	return slices.ContainsFunc(containersOf(pod), func(other containerIn) bool {
		return other.Name != c.Name && slices.ContainsFunc(other.VolumeMounts, func(m corev1.VolumeMount) bool { return mounts.Has(m.Name) })
	})
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
func (tr *trial) order(before, after *corev1.Pod, there sets.Set[string], f *fragment.Node) {
	if first := after.Spec.Containers; len(first) > 0 && !there.Has(first[0].Name) && after.Annotations["kubectl.kubernetes.io/default-container"] == "" {
		tr.warn("default-container", fmt.Sprintf("the container %s comes before the pod's own containers, so kubectl logs and exec use it by default; remove $position, or set the annotation kubectl.kubernetes.io/default-container", first[0].Name), "containers", first[0].Name)
	}
	if len(before.Spec.InitContainers) > 0 {
		extends := false
		for _, it := range f.Field("spec", "initContainers").List() {
			extends = extends || there.Has(strings.TrimPrefix(it.Key, "name="))
		}
		own := slices.IndexFunc(after.Spec.InitContainers, func(c corev1.Container) bool { return there.Has(c.Name) })
		for i := range after.Spec.InitContainers {
			if c := &after.Spec.InitContainers[i]; extends && i > own && !there.Has(c.Name) && isNative(c) {
				tr.warn("init-order", fmt.Sprintf("the sidecar %s starts after the pod's init containers, which the template extends too: they run without it; put it first ($position: First), or extend only App", c.Name), "initContainers", c.Name)
			}
		}
	}
	if c := after.Spec.InitContainers; len(c) > 0 && !there.Has(c[0].Name) && isNative(&c[0]) && len(before.Spec.InitContainers) > 0 {
		tr.placedFirst(c[0].Name)
	}
}

// placedFirst notes a native sidecar that stands first, and warns if another template
// puts one there, too.
func (tr *trial) placedFirst(container string) {
	own, order := name{tr.result.Scope, tr.template.Name()}, tr.template.Order()
	for _, other := range tr.first {
		if other.name == own {
			return
		}
		if other.scope == own.scope && other.order == order {
			tr.warn("same-place", fmt.Sprintf("this template and %s (%s) both put a sidecar first and have the order %d, so that their names decide which starts first; give them different values of spec.order", other.name.name, other.source, order), "initContainers", container)
		}
	}
	tr.linter.first = append(tr.linter.first, placedFirst{name: own, source: tr.result.Source, order: order})
}

package lint

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/samples"
)

// podField is a field of a pod by which its author can weaken a sidecar.
type podField struct {
	path  string
	value any
	// own reports whether a container's security context takes precedence over the field. It is nil for a field that
	// containers do not have.
	own func(c corev1.SecurityContext) bool
}

// podFields are tried with required templates.
var podFields = []podField{
	{path: "hostPID", value: true},
	{path: "hostIPC", value: true},
	{path: "shareProcessNamespace", value: true},
	{path: "hostUsers", value: false},
	{path: "hostAliases", value: []any{map[string]any{"ip": "192.0.2.1", "hostnames": []any{"example.com"}}}},
	{path: "dnsPolicy", value: "None"},
	{path: "terminationGracePeriodSeconds", value: json.Number("0")},
	{path: "activeDeadlineSeconds", value: json.Number("1")},
	{path: "securityContext.runAsUser", value: json.Number("4711"), own: func(c corev1.SecurityContext) bool { return c.RunAsUser != nil }},
	{path: "securityContext.seLinuxOptions", value: map[string]any{"type": "spc_t"}, own: func(c corev1.SecurityContext) bool { return c.SELinuxOptions != nil }},
	{path: "securityContext.appArmorProfile", value: map[string]any{"type": "Unconfined"}, own: func(c corev1.SecurityContext) bool { return c.AppArmorProfile != nil }},
	{path: "securityContext.seccompProfile", value: map[string]any{"type": "Unconfined"}, own: func(c corev1.SecurityContext) bool { return c.SeccompProfile != nil }},
}

// openFields warns, in one finding, of the pod fields that a required template leaves to the pod's author.
func (tr *trial) openFields() {
	if !tr.template.Spec().Required {
		return
	}
	for _, s := range samples.Bundled() {
		merged, ok := tr.merged(s)
		if !ok {
			continue
		}
		if len(containerNames(merged)) == len(containerNames(s.Pod)) {
			return // there is no sidecar
		}
		var open []string
		for _, f := range podFields {
			if tr.isOpen(s, f) {
				open = append(open, "spec."+f.path)
			}
		}
		if len(open) > 0 {
			path, line := templates.Place(tr.document.Document, "spec", "required")
			tr.addAt("open-fields", Warning, path, line, fmt.Sprintf("a pod's author can weaken the sidecar by %s: refuse these by spec.validations, as examples/cookbook/a-required-sidecar.yaml does, or set them in the sidecar", strings.Join(open, ", ")))
		}
		return
	}
}

// isOpen reports whether a sample with the value in the field is admitted with it, and a sidecar takes it over.
func (tr *trial) isOpen(s samples.Sample, f podField) bool {
	s.Pod = runtime.DeepCopyJSON(s.Pod)
	steps := append([]string{"spec"}, strings.Split(f.path, ".")...)
	if err := unstructured.SetNestedField(s.Pod, f.value, steps...); err != nil {
		return false
	}
	before := containerNames(s.Pod)
	merged, ok := tr.merged(s)
	if !ok {
		return false
	}
	pod, err := workload.Decode[corev1.Pod](merged)
	if err != nil {
		return false
	}
	if _, there, _ := unstructured.NestedFieldNoCopy(merged, steps...); !there {
		return false
	}
	if f.own == nil {
		return true
	}
	for _, c := range containersOf(pod) {
		if !before[c.Name] && (c.SecurityContext == nil || !f.own(*c.SecurityContext)) {
			return true
		}
	}
	return false
}

// merged returns the pod that a sample becomes. It reports false if the sample does not get the template.
func (tr *trial) merged(s samples.Sample) (map[string]any, bool) {
	if tr.template.OtherSystem(s.Pod) != "" {
		return nil, false
	}
	rendered, err := tr.template.RenderExample(templates.Input{Pod: s.Pod, Namespace: s.Namespace}, false)
	if err != nil || exclusion(rendered) != "" {
		return nil, false
	}
	merged, err := injector.MergeAlone(tr.template, s.Pod, rendered)
	return merged, err == nil
}

// containerNames returns the names of a pod's containers.
func containerNames(pod map[string]any) map[string]bool {
	names := map[string]bool{}
	if decoded, err := workload.Decode[corev1.Pod](pod); err == nil {
		for _, c := range containersOf(decoded) {
			names[c.Name] = true
		}
	}
	return names
}

package templates

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// systemLabel is the label of nodes with their operating system.
const systemLabel = "kubernetes.io/os"

// SystemOf returns the operating system of a pod, and the field that has it: spec.os.name, else the node
// selector kubernetes.io/os, else linux without a field.
func SystemOf(pod map[string]any) (system v1alpha1.OperatingSystem, field string) {
	spec, _ := pod["spec"].(map[string]any)
	if own, _ := spec["os"].(map[string]any); own != nil {
		if name, _ := own["name"].(string); name != "" {
			return v1alpha1.OperatingSystem(name), "spec.os.name"
		}
	}
	selector, _ := spec["nodeSelector"].(map[string]any)
	if name, _ := selector[systemLabel].(string); name != "" {
		return v1alpha1.OperatingSystem(name), "spec.nodeSelector[" + systemLabel + "]"
	}
	return v1alpha1.Linux, ""
}

// OtherSystem returns the reason why the template is not for a pod's operating system, "" if it is.
func (t *Template) OtherSystem(pod map[string]any) string {
	system, field := SystemOf(pod)
	if slices.Contains(t.spec.OS, system) {
		return ""
	}
	names := make([]string, len(t.spec.OS))
	for i, name := range t.spec.OS {
		names[i] = string(name)
	}
	return fmt.Sprintf("the pod is for %s (%s), and the template for %s (spec.os of the template)",
		show.Value(string(system)), cmp.Or(field, "neither spec.os.name nor a node selector "+systemLabel+" says another"), strings.Join(names, " and "))
}

package admissionpolicy

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// except has the policy spare new pods that an exception of the template lets go without it, and
// returns the end of the expressions that do. A policy has no clock, and needs none: API servers set
// creationTimestamp before they evaluate validating policies (k8s.io/apiserver,
// registry/rest.FillObjectMetaSystemFields), whatever the pod says. It has whole seconds, rounded
// down, so a pod that is created before the end is excepted. Each exception is a variable of its own, because
// API servers bound the length of an expression.
func (f *Floor) except(exceptions []v1alpha1.Exception) (spared string) {
	if len(exceptions) == 0 {
		return ""
	}
	any := make([]string, len(exceptions))
	for i, e := range exceptions {
		all := []string{fmt.Sprintf("object.metadata.?creationTimestamp.optMap(t, timestamp(t) < timestamp(%s)).orValue(false)", literal(e.Until))}
		if r := requirements(e.NamespaceSelector); len(r) > 0 {
			all = append(all, selected("namespaceObject.metadata.?labels", r))
		}
		if r := requirements(e.PodSelector); len(r) > 0 {
			all = append(all, selected("object.metadata.?labels", r))
		}
		name := fmt.Sprintf("excepted%d", i)
		f.Policy.Spec.Variables = append(f.Policy.Spec.Variables, admissionv1.Variable{Name: name, Expression: strings.Join(all, " && ")})
		any[i] = "variables." + name
	}
	f.Policy.Spec.Variables = append(f.Policy.Spec.Variables, admissionv1.Variable{Name: "excepted", Expression: strings.Join(any, " || ")})
	return " || variables.excepted"
}

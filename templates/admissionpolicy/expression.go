package admissionpolicy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
)

// literal returns a text or a list of texts as CEL has it: JSON's is the same.
func literal(v any) string {
	text, _ := json.Marshal(v) // of texts
	return string(text)
}

// mostContainers is how many containers of a kind are gone through. It takes an API server the
// square of their number: 4 s for 20,000.
const mostContainers = 500

// many is whether a pod has more than that.
var many = admissionv1.Variable{
	Name:       "many",
	Expression: fmt.Sprintf("size(object.spec.?initContainers.orValue([])) > %[1]d || size(object.spec.?containers.orValue([])) > %[1]d", mostContainers),
}

// few refuses new pods with more, but for those that are spared. Updates neither add containers nor
// take any away.
func few(template, spared string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: `request.operation != "CREATE" || !variables.many` + spared,
		Message: fmt.Sprintf("the pod has more than %d containers or init containers, too many to look among them for those of the template %s, which is required in this namespace: "+
			"divide it into several pods", mostContainers, template),
	}
}

// created demands a sidecar of a new pod, but for those that are spared.
func (s sidecar) created(template, spared string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: fmt.Sprintf(`request.operation != "CREATE" || variables.many%s || object.spec.?%s.orValue([]).exists(c, c.name == %s && %s)`, spared, s.list, literal(s.name), s.hasImage()),
		Message: fmt.Sprintf("the template %s is required in this namespace, and the pod lacks its %s %s with an image that it allows: %s. Pillion adds it when it is called for the pod: "+
			"create the pod again, and if it is still refused, ask the cluster's admin, who finds the cause with: pillion check", template, s.kind(), s.name, s.allowed()),
	}
}

// updated keeps the image of a sidecar in a running pod. The names of containers are unique, so
// the inner loop runs once.
func (s sidecar) updated(template string) admissionv1.Validation {
	list := fmt.Sprintf("?%s.orValue([])", s.list)
	return admissionv1.Validation{
		Expression: fmt.Sprintf(`request.operation != "UPDATE" || variables.many || object.spec.%s.all(c, c.name != %s || %s || oldObject.spec.%s.exists(o, o.name == c.name && o.?image == c.?image))`, list, literal(s.name), s.hasImage(), list),
		Message: fmt.Sprintf("the %s %s belongs to the template %s, which is required in this namespace, and would get an image that the template does not allow. It allows: %s. "+
			"Leave the image as it is: a new pod gets the one that the template has now", s.kind(), s.name, template, s.allowed()),
	}
}

// connected refuses exec and attach into the sidecars. An API server that is given no container enters the only
// one of spec.containers. The type of object is not that of the other rules, a pod.
func connected(template string, closed []sidecar) admissionv1.Validation {
	names := namesOf(closed)
	entered := names
	if slices.ContainsFunc(closed, func(s sidecar) bool { return s.list == "containers" }) {
		entered = append([]string{""}, names...)
	}
	return admissionv1.Validation{
		Expression: fmt.Sprintf(`request.operation != "CONNECT" || !(dyn(object).?container.orValue("") in %s)`, literal(entered)),
		Message: fmt.Sprintf("no exec or attach into the containers of the template %s, which is required in this namespace: %s. Name another container with kubectl's flag -c, "+
			"or read its log with kubectl logs. The template allows exec and attach with spec.verify.allow.exec", template, strings.Join(names, ", ")),
	}
}

func namesOf(sidecars []sidecar) []string {
	names := make([]string, len(sidecars))
	for i, s := range sidecars {
		names[i] = s.name
	}
	return names
}

// hasImage is whether the container c has an image that is allowed.
func (s sidecar) hasImage() string {
	var any []string
	if len(s.images) > 0 {
		any = append(any, `c.?image.orValue("") in `+literal(s.images))
	}
	if len(s.patterns) > 0 {
		patterns := make([]string, len(s.patterns))
		for i, p := range s.patterns {
			patterns[i] = templates.ImageExpression(p)
		}
		any = append(any, `c.?image.orValue("").matches(`+literal("^(?:"+strings.Join(patterns, "|")+")$")+`)`)
	}
	return "(" + strings.Join(any, " || ") + ")"
}

// requirements returns the labels and expressions of a selector as a list.
func requirements(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if s == nil {
		return nil
	}
	var all []metav1.LabelSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]}})
	}
	return append(all, s.MatchExpressions...)
}

// conditions say which requests the policy is about. A pod's labels count when it is created:
// later its author can change them, and the API server would look at the pod as it would become.
func conditions(pods []metav1.LabelSelectorRequirement) []admissionv1.MatchCondition {
	all := []admissionv1.MatchCondition{{
		Name:       "not-a-static-pods-mirror",
		Expression: `request.operation != "CREATE" || !object.metadata.?annotations[?"kubernetes.io/config.mirror"].hasValue() || !("system:nodes" in request.userInfo.?groups.orValue([]))`,
	}}
	if len(pods) == 0 {
		return all
	}
	return append(all, admissionv1.MatchCondition{Name: "selected-when-created", Expression: `request.operation != "CREATE" || ` + selected("object.metadata.?labels", pods)})
}

// selected is whether labels meet requirements. There is at least one.
func selected(labels string, requirements []metav1.LabelSelectorRequirement) string {
	all := make([]string, len(requirements))
	for i, r := range requirements {
		label := fmt.Sprintf("%s[?%s]", labels, literal(r.Key))
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			all[i] = fmt.Sprintf("%s.optMap(v, v in %s).orValue(false)", label, literal(r.Values))
		case metav1.LabelSelectorOpNotIn:
			all[i] = fmt.Sprintf("!%s.optMap(v, v in %s).orValue(false)", label, literal(r.Values))
		case metav1.LabelSelectorOpExists:
			all[i] = label + ".hasValue()"
		case metav1.LabelSelectorOpDoesNotExist:
			all[i] = "!" + label + ".hasValue()"
		}
	}
	return strings.Join(all, " && ")
}

package admissionpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Options are the settings of the server that a policy depends on.
type Options struct {
	// Excluded are the namespaces that Pillion keeps out of, its own among them.
	Excluded []string
}

// Floor is a policy that API servers evaluate without Pillion, with its binding.
type Floor struct {
	Policy  admissionv1.ValidatingAdmissionPolicy
	Binding admissionv1.ValidatingAdmissionPolicyBinding
	// Refuses lists the requests that the policy refuses, Passes the changes that it ignores. Each item is part
	// of a list, without a full stop.
	Refuses, Passes []string
}

// Name returns the name of a template's policy and of its binding.
func Name(template string) string { return "required-" + template + "." + v1alpha1.Group }

// Of returns the floor of a template, which accepts the images of its canaries, too. It returns an
// error if the template is not required, or if no policy can hold pods to it; the error gives the reason
// and the change that helps.
func Of(ctx context.Context, t *templates.Template, o Options, canaries ...templates.Canary) (Floor, error) {
	var versions []*templates.Template
	for _, c := range canaries {
		// A suspended canary counts: its pods run on, and it may go on.
		if c.Version != nil {
			versions = append(versions, c.Version)
		}
	}
	sidecars, err := sidecarsOf(t, versions...)
	for _, version := range append([]*templates.Template{t}, versions...) {
		if err == nil {
			err = refusesAll(ctx, version, sidecars)
		}
	}
	if err != nil {
		return Floor{}, fmt.Errorf("template %s: %w", t.Name(), err)
	}
	excluded := slices.Compact(slices.Sorted(slices.Values(o.Excluded)))
	f := newFloor(t, excluded)
	f.addSidecars(t, sidecars)
	f.addLimits(t, excluded)
	if err := withinLimits(&f.Policy); err != nil {
		return Floor{}, fmt.Errorf("template %s: %w", t.Name(), err)
	}
	return f, nil
}

// newFloor returns the policy with the template's selectors and without validations, and its binding.
func newFloor(t *templates.Template, excluded []string) Floor {
	spec, name := t.Spec(), Name(t.Name())
	var namespaces, pods *metav1.LabelSelector
	if spec.Match != nil {
		namespaces, pods = spec.Match.NamespaceSelector, spec.Match.PodSelector
	}
	selector := []metav1.LabelSelectorRequirement{
		{Key: v1alpha1.InjectionLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1alpha1.InjectionDisabled}},
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: excluded},
	}
	return Floor{
		Policy: admissionv1.ValidatingAdmissionPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RequiredTemplateLabel: t.Name()}},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: new(admissionv1.Fail),
				MatchConstraints: &admissionv1.MatchResources{
					MatchPolicy:       new(admissionv1.Equivalent),
					NamespaceSelector: &metav1.LabelSelector{MatchExpressions: append(selector, requirements(namespaces)...)},
					ObjectSelector:    &metav1.LabelSelector{},
					// An image changes by the resource itself only: resize, ephemeralcontainers and
					// status leave the images of containers as they are.
					ResourceRules: []admissionv1.NamedRuleWithOperations{rule([]string{"pods"}, admissionv1.Create, admissionv1.Update)},
				},
				MatchConditions: conditions(requirements(pods)),
				Variables:       []admissionv1.Variable{many},
			},
		},
		Binding: admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RequiredTemplateLabel: t.Name()}},
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		},
	}
}

// addSidecars adds the validations of the template's sidecars, with the sentences about them.
func (f *Floor) addSidecars(t *templates.Template, sidecars []sidecar) {
	spared := f.except(t.Spec().Exceptions)
	f.add(few(t.Name(), spared))
	for _, s := range sidecars {
		if s.always {
			f.Refuses = append(f.Refuses, fmt.Sprintf("a new pod without the %s %s, or with another image in it than %s", s.kind(), s.name, s.allowed()))
			f.add(s.created(t.Name(), spared))
		} else {
			f.Passes = append(f.Passes, fmt.Sprintf("new pods without the %s %s, which the template renders under a condition", s.kind(), s.name))
		}
	}
	for _, s := range sidecars {
		f.Refuses = append(f.Refuses, fmt.Sprintf("another image in the %s %s of a running pod, whatever its labels are now, than %s", s.kind(), s.name, s.allowed()))
		f.add(s.updated(t.Name()))
		if s.open {
			f.Refuses = append(f.Refuses, fmt.Sprintf("an image of the %s %s that an annotation or an expression gives, and that spec.verify.images does not allow, though Pillion injects it", s.kind(), s.name))
		}
	}
	if closed := slices.DeleteFunc(slices.Clone(sidecars), func(s sidecar) bool { return s.exec }); len(closed) > 0 {
		constraints := f.Policy.Spec.MatchConstraints
		constraints.ResourceRules = append(constraints.ResourceRules, rule([]string{"pods/exec", "pods/attach"}, admissionv1.Connect))
		f.Refuses = append(f.Refuses, "exec and attach into containers of these names in any pod of these namespaces, whatever its labels are: "+strings.Join(namesOf(closed), ", "))
		f.add(connected(t.Name(), closed))
	}
}

// addLimits adds the sentences about the other limits of the policy.
func (f *Floor) addLimits(t *templates.Template, excluded []string) {
	f.Refuses = append(f.Refuses, fmt.Sprintf("a new pod with more than %d containers or init containers", mostContainers))
	for _, e := range t.Exceptions() {
		f.Passes = append(f.Passes, fmt.Sprintf("new pods that the exception %s selects, until %s: %s", e.Name, e.Until.UTC().Format(time.RFC3339), e.Reason))
	}
	f.Passes = append(f.Passes,
		"the other fields of these containers, such as their commands, variables and mounts",
		"the template's changes of other containers, volumes and metadata, and its validations",
		fmt.Sprintf("namespaces with the label %s=%s, and the namespaces %s", v1alpha1.InjectionLabel, v1alpha1.InjectionDisabled, strings.Join(excluded, ", ")),
	)
}

func rule(resources []string, operations ...admissionv1.OperationType) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources, Scope: new(admissionv1.NamespacedScope)},
	}}
}

func (f *Floor) add(v admissionv1.Validation) {
	v.Reason = new(metav1.StatusReasonForbidden)
	f.Policy.Spec.Validations = append(f.Policy.Spec.Validations, v)
}

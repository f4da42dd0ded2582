package check

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/admissionpolicy"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

var (
	policyResource  = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	bindingResource = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
)

// requiredPolicies compares the admission policies of required templates with the output of 'pillion
// policy'. A required template need not have one.
func requiredPolicies(ctx context.Context, in *installation) ([]Finding, error) {
	set, err := in.templates()
	if err != nil {
		return nil, err
	}
	policies, err := inspect.List[admissionv1.ValidatingAdmissionPolicy](ctx, in.cluster, policyResource, "", metav1.ListOptions{LabelSelector: v1alpha1.RequiredTemplateLabel})
	if err != nil {
		return nil, err
	}
	bindings, err := inspect.List[admissionv1.ValidatingAdmissionPolicyBinding](ctx, in.cluster, bindingResource, "", metav1.ListOptions{LabelSelector: v1alpha1.RequiredTemplateLabel})
	if err != nil {
		return nil, err
	}
	lost := in.lostTemplates(set)
	var found []Finding
	for _, there := range policies {
		template, ours := there.Labels[v1alpha1.RequiredTemplateLabel]
		if !ours || slices.Contains(lost, template) {
			continue // a lost template is still in force
		}
		found = append(found, in.requiredPolicy(ctx, set, template, there, bindings)...)
	}
	return found, nil
}

// requiredPolicy checks the admission policy of a template.
func (in *installation) requiredPolicy(ctx context.Context, set *templates.Set, template string, there admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding) []Finding {
	entry, ok := set.Get(template)
	if !ok {
		return []Finding{failed(fmt.Sprintf("the admission policy %s is for the template %s, which does not exist, and refuses pods that lack it. Apply the template again, or delete the policy and its binding", there.Name, template), applyTemplates)}
	}
	if entry.Template == nil {
		return nil // the check templates reports the mistake
	}
	want, err := admissionpolicy.Of(ctx, entry.Template, admissionpolicy.Options{Excluded: in.release.Namespaces.Excluded}, set.CanariesOf(template)...)
	if err != nil {
		return []Finding{failed(fmt.Sprintf("there should be no admission policy %s: %v", there.Name, err), "kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found "+there.Name)}
	}
	print := in.pillion("pillion policy " + template + " --cluster")
	bound := slices.ContainsFunc(bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
		return equality.Semantic.DeepEqual(b.Spec, want.Binding.Spec)
	})
	switch {
	case !equality.Semantic.DeepEqual(there.Spec, want.Policy.Spec): // kubectl apply would not remove items that were added to lists
		return []Finding{failed(fmt.Sprintf("the admission policy %s is not as the template %s is now", there.Name, template), print+" | kubectl replace -f -")}
	case !bound:
		return []Finding{warning(fmt.Sprintf("the admission policy %s has no binding for all pods that the template %s selects, so it is not in force for them", there.Name, template), print+" | kubectl apply -f -")}
	}
	return nil
}

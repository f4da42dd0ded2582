package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// judge decides about one pod.
type judge struct {
	namespace, object labels.Set
	attributes        admission.Attributes
	versioned         *admission.VersionedAttributes
	compiler          plugincel.ConditionCompiler
}

// serviceAccount is the one of a pod that names none, as the admission plugin of that name
// fills it in before the first phase.
const serviceAccount = "default"

// newJudge takes a pod as its author wrote it, and judges it with the API's defaults, as
// webhooks and policies see it.
func newJudge(ns templates.Namespace, pod map[string]any) (*judge, error) {
	data, err := json.Marshal(podschema.WithDefaults(pod))
	if err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	typed := &corev1.Pod{}
	if err := json.Unmarshal(data, typed); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	typed.Namespace = ns.Name
	if s := &typed.Spec; s.ServiceAccountName == "" {
		s.ServiceAccountName = cmp.Or(s.DeprecatedServiceAccount, serviceAccount)
		s.DeprecatedServiceAccount = s.ServiceAccountName
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	typed.SetGroupVersionKind(kind)
	attributes := admission.NewAttributesRecord(typed, nil, kind, ns.Name, typed.Name, corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	return &judge{
		namespace: namespaceLabels(ns), object: typed.Labels, attributes: attributes,
		versioned: &admission.VersionedAttributes{Attributes: attributes, VersionedObject: admission.NewLazyObject(typed), VersionedKind: kind},
		compiler:  plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
	}, nil
}

// webhook says whether the pod meets a webhook.
func (j *judge) webhook(w check.Webhook) (Meets, string) {
	if !j.rules(w.Rules) {
		return No, "its rules are not about the creation of pods"
	}
	if no := j.selected(w.NamespaceSelector, w.ObjectSelector); no != "" {
		return No, no
	}
	return j.conditions(w.MatchConditions, w.FailurePolicy)
}

// policy says whether the pod meets a policy: its constraints, one of its bindings, and its
// conditions. Actions are those of the bindings that it meets. Unread: the bindings could not be read.
func (j *judge) policy(p Policy, bindings []Binding, unread bool) (m Meets, why string, actions []string) {
	if p.Spec.MatchConstraints == nil {
		return No, "it has no matchConstraints", nil
	}
	if no := j.resources(p.Spec.MatchConstraints); no != "" {
		return No, no, nil
	}
	var names []string
	for _, b := range bindings {
		if r := b.Spec.MatchResources; r == nil || j.resources(r) == "" {
			names, actions = append(names, b.Name), append(actions, b.Spec.ValidationActions...)
		}
	}
	switch {
	case unread:
	case len(bindings) == 0:
		return No, "no binding names it", nil
	case len(names) == 0:
		return No, "none of its bindings selects the pod", nil
	}
	m, why = j.conditions(p.Spec.MatchConditions, p.Spec.FailurePolicy)
	switch {
	case m == No:
	case unread:
		m, why = Depends, "its bindings cannot be read; "+why
	case p.Spec.ParamKind != nil:
		m, why = Depends, fmt.Sprintf("bound by %s; its parameters (%s) are not read, and where there are none it may not apply; %s", strings.Join(names, ", "), p.Spec.ParamKind.Kind, why)
	default:
		why = "bound by " + strings.Join(names, ", ") + "; " + why
	}
	return m, why, actions
}

// resources says why a policy or a binding is not about the pod, "" if it is.
func (j *judge) resources(r *admissionv1.MatchResources) string {
	if no := j.selected(r.NamespaceSelector, r.ObjectSelector); no != "" {
		return no
	}
	if j.rules(j.named(r.ExcludeResourceRules)) {
		return "its excludeResourceRules take pods out"
	}
	if len(r.ResourceRules) > 0 && !j.rules(j.named(r.ResourceRules)) {
		return "its rules are not about the creation of pods"
	}
	return ""
}

// named returns the rules that are about the pod's name, or about all.
func (j *judge) named(all []admissionv1.NamedRuleWithOperations) []admissionv1.RuleWithOperations {
	var mine []admissionv1.RuleWithOperations
	for _, r := range all {
		if len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, j.attributes.GetName()) {
			mine = append(mine, r.RuleWithOperations)
		}
	}
	return mine
}

func (j *judge) rules(all []admissionv1.RuleWithOperations) bool {
	for _, r := range all {
		matcher := rules.Matcher{Rule: r, Attr: j.attributes}
		if matcher.Matches() {
			return true
		}
	}
	return false
}

// selected says which selector leaves the pod out, "" if both take it in. A selector that
// cannot be read takes nothing in: the API server would not have stored it.
func (j *judge) selected(namespaces, objects *metav1.LabelSelector) string {
	for _, s := range []struct {
		selector *metav1.LabelSelector
		labels   labels.Set
		what     string
	}{{namespaces, j.namespace, "namespaceSelector does not take the namespace in"}, {objects, j.object, "objectSelector does not take the pod in"}} {
		if s.selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(s.selector)
		if err != nil || !selector.Matches(s.labels) {
			return fmt.Sprintf("its %s (%s)", s.what, metav1.FormatLabelSelector(s.selector))
		}
	}
	return ""
}

// unknown are names in expressions whose values are not known here.
var unknown = regexp.MustCompile(`\b(authorizer|params|userInfo)\b`)

// conditions evaluates matchConditions as API servers do.
func (j *judge) conditions(all []admissionv1.MatchCondition, failure *admissionv1.FailurePolicyType) (Meets, string) {
	var known []plugincel.ExpressionAccessor
	var open []string
	for _, c := range all {
		if name := unknown.FindString(c.Expression); name != "" {
			open = append(open, fmt.Sprintf("its matchCondition %q depends on %s", c.Name, name))
			continue
		}
		condition := matchconditions.MatchCondition(c)
		known = append(known, &condition)
	}
	if len(known) > 0 {
		evaluator := j.compiler.CompileCondition(known, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
		result := matchconditions.NewMatcher(evaluator, failure, "", "", "").Match(context.Background(), j.versioned, nil, nil)
		switch {
		case result.Error != nil && len(open) == 0:
			return Yes, fmt.Sprintf("its matchConditions fail, and failurePolicy Fail refuses the pod then: %v", result.Error)
		case result.Error != nil: // one of the open conditions may be false, and then it does not matter
		case !result.Matches && result.FailedConditionName == "":
			return No, "a matchCondition fails, and failurePolicy Ignore passes over it then"
		case !result.Matches:
			return No, fmt.Sprintf("its matchCondition %q is false", result.FailedConditionName)
		}
	}
	if len(open) > 0 {
		return Depends, strings.Join(open, "; ")
	}
	if len(all) > 0 {
		return Yes, "its rules, selectors and matchConditions take the pod in"
	}
	return Yes, "its rules and selectors take the pod in"
}

package admissionpolicy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
)

// evaluator judges pods as API servers do: with their compiler and their limits of cost.
type evaluator struct {
	floor             Floor
	conditions, rules plugincel.ConditionEvaluator
}

func newEvaluator(t testing.TB, f Floor) *evaluator {
	t.Helper()
	environments := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiler, err := plugincel.NewCompositedCompiler(environments)
	errtest.ExpectNone(t, err)
	for _, v := range f.Policy.Spec.Variables {
		if result := compiler.CompileAndStoreVariable(&variable{v}, plugincel.OptionalVariableDeclarations{}, environment.NewExpressions); result.Error != nil {
			t.Fatalf("%s: %v", v.Expression, result.Error)
		}
	}
	var conditions, rules []plugincel.ExpressionAccessor
	for _, c := range f.Policy.Spec.MatchConditions {
		condition := matchconditions.MatchCondition(c)
		conditions = append(conditions, &condition)
	}
	for _, v := range f.Policy.Spec.Validations {
		rules = append(rules, &matchconditions.MatchCondition{Name: v.Expression, Expression: v.Expression})
		if v.Message == "" || strings.ContainsAny(v.Message, "\n\r") {
			t.Errorf("API servers refuse the message %q", v.Message)
		}
	}
	for _, a := range append(conditions, rules...) {
		if result := compiler.CompileCELExpression(a, plugincel.OptionalVariableDeclarations{}, environment.NewExpressions); result.Error != nil {
			t.Fatalf("%s: %v", a.GetExpression(), result.Error)
		}
	}
	return &evaluator{
		floor:      f,
		conditions: plugincel.NewConditionCompiler(environments).CompileCondition(conditions, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions),
		rules:      compiler.CompileCondition(rules, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions),
	}
}

// variable is one of a policy, for the compiler.
type variable struct {
	admissionregistrationv1.Variable
}

func (v *variable) GetExpression() string    { return v.Expression }
func (v *variable) GetName() string          { return v.Name }
func (v *variable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

// request is what an API server asks of a policy.
type request struct {
	pod, old map[string]any
	// options are those of exec or attach, nil for a pod.
	options runtime.Object
	groups  []string
	// namespace has the labels of the pod's.
	namespace map[string]string
}

// judge returns the message by which the API server refuses the request, "" if it lets it
// pass, and what the evaluation costs.
func (e *evaluator) judge(t testing.TB, r request) (refusal string, cost int64) {
	t.Helper()
	kind, operation, subresource := corev1.SchemeGroupVersion.WithKind("Pod"), admission.Create, ""
	typed, old := runtime.Object(e.pod(t, r.pod)), runtime.Object(nil)
	if r.options != nil {
		kind, operation, subresource, typed = r.options.GetObjectKind().GroupVersionKind(), admission.Connect, "exec", r.options
	}
	if r.old != nil {
		operation, old = admission.Update, e.pod(t, r.old)
	}
	attributes := admission.NewAttributesRecord(typed, old, kind, "shop", "web", corev1.SchemeGroupVersion.WithResource("pods"), subresource, operation, nil, false, &user.DefaultInfo{Name: "somebody", Groups: r.groups})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: admission.NewLazyObject(typed), VersionedKind: kind}
	if old != nil {
		versioned.VersionedOldObject = admission.NewLazyObject(old)
	}
	asked := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, metav1.GroupVersionKind(kind))
	budget := int64(celconfig.RuntimeCELCostBudgetMatchConditions)
	results, remaining, err := e.conditions.ForInput(t.Context(), versioned, asked, plugincel.OptionalVariableBindings{}, nil, budget)
	if err != nil {
		return "the conditions: " + err.Error(), budget
	}
	cost = budget - remaining
	for _, result := range results {
		if result.Error != nil {
			return "a condition: " + result.Error.Error(), cost
		}
		if result.EvalResult.Value() != true {
			return "", cost
		}
	}
	budget = celconfig.RuntimeCELCostBudget
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: r.namespace}}
	results, remaining, err = e.rules.ForInput(t.Context(), versioned, asked, plugincel.OptionalVariableBindings{}, namespace, budget)
	if err != nil {
		return "the validations: " + err.Error(), budget
	}
	cost += budget - remaining
	for i, result := range results {
		if result.Error != nil {
			return "a validation: " + result.Error.Error(), cost
		}
		if result.EvalResult.Value() != true {
			return e.floor.Policy.Spec.Validations[i].Message, cost
		}
	}
	return "", cost
}

func (e *evaluator) pod(t testing.TB, pod map[string]any) *corev1.Pod {
	t.Helper()
	data, err := json.Marshal(pod)
	errtest.ExpectNone(t, err)
	typed := &corev1.Pod{}
	errtest.ExpectNone(t, json.Unmarshal(data, typed))
	typed.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return typed
}

// about reports whether the policy is about the pods of a namespace with these labels.
func (e *evaluator) about(t testing.TB, namespace map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(e.floor.Policy.Spec.MatchConstraints.NamespaceSelector)
	errtest.ExpectNone(t, err)
	return selector.Matches(labels.Set(namespace))
}

var options = Options{Excluded: []string{"kube-system", "kube-node-lease", "pillion-system"}}

// compiled compiles a template by its spec.
func compiled(t testing.TB, name, spec string, values map[string]any) *templates.Template {
	t.Helper()
	text := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	tmpl, _, err := templates.Compile([]byte(text), templates.Options{Values: values})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tmpl
}

func floorOf(t testing.TB, tmpl *templates.Template) Floor {
	t.Helper()
	f, err := Of(t.Context(), tmpl, options)
	errtest.ExpectNone(t, err)
	return f
}

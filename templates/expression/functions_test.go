package expression_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/param"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// evaluate gives an expression's value for a pod.
func evaluate(t *testing.T, source string, pod map[string]any) (any, error) {
	t.Helper()
	env, problems := environment(t)
	e := env.Compile(source, here)
	if e == nil {
		t.Fatalf("%s: %v", source, *problems)
	}
	return e.Value(env.Names().Run(t.Context(), &expression.Budget{}, pod, nil, map[string]any{"size": int64(3)}).Scope())
}

const busyPod = `{"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"n": "x"}}, "spec": {"overhead": {"cpu": "50m"},
	"initContainers": [{"name": "once", "resources": {"requests": {"cpu": "900m"}}}, {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
	"containers": [{"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "100Mi"}, "limits": {"cpu": "1"}}}, {"name": "two", "resources": {"limits": {"cpu": 0.5, "memory": 1048576}}}]}}`

func TestAmountsAreExactAndRoundedUp(t *testing.T) {
	pod := fragmenttest.Decode(t, busyPod)
	for source, want := range map[string]any{
		"scale('1', 0.2)":             "200m",
		"scale('1000m', 0.1)":         "100m",
		"scale('3m', 0.5)":            "2m",
		"scale('1', 1)":               "1",
		"scale('1n', 1)":              "1m",
		"scale('100Mi', 0.2)":         "20Mi",
		"scale('1Mi', 0.3)":           "314573", // 314572.8
		"scale('10M', 0.33)":          "3300k",
		"scale('1000001', 0.5)":       "500001",
		"scale(quantity('2Gi'), 1.5)": "3Gi",
		"scale(params.size, 0.1)":     "300m",
		"scale('500m', 0)":            "0",
		"[scale(requests(pod, 'cpu'), 0.2)].map(q, q.isLessThan(quantity('10m')) ? quantity('10m') : q)[0]": "190m",
		"requests(pod, 'cpu')":                                   "950m", // once alone: 900m, and the overhead
		"limits(pod, 'cpu')":                                     "1550m",
		"requests(pod, 'memory')":                                "101Mi",
		"requests(pod.spec.containers[0], 'memory')":             "100Mi",
		"requests(pod.spec.containers[1], 'cpu')":                "500m",
		"limits(pod.spec.containers[0], 'memory')":               "0",
		"requests(pod, 'example.com/gpu')":                       "0",
		"quantity('1000m')":                                      "1",
		"{'a': 'x', 'c': 'y'}.merge(pod.metadata.labels)":        map[string]any{"a": "1", "b": "2", "c": "y"},
		"pod.metadata.labels.merge({'a': 'x'})":                  map[string]any{"a": "x", "b": "2"},
		"pod.metadata.labels.merge(pod.metadata.annotations)":    map[string]any{"a": "1", "b": "2", "n": "x"},
		"pod.?none.labels.orValue({}).merge({'a': params.size})": map[string]any{"a": json.Number("3")},
		"base64.encode(b'hello')":                                "aGVsbG8=",
		"string(base64.decode('aGVsbG8='))":                      "hello",
	} {
		if got, err := evaluate(t, "dyn("+source+")", pod); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %v, %v; want %v", source, got, err, want)
		}
	}
}

func TestWhatIsNoAmountSaysWhatIsWanted(t *testing.T) {
	pod := fragmenttest.Decode(t, `{"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "many"}}}]}}`)
	for source, want := range map[string]string{
		"scale('lots', 0.5)":    `scale: must be an amount such as '500m' or '64Mi'; got "lots"`,
		"scale([1], 0.5)":       "scale: must be an amount such as '500m' or '64Mi'; got a value of the type list",
		"scale('1', -1)":        "the factor must be a number that is not negative; got -1",
		"scale('1', 1.0 / 0.0)": "is not finite",
		"scale('1', '2')":       "the factor must be a number; got a value of the type string",
		"scale('8Ei', 3)":       "is too large for an amount",
		"requests(pod, 'cpu')":  `requests: the pod has "many" of "cpu", which is not an amount`,
		"requests('a', 'cpu')":  "must be the pod or a container",
		"base64.decode('?')":    "illegal base64",
	} {
		if got, err := evaluate(t, source, pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, %v; want %s", source, got, err, want)
		}
	}
}

// The amounts of a pod are those that the scheduler counts for the pod as the API server has it.
func TestRequestsAreAsTheSchedulerCountsThem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		amounts := rapid.SampledFrom([]string{"", "1m", "250m", "1", "2500m"})
		list := func(of map[string]any, field, amount string) {
			if amount != "" {
				of[field] = map[string]any{"cpu": amount, "memory": "1Gi"}
			}
		}
		resources := func(name string) map[string]any {
			request, limit := amounts.Draw(rt, name+" requests"), amounts.Draw(rt, name+" limits")
			if request == "" { // the API's default
				request = limit
			}
			of := map[string]any{}
			list(of, "requests", request)
			list(of, "limits", limit)
			return of
		}
		spec := map[string]any{}
		for _, kind := range []string{"containers", "initContainers"} {
			var items []any
			for i := range rapid.IntRange(1, 4).Draw(rt, kind) {
				name := fmt.Sprint(kind, i)
				c := map[string]any{"name": name, "resources": resources(name)}
				if kind == "initContainers" && rapid.Bool().Draw(rt, name+" native") {
					c["restartPolicy"] = "Always"
				}
				items = append(items, c)
			}
			spec[kind] = items
		}
		if rapid.Bool().Draw(rt, "pod level") {
			whole := map[string]any{}
			list(whole, "requests", rapid.SampledFrom([]string{"1m", "9"}).Draw(rt, "pod requests"))
			list(whole, "limits", amounts.Draw(rt, "pod limits"))
			spec["resources"] = whole
		}
		if rapid.Bool().Draw(rt, "overhead") {
			spec["overhead"] = map[string]any{"cpu": "7m"}
		}
		text, err := json.Marshal(map[string]any{"spec": spec})
		errtest.ExpectNone(rt, err)
		var typed corev1.Pod
		errtest.ExpectNone(rt, json.Unmarshal(text, &typed))
		for function, want := range map[string]corev1.ResourceList{
			"requests": helpers.PodRequests(&typed, helpers.PodResourcesOptions{}), "limits": helpers.PodLimits(&typed, helpers.PodResourcesOptions{}),
		} {
			for _, name := range []corev1.ResourceName{"cpu", "memory"} {
				wanted := want[name]
				got, err := evaluate(t, fmt.Sprintf("%s(pod, '%s')", function, name), fragmenttest.Decode(t, string(text)))
				if err != nil || got != wanted.String() {
					rt.Fatalf("%s of %s: %v, %v; want %s, in %s", function, name, got, err, wanted.String(), text)
				}
			}
		}
	})
}

// What goes over a large map or pod costs as much as it is large, so it cannot be done often.
func TestFunctionsCostWhatTheyGoOver(t *testing.T) {
	containers := make([]any, 2000)
	for i := range containers {
		containers[i] = map[string]any{"name": fmt.Sprint(i)}
	}
	labels := map[string]any{}
	for i := range 2000 {
		labels[fmt.Sprint(i)] = "x"
	}
	pod := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": containers}}
	for _, source := range []string{
		"lists.range(1000).map(i, requests(pod, 'cpu')).size()", "lists.range(1000).map(i, pod.metadata.labels.merge(pod.metadata.labels)).size()",
		"lists.range(1000).map(i, base64.encode(bytes(toJson(pod)))).size()",
	} {
		_, err := evaluate(t, source, pod)
		expensive, ok := err.(*expression.Error)
		if !ok || !expensive.TooExpensive {
			t.Errorf("%s: %v; want the bound on costs", source, err)
		}
	}
}

var here = expression.Place{At: (*manifest.Path)(nil).Field("x"), Line: 7}

// environment returns an environment with one parameter, and the mistakes that it gathers.
func environment(t *testing.T) (*expression.Environment, *[]expression.Error) {
	t.Helper()
	var problems []expression.Error
	env, err := expression.NewEnvironment(expression.Template{
		Patterns:   &param.Patterns{},
		Parameters: []v1alpha1.Parameter{{Name: "size", Type: v1alpha1.Integer}},
		Problem: func(at expression.Place, message string) {
			problems = append(problems, expression.Error{Place: at, Message: message})
		},
		Warn: func(_ expression.Place, message string) { t.Errorf("warned: %s", message) },
	})
	errtest.ExpectNone(t, err)
	return env, &problems
}

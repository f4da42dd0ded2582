package expression

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubernetescel "k8s.io/apiserver/pkg/cel"
	helpers "k8s.io/component-helpers/resource"

	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// quantityFunctions are the functions of quantities. They accept a quantity, its text, or a number, because
// pods, parameters and expressions have all three. So their arguments are untyped, and another value is an
// error of the evaluation.
func quantityFunctions() []cel.EnvOption {
	ofResource := []*cel.Type{cel.DynType, cel.StringType}
	function := func(name, overload string, args []*cel.Type, do func(a, b ref.Val) (resource.Quantity, error)) cel.EnvOption {
		return cel.Function(name, cel.Overload(overload, args, kubernetescel.QuantityType, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			q, err := do(a, b)
			if err != nil {
				return types.WrapErr(fmt.Errorf("%s: %w", name, err))
			}
			return kubernetescel.Quantity{Quantity: &q}
		})))
	}
	return []cel.EnvOption{
		function("scale", "pillion_scale", []*cel.Type{cel.DynType, cel.DynType}, scale),
		function("requests", "pillion_requests", ofResource, func(of, name ref.Val) (resource.Quantity, error) { return effective(of, name, "requests") }),
		function("limits", "pillion_limits", ofResource, func(of, name ref.Val) (resource.Quantity, error) { return effective(of, name, "limits") }),
	}
}

// amount converts a value to a quantity.
func amount(v ref.Val) (resource.Quantity, error) {
	var raw any
	switch v := v.(type) {
	case kubernetescel.Quantity:
		return v.DeepCopy(), nil
	case types.String:
		raw = string(v)
	case types.Int:
		raw = json.Number(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		raw = json.Number(strconv.FormatUint(uint64(v), 10))
	case types.Double:
		raw = json.Number(strconv.FormatFloat(float64(v), 'f', -1, 64))
	default:
		return resource.Quantity{}, fmt.Errorf("must be an amount such as '500m' or '64Mi'; got %s", celKind(v.Type().TypeName()))
	}
	q, ok := podschema.ParseQuantity(raw)
	if !ok {
		return resource.Quantity{}, fmt.Errorf("must be an amount such as '500m' or '64Mi'; got %s", show.Value(fmt.Sprint(raw)))
	}
	return q, nil
}

// wholeFrom is the least amount without a binary suffix that is in bytes: no pod has a million CPUs, and no
// process runs with less memory.
const wholeFrom = 1_000_000

// scale multiplies a quantity by a decimal number. It rounds the exact product up: bytes to whole ones, other
// quantities to thousandths, the API server's resolution for CPUs.
func scale(of, by ref.Val) (resource.Quantity, error) {
	q, err := amount(of)
	if err != nil {
		return q, err
	}
	factor, err := decimal(by)
	if err != nil {
		return q, err
	}
	exact, ok := new(big.Rat).SetString(q.AsDec().String())
	if !ok {
		return q, fmt.Errorf("%s is not an amount", show.Value(q.String()))
	}
	bytes := q.Format == resource.BinarySI || exact.Cmp(big.NewRat(wholeFrom, 1)) >= 0
	exact.Mul(exact, factor)
	if !bytes {
		exact.Mul(exact, big.NewRat(1000, 1))
	}
	rounded, ok := ceiling(exact)
	switch {
	case !ok:
		return q, fmt.Errorf("%s times %s is too large for an amount", show.Value(q.String()), factor.RatString())
	case bytes:
		return *resource.NewQuantity(rounded, q.Format), nil
	}
	return *resource.NewMilliQuantity(rounded, q.Format), nil
}

// decimal converts a factor to the decimal number in the source: 0.2 is a fifth, and not the nearest float.
func decimal(v ref.Val) (*big.Rat, error) {
	var text string
	switch v := v.(type) {
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("the factor %v is not finite", f)
		}
		text = strconv.FormatFloat(float64(v), 'g', -1, 64)
	case types.Int:
		text = strconv.FormatInt(int64(v), 10)
	case types.Uint:
		text = strconv.FormatUint(uint64(v), 10)
	default:
		return nil, fmt.Errorf("the factor must be a number; got %s", celKind(v.Type().TypeName()))
	}
	factor, ok := new(big.Rat).SetString(text)
	if !ok || factor.Sign() < 0 {
		return nil, fmt.Errorf("the factor must be a number that is not negative; got %s", text)
	}
	return factor, nil
}

// ceiling returns the least whole number that is not below r. It reports false if that has more than 64 bits.
func ceiling(r *big.Rat) (int64, bool) {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return n.Int64(), n.IsInt64()
}

// effective returns the request or the limit of a pod or a container for one resource. Field is requests or
// limits. The pod's is computed as the scheduler computes it. It returns 0 if none is set.
func effective(of, resourceName ref.Val, field string) (resource.Quantity, error) {
	text, ok := resourceName.(types.String)
	if !ok {
		return resource.Quantity{}, errors.New("must be the name of a resource, such as 'cpu'")
	}
	object, err := rawObject(of)
	if err != nil {
		return resource.Quantity{}, err
	}
	name := corev1.ResourceName(text)
	spec, isPod := object["spec"].(map[string]any)
	if !isPod {
		r, err := resourcesOfContainer(object, name)
		if field == "requests" {
			return r.Requests[name], err
		}
		return r.Limits[name], err
	}
	pod, err := reducedTo(spec, name)
	if err != nil {
		return resource.Quantity{}, err
	}
	if field == "requests" {
		return helpers.PodRequests(pod, helpers.PodResourcesOptions{})[name], nil
	}
	return helpers.PodLimits(pod, helpers.PodResourcesOptions{})[name], nil
}

// rawObject returns an object as raw JSON. The caller must not change it.
func rawObject(v ref.Val) (map[string]any, error) {
	if object, ok := v.Value().(map[string]any); ok {
		return object, nil
	}
	if _, ok := v.(traits.Mapper); ok {
		limit := room(MaxBytes)
		native, err := toNative(v, &limit)
		if err != nil {
			return nil, err
		}
		return native.(map[string]any), nil
	}
	return nil, fmt.Errorf("must be the pod or a container; got %s", celKind(v.Type().TypeName()))
}

// reducedTo returns a pod with the fields that count for one resource, and with the requests that the API
// server would derive from limits.
func reducedTo(spec map[string]any, name corev1.ResourceName) (*corev1.Pod, error) {
	ofName := func(container map[string]any) (corev1.ResourceRequirements, error) {
		return resourcesOfContainer(container, name)
	}
	pod := &corev1.Pod{}
	var err, wrong error
	pod.Spec.Containers, err = podschema.Containers(spec["containers"], ofName)
	pod.Spec.InitContainers, wrong = podschema.Containers(spec["initContainers"], ofName)
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	if pod.Spec.Overhead, err = amountIn(spec["overhead"], name); err != nil {
		return nil, err
	}
	if spec["resources"] == nil {
		return pod, nil
	}
	whole, err := resourcesOf(spec, name)
	if err != nil {
		return nil, err
	}
	if limit, limited := whole.Limits[name]; limited && len(whole.Requests) == 0 && len(helpers.AggregateContainerRequests(pod, helpers.PodResourcesOptions{})) == 0 {
		whole.Requests = corev1.ResourceList{name: limit}
	}
	pod.Spec.Resources = &whole
	return pod, nil
}

// resourcesOfContainer returns a container's request and limit of one resource. An absent request equals the
// limit, as in the API's defaults.
func resourcesOfContainer(container map[string]any, name corev1.ResourceName) (corev1.ResourceRequirements, error) {
	r, err := resourcesOf(container, name)
	if len(r.Requests) == 0 {
		r.Requests = r.Limits
	}
	return r, err
}

// resourcesOf returns the request and limit of one resource in the field resources of a container or a pod.
func resourcesOf(of map[string]any, name corev1.ResourceName) (corev1.ResourceRequirements, error) {
	object, _ := of["resources"].(map[string]any)
	requests, err := amountIn(object["requests"], name)
	limits, wrong := amountIn(object["limits"], name)
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}, cmp.Or(err, wrong)
}

// amountIn returns the entry of one resource in requests or limits, nil for none.
func amountIn(v any, name corev1.ResourceName) (corev1.ResourceList, error) {
	list, _ := v.(map[string]any)
	raw := list[string(name)]
	if raw == nil {
		return nil, nil
	}
	q, ok := podschema.ParseQuantity(raw)
	if !ok {
		return nil, fmt.Errorf("the pod has %s of %s, which is not an amount", show.Value(fmt.Sprint(raw)), show.Value(string(name)))
	}
	return corev1.ResourceList{name: q}, nil
}

// mergeFunction is a.merge(b): the entries of both maps. For a key in both, b's counts.
func mergeFunction() cel.EnvOption {
	of := cel.MapType(cel.StringType, cel.TypeParamType("V"))
	return cel.Function("merge", cel.MemberOverload("pillion_map_merge_map", []*cel.Type{of, of}, of, cel.BinaryBinding(merged)))
}

func merged(a, b ref.Val) ref.Val {
	first, ok := a.(traits.Mapper)
	second, also := b.(traits.Mapper)
	if !ok || !also {
		return types.MaybeNoSuchOverloadErr(a)
	}
	if x, ok := a.Value().(map[string]any); ok {
		if y, ok := b.Value().(map[string]any); ok { // raw JSON keeps its numbers exact
			both := make(map[string]any, len(x)+len(y))
			maps.Copy(both, x)
			maps.Copy(both, y)
			return adapt(both)
		}
	}
	both := make(map[ref.Val]ref.Val, sizeOf(a)+sizeOf(b))
	for _, m := range []traits.Mapper{first, second} {
		for it := m.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			both[k] = m.Get(k)
		}
	}
	return types.NewRefValMap(adapter{}, both)
}

// sizeOf returns the number of entries, items, characters or bytes of a value, and 1 for any other.
func sizeOf(v ref.Val) uint64 {
	if sizer, ok := v.(traits.Sizer); ok {
		if size, ok := sizer.Size().(types.Int); ok {
			return uint64(size)
		}
	}
	return 1
}

// isLinear has the library functions whose cost follows from their size: those of [costOf], and one with its
// own bound and cost.
var isLinear = map[string]bool{
	"toJson": true, "shellQuote": true, "base64.encode": true, "base64.decode": true, "merge": true, "scale": true, "requests": true, "limits": true,
	sortedFunction: true, valueFunction: true, "lists.range": true,
}

// costOf returns the cost of a call of one of these functions, or of the library's base64 functions. It grows
// with the size of the arguments.
func costOf(function string, args []ref.Val, result ref.Val) (uint64, bool) {
	switch function {
	case valueFunction:
		return 0, true
	case sortedFunction: // the tracker of costs compares each repetition with all earlier ones
		n := sizeOf(args[0])
		return 1 + n*n/repetitionsPerCost, true
	case "toJson", "shellQuote":
		return 1 + textCost(result), true
	case "base64.encode", "base64.decode":
		return 1 + textCost(args[0]) + textCost(result), true
	case "merge":
		return 1 + sizeOf(args[0]) + sizeOf(args[1]), true
	case "scale":
		return 2, true
	case "requests", "limits":
		return 2 + 5*containersIn(args[0]), true
	}
	return 0, false
}

// repetitionsPerCost is the number of such comparisons for one unit of cost.
const repetitionsPerCost = 200

// textCost is the cost of a walk over a text.
func textCost(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	}
	return 0
}

// containersIn returns the number of containers of a pod.
func containersIn(pod ref.Val) uint64 {
	object, _ := pod.Value().(map[string]any)
	spec, _ := object["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	inits, _ := spec["initContainers"].([]any)
	return uint64(len(containers) + len(inits))
}

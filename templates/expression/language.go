package expression

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// The names that all expressions see; $each and $for bind further ones.
const (
	podName       = "pod"
	namespaceName = "namespaceObject"
	paramsName    = "params"
	variablesName = "variables"
	valuesName    = "values"
	// eachName is the name that $each binds.
	eachName = "container"
)

var visibleNames = []string{podName, namespaceName, paramsName, variablesName, valuesName}

const (
	paramsType    = "pillion.Params"
	variablesType = "pillion.Variables"
	// sortedFunction sorts a map's keys before an expression walks them, and valueFunction returns its
	// argument. Neither name is valid in CEL's syntax.
	sortedFunction = "@sorted"
	valueFunction  = "@value"
)

// baseEnvironment is the environment that all templates share: the CEL libraries of Kubernetes' admission
// policies, and Pillion's. Kubernetes' own environment does not serve, because it always has the authorizer
// library, which has no meaning here.
var baseEnvironment = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		library.URLs(), library.Regex(), library.Lists(library.ListsVersion(1)), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(), ext.Lists(ext.ListsVersion(3), ext.ListsMaxRangeSize(MaxIterations)),
		cel.CustomTypeAdapter(adapter{}),
		cel.Function("toJson", cel.Overload("pillion_to_json", []*cel.Type{cel.DynType}, cel.StringType, cel.UnaryBinding(toJSON))),
		cel.Function("shellQuote", cel.Overload("pillion_shell_quote", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(shellQuote))),
		cel.Function(sortedFunction, cel.Overload("pillion_sorted", []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"), cel.UnaryBinding(sorted))),
		cel.Function(valueFunction, cel.Overload("pillion_value", []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"), cel.UnaryBinding(func(v ref.Val) ref.Val { return v }))),
		ext.Encoders(ext.EncodersVersion(0)),
		cel.Variable(valuesName, cel.MapType(cel.StringType, cel.DynType)),
	)
	if err == nil {
		env, err = env.Extend(append(quantityFunctions(), mergeFunction())...)
	}
	if err != nil {
		panic(fmt.Sprintf("expression: making the CEL environment: %v", err))
	}
	return env
})

// toJSON writes any value as compact JSON with sorted keys, at most [MaxBytes].
func toJSON(v ref.Val) ref.Val {
	b := room(MaxBytes)
	native, err := toNative(v, &b)
	if err != nil {
		return types.WrapErr(fmt.Errorf("toJson: %w", err))
	}
	text := string(podschema.Encode(native))
	// JSON allows these two characters in a text, and JavaScript does not.
	text = strings.ReplaceAll(text, "\u2028", `\u2028`)
	text = strings.ReplaceAll(text, "\u2029", `\u2029`)
	return types.String(text)
}

// shellQuote writes text as one word of a POSIX shell.
func shellQuote(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	return types.String("'" + strings.ReplaceAll(string(text), "'", `'\''`) + "'")
}

// sortedMap is a map that iterates over sorted keys.
type sortedMap struct{ traits.Mapper }

// sorted sorts a map's keys, so that a list made from them is the same each time. It returns an error for more
// than [MaxIterations] items, because cel-go's tracker of costs walks over all earlier repetitions.
func sorted(v ref.Val) ref.Val {
	if sizeOf(v) > MaxIterations {
		return types.WrapErr(errTooMany)
	}
	if m, ok := v.(traits.Mapper); ok {
		return sortedMap{m}
	}
	return v
}

// Iterator implements [traits.Iterable].
func (m sortedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

func compareKeys(a, b ref.Val) int {
	if c := strings.Compare(a.Type().TypeName(), b.Type().TypeName()); c != 0 {
		return c
	}
	if comparer, ok := a.(traits.Comparer); ok {
		if c, ok := comparer.Compare(b).(types.Int); ok {
			return int(c)
		}
	}
	return 0
}

// costs returns the cost of calls: Kubernetes' costs for its functions, and the size of the arguments for
// Pillion's.
type costs struct{ library.CostEstimator }

// CallCost implements [interpreter.ActualCostEstimator].
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if cost, ok := costOf(function, args, result); ok {
		ours := cost // only this allocates
		return &ours
	}
	return c.CostEstimator.CallCost(function, overload, args, result)
}

var _ interpreter.ActualCostEstimator = (*costs)(nil)

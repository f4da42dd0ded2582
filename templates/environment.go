package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// What expressions see, besides what $each and $for bind.
const (
	podName       = "pod"
	namespaceName = "namespaceObject"
	paramsName    = "params"
	variablesName = "variables"
	valuesName    = "values"
	// eachName is what $each binds.
	eachName = "container"
)

var visibleNames = []string{podName, namespaceName, paramsName, variablesName, valuesName}

const (
	paramsType    = "pillion.Params"
	variablesType = "pillion.Variables"
	// sortedFunction orders a map's keys before an expression walks them. Its
	// name cannot be written in CEL.
	sortedFunction = "@sorted"
)

// baseEnvironment is the environment that all templates share: the CEL libraries
// of Kubernetes' admission policies, and ours. Kubernetes' own environment cannot be
// used, because no library can be taken out of it, and the one that asks an
// authorizer has no meaning here.
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
		library.URLs(), library.Regex(), library.Lists(), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(), ext.Lists(ext.ListsVersion(3)),
		cel.CustomTypeAdapter(adapter{}),
		cel.Function("toJson", cel.Overload("pillion_to_json", []*cel.Type{cel.DynType}, cel.StringType, cel.UnaryBinding(toJSON))),
		cel.Function("shellQuote", cel.Overload("pillion_shell_quote", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(shellQuote))),
		cel.Function(sortedFunction, cel.Overload("pillion_sorted", []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"), cel.UnaryBinding(sorted))),
		cel.Variable(valuesName, cel.MapType(cel.StringType, cel.DynType)),
	)
	if err != nil {
		panic(fmt.Sprintf("templates: making the CEL environment: %v", err))
	}
	return env
})

// parameterType returns a parameter's type in expressions.
func parameterType(d v1alpha1.Parameter) *cel.Type {
	switch d.Type {
	case v1alpha1.List:
		return cel.ListType(scalarType(d.Items.Type))
	case v1alpha1.Map:
		return cel.MapType(cel.StringType, scalarType(d.Items.Type))
	}
	return scalarType(d.Type)
}

func scalarType(t v1alpha1.ParameterType) *cel.Type {
	switch t {
	case v1alpha1.Integer:
		return cel.IntType
	case v1alpha1.Number:
		return cel.DoubleType
	case v1alpha1.Boolean:
		return cel.BoolType
	case v1alpha1.JSON:
		return cel.DynType
	}
	return cel.StringType // quantities, durations and images are the text that was written
}

// environment has the two CEL environments of an expression. run gives the program; pods
// have no type there. typed only checks, with the pod's schema; it is nil for templates
// that allow unknown fields.
type environment struct{ run, typed *cel.Env }

// newEnvironment returns an environment of one template.
func newEnvironment(objects *provider, pod, namespace *cel.Type) (*cel.Env, error) {
	base := baseEnvironment()
	objects.Provider = base.CELTypeProvider()
	return base.Extend(
		cel.CustomTypeProvider(objects),
		cel.Variable(podName, pod),
		cel.Variable(namespaceName, namespace),
		cel.Variable(paramsName, cel.ObjectType(paramsType)),
		cel.Variable(variablesName, cel.ObjectType(variablesType)),
	)
}

// bind returns the environment in which a further name is visible.
func (e environment) bind(name string, run, typed *cel.Type) (environment, error) {
	extended, err := e.run.Extend(cel.Variable(name, run))
	if err != nil || e.typed == nil {
		return environment{run: extended}, err
	}
	checking, err := e.typed.Extend(cel.Variable(name, typed))
	return environment{run: extended, typed: checking}, err
}

// adapter gives expressions the numbers of raw JSON as CEL's.
type adapter struct{}

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case string:
		return types.String(v)
	case json.Number:
		return number(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case map[ref.Val]ref.Val:
		return types.NewRefValMap(a, v)
	case []ref.Val:
		return types.NewRefValList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

func number(n json.Number) ref.Val {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return types.Int(i)
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return types.Uint(u)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.IsInf(f, 0) {
		return types.NewErr("the number %s is too large", show.Plain(n.String()))
	}
	return types.Double(f)
}

// provider declares the types of params, variables and the pod, so that reading
// what is not declared is a compile error. While a template is compiled its variables
// grow, and it notes what is read; after that it does not change.
type provider struct {
	types.Provider
	params    map[string]*cel.Type
	variables map[string]*cel.Type
	// used has the parameters that expressions read; compiling is set while
	// reading is noted.
	used      map[string]bool
	compiling bool
	// missed has, for each field that was read and does not exist, the type that was
	// read.
	missed map[string]string
}

func newProvider() *provider {
	return &provider{params: map[string]*cel.Type{}, variables: map[string]*cel.Type{}, used: map[string]bool{}, missed: map[string]string{}, compiling: true}
}

func (p *provider) fields(typeName string) (map[string]*cel.Type, bool) {
	switch typeName {
	case paramsType:
		return p.params, true
	case variablesType:
		return p.variables, true
	}
	fields, ok := podTypesOnce().fields[typeName]
	return fields, ok
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.fields(name); ok {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := p.fields(name); ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := p.fields(name)
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	if !ok {
		if p.compiling {
			p.missed[field] = name
		}
		return nil, false
	}
	if name != paramsType && name != variablesType {
		return &types.FieldType{Type: t}, true // for the checker alone
	}
	if p.compiling && name == paramsType {
		p.used[field] = true
	}
	return &types.FieldType{
		Type:  t,
		IsSet: func(target any) bool { o, ok := target.(*object); return ok && o.has(field) },
		GetFrom: func(target any) (any, error) {
			o, ok := target.(*object)
			if !ok {
				return nil, fmt.Errorf("no such field: %s", field)
			}
			return o.get(field)
		},
	}, true
}

// object is the value of params or of variables for one render.
type object struct {
	typ   *types.Type
	names []string
	has   func(name string) bool
	get   func(name string) (any, error)
}

var (
	paramsValueType    = cel.ObjectType(paramsType, traits.IndexerType, traits.FieldTesterType)
	variablesValueType = cel.ObjectType(variablesType, traits.IndexerType, traits.FieldTesterType)
)

// ConvertToNative implements [ref.Val].
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot become %v", o.typ.TypeName(), t)
}

// ConvertToType implements [ref.Val].
func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.typ
	}
	return types.NewErr("%s cannot become %s", o.typ.TypeName(), t.TypeName())
}

// Equal implements [ref.Val].
func (o *object) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(o) == other) }

// Type implements [ref.Val].
func (o *object) Type() ref.Type { return o.typ }

// Value implements [ref.Val].
func (o *object) Value() any { return o }

// IsSet implements [traits.FieldTester].
func (o *object) IsSet(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	return types.Bool(ok && o.has(string(name)))
}

// Get implements [traits.Indexer].
func (o *object) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.NewErr("no such field: %v", index)
	}
	v, err := o.get(string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return adapter{}.NativeToValue(v)
}

// toJSON writes any value as compact JSON with sorted keys, at most
// [MaxRenderedBytes] of it.
func toJSON(v ref.Val) ref.Val {
	b := budget{bytes: MaxRenderedBytes}
	native, err := toNative(v, &b)
	if err != nil {
		return types.WrapErr(fmt.Errorf("toJson: %w", err))
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(native); err != nil {
		return types.WrapErr(fmt.Errorf("toJson: %w", err))
	}
	return types.String(strings.TrimSuffix(text.String(), "\n"))
}

// shellQuote writes text as one word of a POSIX shell.
func shellQuote(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	return types.String("'" + strings.ReplaceAll(string(text), "'", `'\''`) + "'")
}

// sortedMap is a map whose keys come in order.
type sortedMap struct{ traits.Mapper }

// sorted gives a map an order, so that a list made from its keys is the same
// each time, and leaves everything else alone.
func sorted(v ref.Val) ref.Val {
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

// costs gives the cost of calls: Kubernetes' cost, and for our functions the size.
type costs struct{ library.CostEstimator }

// CallCost implements [interpreter.ActualCostEstimator].
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "toJson", "shellQuote":
		cost := uint64(1)
		if text, ok := result.(types.String); ok {
			cost += uint64(len(text)) / 10
		}
		return &cost
	}
	return c.CostEstimator.CallCost(function, overload, args, result)
}

var _ interpreter.ActualCostEstimator = (*costs)(nil)

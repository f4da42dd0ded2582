package expression

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Place is a place in a manifest. Line is 0 if unknown.
type Place struct {
	At   *manifest.Path
	Line int
}

// Template is the template to which the expressions belong.
type Template struct {
	Parameters []v1alpha1.Parameter
	// Values are the installer's values, raw JSON.
	Values map[string]any
	// AllowUnknownFields disables the check against the pod's schema.
	AllowUnknownFields bool
	// Patterns counts the regular expressions. In a template of a namespace they must be literals, and an
	// expression may have at most [MaxNamespacedSource] bytes.
	Patterns *param.Patterns
	// Problem reports a mistake, Warn a probable mistake.
	Problem, Warn func(at Place, message string)

	// compiled counts the expressions and the bound names.
	compiled int
	// reads has the fields that expressions read of each name, as [reader] returns them.
	reads map[string][][]string
}

// MaxExpressions bounds the expressions of a template, and MaxSource the bytes of one, since compilation takes
// time quadratic in them. Each expression is a program in memory, and takes about a millisecond to compile. The
// largest template of the library has 31.
const (
	MaxExpressions      = 1000
	MaxSource           = 16 << 10
	MaxNamespacedSource = 1 << 10
)

// allow counts an expression. It reports false if the template has too many, and reports a problem for the
// first of these.
func (t *Template) allow(source string, at Place) bool {
	t.compiled++
	if t.compiled == MaxExpressions+1 {
		t.Problem(at, fmt.Sprintf("is one expression too many: a template may have %d. Use a variable for an expression that occurs in many places, or split the template", MaxExpressions))
	}
	most := MaxSource
	if t.Patterns.Namespaced {
		most = MaxNamespacedSource
	}
	if len(source) > most {
		t.Problem(at, fmt.Sprintf("is an expression of %d bytes; allowed are %d", len(source), most))
	}
	return t.compiled <= MaxExpressions && len(source) <= most
}

// Environment compiles the expressions at one place of a template. It is not safe for concurrent use.
type Environment struct {
	template *Template
	names    *Names
	// run compiles the program, with an untyped pod. typed only checks, with the pod's schema; it is nil for
	// templates that allow unknown fields.
	run, typed *checker
	// bound has the names that the surrounding $each and $for bind.
	bound []string
	// each is set inside $each. $for can bind the name container, too.
	each bool
	// inContainer compiles the variables that may read container. It is nil if there are none.
	inContainer *Environment
}

// checker checks expressions. objects are env's types of params and variables.
type checker struct {
	env     *cel.Env
	objects *provider
}

// NewEnvironment returns the environment of a template without variables.
func NewEnvironment(of Template) (*Environment, error) {
	of.reads = map[string][][]string{}
	e := &Environment{template: &of, names: &Names{variables: map[string]*Expression{}, perContainer: map[string]bool{}, values: adapt(of.Values)}}
	params := map[string]*cel.Type{}
	for _, declared := range of.Parameters {
		params[declared.Name] = parameterType(declared)
		e.names.params = append(e.names.params, declared.Name)
	}
	var err error
	if e.run, err = newChecker(params, cel.DynType, cel.DynType); err != nil {
		return nil, fmt.Errorf("the CEL environment cannot be made: %w", err)
	}
	if of.AllowUnknownFields {
		return e, nil
	}
	if e.typed, err = newChecker(params, typeInPod(podschema.Pod()), cel.ObjectType(namespaceType)); err != nil {
		return nil, fmt.Errorf("the CEL environment with the pod's types cannot be made: %w", err)
	}
	return e, nil
}

func newChecker(params map[string]*cel.Type, pod, namespace *cel.Type) (*checker, error) {
	base := baseEnvironment()
	objects := newProvider(base.CELTypeProvider(), params)
	env, err := base.Extend(
		cel.CustomTypeProvider(objects),
		cel.Variable(podName, pod),
		cel.Variable(namespaceName, namespace),
		cel.Variable(paramsName, cel.ObjectType(paramsType)),
		cel.Variable(variablesName, cel.ObjectType(variablesType)),
	)
	return &checker{env: env, objects: objects}, err
}

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
	return cel.StringType // quantities, durations and images keep the author's text
}

// Names returns the names in the template's expressions so far. [Environment.Declare] adds to them.
func (e *Environment) Names() *Names { return e.names }

// Declare makes a variable visible to the expressions that are compiled later. The expression is nil for a
// variable with problems.
func (e *Environment) Declare(variable string, value *Expression) {
	loose, typed := cel.DynType, cel.DynType
	if value != nil {
		loose, typed = value.typ, value.typed
		if _, reads := e.names.readsContainer(value.ast.Expr()); reads {
			e.names.perContainer[variable] = true
		}
	}
	e.names.variables[variable] = value
	e.names.order = append(e.names.order, variable)
	e.run.objects.variables[variable] = loose
	if e.typed != nil {
		e.typed.objects.variables[variable] = typed
	}
}

// Uses reports whether an expression reads the parameter.
func (e *Environment) Uses(parameter string) bool {
	return slices.ContainsFunc(e.template.reads[paramsName], func(fields []string) bool { return len(fields) == 0 || fields[0] == parameter })
}

// Bind returns the environment in an item with $for, which binds a name to each item of a list, or to each key
// of a map.
func (e *Environment) Bind(name string, over *Expression) (*Environment, error) {
	loose, ok := elementOf(over.typ)
	if !ok {
		return nil, fmt.Errorf("the expression %s gives %s; it must give a list or a map", show.Value(over.source), celKind(cel.FormatCELType(over.typ)))
	}
	typed, ok := elementOf(over.typed)
	if !ok {
		typed = cel.DynType
	}
	if err := e.allowBinding(name); err != nil {
		return nil, err
	}
	return e.extend(name, loose, typed)
}

// elementOf returns the type of the name that $for binds for a value of the type t.
func elementOf(t *cel.Type) (*cel.Type, bool) {
	switch t.Kind() {
	case types.ListKind, types.MapKind:
		return t.Parameters()[0], true
	case types.DynKind, types.AnyKind:
		return cel.DynType, true
	}
	return nil, false
}

// BindContainer returns the environment in an item with $each.
func (e *Environment) BindContainer() (*Environment, error) {
	if err := e.allowBinding(eachName); err != nil {
		return nil, err
	}
	return e.withContainer()
}

func (e *Environment) withContainer() (*Environment, error) {
	below, err := e.extend(eachName, cel.DynType, typeInPod(podschema.At("spec.containers[]")))
	if below != nil {
		below.each = true
	}
	return below, err
}

// allowBinding returns an error if a place of the template cannot bind a name.
func (e *Environment) allowBinding(name string) error {
	if slices.Contains(visibleNames, name) || slices.Contains(e.bound, name) || slices.Contains(param.Keywords, name) {
		return fmt.Errorf("the name %s is taken; choose another", name)
	}
	if e.template.compiled++; e.template.compiled > MaxExpressions {
		return fmt.Errorf("is one $each or $for too many: a template may have %d of them and of expressions", MaxExpressions)
	}
	return nil
}

func (e *Environment) extend(name string, loose, typed *cel.Type) (*Environment, error) {
	below := *e
	below.bound = append(slices.Clone(e.bound), name)
	var err error
	if below.run, err = e.run.bind(name, loose); err == nil && e.typed != nil {
		below.typed, err = e.typed.bind(name, typed)
	}
	if err != nil {
		return nil, fmt.Errorf("the name %s cannot be bound: %s", name, show.Plain(err.Error()))
	}
	return &below, nil
}

func (c *checker) bind(name string, t *cel.Type) (*checker, error) {
	env, err := c.env.Extend(cel.Variable(name, t))
	return &checker{env: env, objects: c.objects}, err
}

// Compile compiles an expression for a value of any type. It returns nil if the
// expression has problems.
func (e *Environment) Compile(source string, at Place) *Expression {
	if !e.template.allow(source, at) {
		return nil
	}
	compiled, err := e.compile(source, at)
	if err != nil {
		e.template.Problem(at, err.Error())
		return nil
	}
	if err := e.checkContainer(compiled.ast.Expr()); err != nil {
		e.template.Problem(at, fmt.Sprintf("in the expression %s: %s", show.Value(source), err))
		return nil
	}
	reader{do: func(name string, fields []string, _ bool) {
		e.template.reads[name] = append(e.template.reads[name], fields)
	}}.read(compiled.ast.Expr())
	compiled.typed = compiled.typ
	if e.typed != nil {
		compiled.typed = e.checkAgainstPod(source, at)
	}
	return compiled
}

// CompileCondition compiles an expression that must return true or false. It returns nil if the expression has
// problems.
func (e *Environment) CompileCondition(source string, at Place) *Expression {
	compiled := e.Compile(source, at)
	if compiled == nil {
		return nil
	}
	if k := compiled.typ.Kind(); k != types.BoolKind && k != types.DynKind && k != types.AnyKind {
		e.misfit(compiled, "; it must give true or false")
		return nil
	}
	return compiled
}

// CompileText compiles an expression inside a longer text. It returns nil if the expression has problems.
func (e *Environment) CompileText(source string, at Place) *Expression {
	compiled := e.Compile(source, at)
	if compiled != nil && !canJoin(compiled.typ) {
		kind := kindOfType(compiled.typ)
		if isOptional(compiled.typ) {
			kind = isNull
		}
		e.misfit(compiled, " inside a text"+textForm(source, kind))
	}
	return compiled
}

// CompileValue compiles an expression with a value of the type t, which is nil for an unknown field. It returns
// nil if the expression has problems.
func (e *Environment) CompileValue(source string, at Place, t *podschema.Type) *Expression {
	return e.compileFor(source, at, t, canFit)
}

// CompileItem compiles an expression with an item of a list, of the type t, or with a list of such items.
func (e *Environment) CompileItem(source string, at Place, t *podschema.Type) *Expression {
	return e.compileFor(source, at, t, func(c *cel.Type, t *podschema.Type) bool {
		list := withoutOptional(c)
		return canFit(c, t) || list.Kind() == types.ListKind && canFit(list.Parameters()[0], t)
	})
}

func (e *Environment) compileFor(source string, at Place, t *podschema.Type, fits func(*cel.Type, *podschema.Type) bool) *Expression {
	compiled := e.Compile(source, at)
	if compiled != nil && !fits(compiled.typ, t) {
		want, how := "something that a pod can hold", ""
		if t != nil {
			want, how = t.Words(), form(source, kindOfType(compiled.typ), t, false)
		}
		e.misfit(compiled, "; it must give "+want+how)
	}
	return compiled
}

// misfit reports an expression of the wrong type.
func (e *Environment) misfit(compiled *Expression, want string) {
	e.template.Problem(compiled.Place, fmt.Sprintf("the expression %s gives %s%s", show.Value(compiled.source), celKind(cel.FormatCELType(compiled.typ)), want))
}

// checkAgainstPod checks an expression against the pod's schema, and returns its type. A missing field is a
// problem. A type error is only a warning, because the expression runs with an untyped pod.
func (e *Environment) checkAgainstPod(source string, at Place) *cel.Type {
	checked, issues := e.typed.env.Compile(source)
	if issues.Err() == nil {
		return checked.OutputType()
	}
	all := issues.Errors()
	if i := slices.IndexFunc(all, func(issue *cel.Error) bool { return undefinedField.MatchString(issue.Message) }); i >= 0 {
		e.template.Problem(at, explainIssue(all[i], e.typed.objects, source))
	} else if i := slices.IndexFunc(all, func(issue *cel.Error) bool { return strings.Contains(issue.Message, "found no matching overload") }); i >= 0 {
		e.template.Warn(at, explainIssue(all[i], e.typed.objects, source)+"; pods have another type there (dyn() silences this)")
	}
	return cel.DynType
}

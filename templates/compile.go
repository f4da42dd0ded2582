package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// ClusterSource begins the [Options.Source] of an object of the cluster; the object's name follows. Errors in
// such a manifest have no lines, because its author has another text.
const ClusterSource = "SidecarTemplate/"

// Options are the settings of [Compile].
type Options struct {
	// Values are the installer's values, which expressions read as values. They are JSON, and are copied.
	Values map[string]any
	// ForeignSidecars are names of containers that other injectors add to pods. $each: App and Init leave them
	// out, except in a required template. Default, for nil: [DefaultForeignSidecars].
	ForeignSidecars []string
	// Source names the manifest in errors: a file, or ClusterSource and the object's name.
	Source string
	// FirstLine is the file's line at which the manifest begins. Default 1.
	FirstLine int
	// Check returns a further mistake of a template that compiles, or nil. A nil Check checks nothing.
	Check func(*Template) error
}

// Template is a compiled SidecarTemplate. It is immutable.
type Template struct {
	name, hash string
	spec       v1alpha1.SidecarTemplateSpec
	scope      Scope
	demand
	program
	verify Verify
	// canary is nil for a stable template.
	canary *canary
}

// demand has the compiled selectors of a template.
type demand struct {
	availableTo, matchNamespace, matchPod labels.Selector
	exceptions                            Exceptions
}

// program is the part of a template that is rendered.
type program struct {
	parameters  *param.Set
	names       *expression.Names
	conditions  []*expression.Expression
	validations []validation
	// tree is the fragment's syntax tree.
	tree node
	// foreign has the names of containers that $each does not count as the app's.
	foreign sets.Set[string]
	files   []file
	// reservedLine has the lines of metadata.labels and metadata.annotations in the manifest.
	reservedLine map[string]int
}

// compiler compiles one manifest and collects its problems and warnings.
type compiler struct {
	source   *manifest.Source
	problems []Problem
	warnings []Warning
	env      *expression.Environment
	spec     *v1alpha1.SidecarTemplateSpec
	regexps  *param.Patterns
}

var templateName = regexp.MustCompile(`\A[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\z`)

// Compile compiles one manifest, YAML or JSON. It checks the manifest's fields,
// parameters and selectors, the types of its expressions and the pod fields that it
// sets, and renders it for a minimal and a full pod. Its error is a *CompileError with
// every mistake. Warnings come with a template and with an error.
func Compile(text []byte, o Options) (*Template, []Warning, error) {
	source := &manifest.Source{}
	if !isObject(o.Source) {
		source = manifest.NewSource(text, o.FirstLine)
	}
	object, err := manifest.Read(text, source)
	return compileObject(object, err, source, o)
}

// compileObject compiles a decoded manifest, or reports why it is unreadable.
func compileObject(object map[string]any, unreadable error, source *manifest.Source, o Options) (*Template, []Warning, error) {
	c := &compiler{source: source}
	t := &Template{}
	if unreadable != nil {
		c.unreadable(unreadable)
	} else {
		c.compile(object, t, o)
	}
	for i := range c.warnings {
		c.warnings[i].Source, c.warnings[i].Template = o.Source, t.name
	}
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, c.warnings, &CompileError{Source: o.Source, Template: t.name, Scope: t.scope, Problems: c.problems, Broken: c.broken(t)}
	}
	return t, c.warnings, nil
}

// broken returns the selectors of a template with problems, or nil if its spec cannot be read.
func (c *compiler) broken(t *Template) *Template {
	if c.spec == nil || t.availableTo == nil {
		return nil
	}
	b := t.selecting()
	b.spec.Required, b.spec.Canary, b.spec.Inject = t.spec.Required && !t.scope.Namespaced, t.spec.Canary, t.spec.Inject
	if c.hasProblemIn("spec.match") {
		b.spec.Match = nil
	}
	if !c.hasProblemIn("spec.exceptions") {
		b.exceptions = t.exceptions
	}
	return b
}

// selecting returns a template that only selects: it has the selectors of this one, and no fragment.
func (t *Template) selecting() *Template {
	return &Template{
		demand: demand{availableTo: t.availableTo, matchNamespace: t.matchNamespace, matchPod: t.matchPod},
		spec:   v1alpha1.SidecarTemplateSpec{Match: t.spec.Match, InjectByDefault: t.spec.InjectByDefault, Suspend: t.spec.Suspend, OnError: t.spec.OnError},
	}
}

// hasProblemIn reports whether there is a problem at a field or inside it.
func (c *compiler) hasProblemIn(field string) bool {
	return slices.ContainsFunc(c.problems, func(p Problem) bool {
		rest, ok := strings.CutPrefix(p.Path, field)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (c *compiler) problem(at *manifest.Path, message string) {
	c.problemAt(at, c.source.Line(at), message)
}

func (c *compiler) problemAt(at *manifest.Path, line int, message string) {
	p := Problem{Path: at.String(), Line: line, Message: message}
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

func (c *compiler) warn(at *manifest.Path, message string) {
	c.warnings = append(c.warnings, Warning{Path: at.String(), Line: c.source.Line(at), Message: message})
}

// place returns a place of the manifest and its line.
func (c *compiler) place(at *manifest.Path) expression.Place {
	return expression.Place{At: at, Line: c.source.Line(at)}
}

// textPlace returns the place of a byte in a text of the manifest.
func (c *compiler) textPlace(at *manifest.Path, text string, offset int) expression.Place {
	return expression.Place{At: at, Line: c.source.TextLine(at, text, offset)}
}

// unreadable reports that the text is not a manifest.
func (c *compiler) unreadable(err error) {
	line := 0
	var located *manifest.Error
	if errors.As(err, &located) {
		line = located.Line
	}
	c.problemAt(nil, line, err.Error())
}

func (c *compiler) compile(object map[string]any, t *Template, o Options) {
	metadata, _ := object["metadata"].(map[string]any)
	t.name, _ = metadata["name"].(string)
	c.source.Keys(c.problemAt, c.warn)
	c.header(object, t)
	c.regexps = &param.Patterns{Namespaced: t.scope.Namespaced}
	if !templateName.MatchString(t.name) {
		c.problem((*manifest.Path)(nil).Fields("metadata", "name"), fmt.Sprintf("must be a DNS label: lower case letters, digits and -; got %s", show.Value(t.name)))
		t.name = ""
	}
	specAt := (*manifest.Path)(nil).Field("spec")
	if err := c.decodeSpec(object["spec"], &t.spec, specAt); err != nil {
		c.problem(specAt, "cannot be read: "+show.Plain(err.Error()))
		return
	}
	c.spec = &t.spec
	if t.scope.Namespaced {
		c.namespacedFields(object["spec"], specAt)
		o.Values = nil // the template's author need not be allowed to see them
	}
	t.foreign = foreignSidecars(o, t.spec.Required)
	values, err := canonical(o.Values)
	if err != nil {
		c.problem(nil, "the installer's values are no JSON: "+show.Plain(err.Error()))
		return
	}
	c.rules(specAt)
	t.verify = c.verification(specAt.Field("verify"))
	c.selectors(t, specAt)
	c.canary(t, object["spec"], o, specAt)
	c.exceptions(t, specAt.Field("exceptions"))
	c.parameters(t, values, specAt.Field("parameters"))
	c.expressions(t, values, specAt)
	if c.env == nil {
		return
	}
	if read := c.env.Values(); t.scope.Namespaced && (read.Whole || len(read.Fields) > 0) {
		c.problem(specAt, "an expression reads values, the installer's; a "+v1alpha1.NamespacedKind+" cannot: take a parameter with a default")
	}
	if len(c.problems) > 0 {
		return
	}
	c.unused(t, specAt.Field("parameters"))
	t.hash = hashOf(t.spec, valuesRead(values, c.env.Values()), t.foreignSidecarsRead())
	if t.probe(c); len(c.problems) > 0 || o.Check == nil {
		return
	}
	if err := o.Check(t); err != nil {
		c.problem(specAt.Field("inject"), err.Error())
	}
}

// header checks everything but the spec and the status. Pillion writes the status.
func (c *compiler) header(object map[string]any, t *Template) {
	if object["apiVersion"] != v1alpha1.APIVersion {
		c.problem((*manifest.Path)(nil).Field("apiVersion"), fmt.Sprintf("must be %s; got %s", v1alpha1.APIVersion, shownAny(object["apiVersion"])))
	}
	metadata, _ := object["metadata"].(map[string]any)
	switch object["kind"] {
	case v1alpha1.Kind:
	case v1alpha1.NamespacedKind:
		t.scope.Namespaced = true
		t.scope.Namespace, _ = metadata["namespace"].(string)
	default:
		c.problem((*manifest.Path)(nil).Field("kind"), fmt.Sprintf("must be %s or %s; got %s", v1alpha1.Kind, v1alpha1.NamespacedKind, shownAny(object["kind"])))
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := (*manifest.Path)(nil).Field(key)
		switch key {
		case "apiVersion", "kind", "spec", "status":
		case "metadata":
			manifest.Check(object[key], reflect.TypeFor[metav1.ObjectMeta](), at, c.problem)
		default:
			c.problem(at, "unknown field"+nearest.Hint(key, []string{"apiVersion", "kind", "metadata", "spec", "status"}))
		}
	}
}

func shownAny(v any) string {
	if text, ok := v.(string); ok {
		return show.Value(text)
	}
	if v == nil {
		return "missing"
	}
	return show.Kind(v)
}

// decodeSpec decodes the spec, reports the fields that do not fit, and sets the defaults.
func (c *compiler) decodeSpec(raw any, spec *v1alpha1.SidecarTemplateSpec, at *manifest.Path) error {
	if raw == nil {
		c.problem(at, "is missing")
	}
	data, err := json.Marshal(manifest.Check(raw, reflect.TypeOf(*spec), at, c.problem))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, spec); err != nil {
		return err
	}
	if spec.OnConflict == "" {
		spec.OnConflict = v1alpha1.ConflictDeny
	}
	if spec.OnError == "" {
		spec.OnError = v1alpha1.ErrorDeny
	}
	if spec.PodResources == "" {
		spec.PodResources = v1alpha1.PodResourcesAdd
	}
	if spec.OS == nil {
		spec.OS = []v1alpha1.OperatingSystem{v1alpha1.Linux}
	}
	return nil
}

// rules checks the policies, and fields that depend on each other.
func (c *compiler) rules(at *manifest.Path) {
	policy := func(field, got string, allowed ...string) {
		if !slices.Contains(allowed, got) {
			c.problem(at.Field(field), fmt.Sprintf("must be one of %s; got %s", strings.Join(allowed, ", "), show.Value(got)))
		}
	}
	policy("onConflict", string(c.spec.OnConflict), "Deny", "KeepPod", "Overwrite")
	policy("onError", string(c.spec.OnError), "Deny", "Skip")
	policy("podResources", string(c.spec.PodResources), "Add", "Keep")
	if c.spec.ContainerSecurity != "" {
		policy("containerSecurity", string(c.spec.ContainerSecurity), "Restricted")
	}
	c.systems(at.Field("os"))
	c.requirement(at)
}

// systems checks the operating systems.
func (c *compiler) systems(at *manifest.Path) {
	if len(c.spec.OS) == 0 {
		c.problem(at, "is empty; write linux, windows or both (suspend: true stops injection everywhere)")
	}
	for i, system := range c.spec.OS {
		switch {
		case system != v1alpha1.Linux && system != v1alpha1.Windows:
			c.problem(at.Item(i), fmt.Sprintf("must be one of linux, windows; got %s", show.Value(string(system))))
		case slices.Contains(c.spec.OS[:i], system):
			c.problem(at.Item(i), fmt.Sprintf("lists %s twice", show.Value(string(system))))
		}
	}
}

// requirement refuses fields with which a pod could get around a required template.
func (c *compiler) requirement(at *manifest.Path) {
	if !c.spec.Required {
		return
	}
	if c.spec.Match == nil {
		c.problem(at.Field("required"), "needs match, which says where pods cannot opt out")
	}
	if c.spec.Overridable {
		c.problem(at.Field("overridable"), "is true; a required template cannot be overridable, since every pod could then replace it")
	}
	if c.spec.OnConflict == v1alpha1.ConflictKeepPod {
		c.problem(at.Field("onConflict"), "must be Deny or Overwrite, not KeepPod: with KeepPod a pod could keep a required template out")
	}
	if c.spec.OnError == v1alpha1.ErrorSkip {
		c.problem(at.Field("onError"), "must be Deny, not Skip: with Skip a pod could make a required template fail and go without it")
	}
}

func (c *compiler) selectors(t *Template, at *manifest.Path) {
	t.availableTo = labels.Everything()
	if a := t.spec.AvailableTo; a != nil {
		t.availableTo = c.namespaceSelector(t, a.NamespaceSelector, at.Fields("availableTo", "namespaceSelector"))
	}
	m := t.spec.Match
	if m == nil {
		return
	}
	t.matchNamespace = c.namespaceSelector(t, m.NamespaceSelector, at.Fields("match", "namespaceSelector"))
	t.matchPod = c.podSelector(t, m.PodSelector, at.Fields("match", "podSelector"))
	if !t.scope.Namespaced && t.matchNamespace.Empty() && (t.matchPod.Empty() || t.spec.Required) && !t.spec.Suspend {
		then := "created without the sidecar"
		if t.spec.Required {
			then = "refused"
		}
		c.warn(at.Field("match"), "selects every namespace that is not excluded, default included: while Pillion does not answer, new pods there are "+then)
	}
}

// namespaceSelector compiles a selector of namespaces. Pillion keeps labels on namespaces
// because of selectors, so a selector cannot depend on such a label.
func (c *compiler) namespaceSelector(t *Template, s *metav1.LabelSelector, at *manifest.Path) labels.Selector {
	selector := c.selector(s, at)
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if key := r.Key(); key == v1alpha1.RequiredLabel || key == v1alpha1.InjectionLabel {
			c.problem(at, "selects by "+r.Key()+", a label that Pillion sets itself; select by a label of your own")
		}
	}
	return selector
}

// podSelector compiles a selector of pods. Templates do not see Pillion's labels on injected pods, so a
// selector by one would never match.
func (c *compiler) podSelector(t *Template, s *metav1.LabelSelector, at *manifest.Path) labels.Selector {
	selector := c.selector(s, at)
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if _, name, _ := strings.Cut(r.Key(), "/"); t.isReserved(r.Key()) && (name == "injected" || name == "hash") {
			c.problem(at, "selects by "+r.Key()+", a label that Pillion puts on injected pods and that templates do not see; select by a label of your own")
		}
	}
	return selector
}

// selector compiles a selector. A nil selector selects everything.
func (c *compiler) selector(s *metav1.LabelSelector, at *manifest.Path) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		message := show.Plain(err.Error())
		if strings.HasSuffix(message, "is not a valid label selector operator") {
			message += "; operators are In, NotIn, Exists, DoesNotExist"
		}
		c.problem(at, message)
		return labels.Nothing()
	}
	return selector
}

func (c *compiler) parameters(t *Template, values map[string]any, at *manifest.Path) {
	reported := map[string]bool{} // names that are no text
	for i, declared := range t.spec.Parameters {
		if name := at.Item(i).Field("name").String(); declared.Name == "" && c.hasProblemIn(name) {
			reported[name] = true
		}
	}
	of := param.Template{Name: t.name, Required: t.spec.Required, Patterns: c.regexps}
	t.parameters = param.Compile(of, t.spec.Parameters, at, func(at *manifest.Path, message string) {
		if !reported[at.String()] {
			c.problem(at, message)
		}
	})
	t.spec.Parameters = t.parameters.Declarations()
}

// expressions compiles all CEL expressions.
func (c *compiler) expressions(t *Template, values map[string]any, at *manifest.Path) {
	var err error
	c.env, err = expression.NewEnvironment(expression.Template{
		Parameters: t.spec.Parameters, Values: values, AllowUnknownFields: t.spec.AllowUnknownFields, Patterns: c.regexps,
		Problem: func(at expression.Place, message string) { c.problemAt(at.At, at.Line, message) },
		Warn:    func(at expression.Place, message string) { c.warn(at.At, message) },
	})
	if err != nil {
		c.problem(at, show.Plain(err.Error()))
		return
	}
	t.names = c.env.Names()
	c.variables(t, at.Field("variables"))
	c.matchConditions(t, at.Field("matchConditions"))
	c.validations(t, at.Field("validations"))
	c.fragment(t, at.Field("inject"))
	c.files(t, at.Field("files"))
}

var variableName = regexp.MustCompile(`\A[a-zA-Z_][a-zA-Z0-9_]*\z`)

func (c *compiler) variables(t *Template, at *manifest.Path) {
	seen := map[string]bool{}
	for i, v := range t.spec.Variables {
		here := at.Item(i)
		switch {
		case !variableName.MatchString(v.Name) || slices.Contains(param.Keywords, v.Name):
			c.problem(here.Field("name"), fmt.Sprintf("must have only letters, digits and _, and be none of %s; got %s", strings.Join(param.Keywords, ", "), show.Value(v.Name)))
			continue
		case seen[v.Name]:
			c.problem(here.Field("name"), fmt.Sprintf("the variable %s is there twice", v.Name))
			continue
		}
		source := here.Field("expression")
		seen[v.Name] = true
		c.env.Declare(v.Name, c.env.CompileVariable(v.Expression, c.textPlace(source, v.Expression, 0)))
	}
}

func (c *compiler) matchConditions(t *Template, at *manifest.Path) {
	seen := map[string]bool{}
	for i, m := range t.spec.MatchConditions {
		if holds, ok := c.rule("condition", m.Name, m.Expression, at.Item(i), seen); ok {
			t.conditions = append(t.conditions, holds)
		}
	}
}

func (c *compiler) validations(t *Template, at *manifest.Path) {
	seen := map[string]bool{}
	for i, v := range t.spec.Validations {
		holds, ok := c.rule("validation", v.Name, v.Expression, at.Item(i), seen)
		if !ok {
			continue
		}
		compiled := validation{declared: v, holds: holds}
		if source := v.MessageExpression; source != "" {
			compiled.message = c.env.CompileText(source, c.textPlace(at.Item(i).Field("messageExpression"), source, 0))
		}
		t.validations = append(t.validations, compiled)
	}
}

// rule compiles the expression of a named condition or validation. It reports false if there is no expression.
func (c *compiler) rule(kind, name, source string, at *manifest.Path, seen map[string]bool) (*expression.Expression, bool) {
	switch {
	case name == "":
		c.problem(at, "a "+kind+" needs a name")
	case seen[name]:
		c.problem(at.Field("name"), fmt.Sprintf("the %s %s is there twice", kind, show.Value(name)))
	}
	seen[name] = true
	if source == "" {
		c.problem(at, "a "+kind+" needs an expression")
		return nil, false
	}
	return c.boolean(c.env, source, at.Field("expression")), true
}

func (c *compiler) fragment(t *Template, at *manifest.Path) {
	if len(t.spec.Inject) == 0 {
		c.problem(at, "is missing; it must be a fragment of a pod: "+fragmentRoots)
		return
	}
	v, err := rawjson.Decode(t.spec.Inject)
	if err != nil {
		c.problem(at, "cannot be read: "+show.Plain(err.Error()))
		return
	}
	t.tree = c.node(v, here{at: at, typ: podschema.Pod(), env: c.env})
	t.reservedLine = map[string]int{}
	for _, field := range []string{"labels", "annotations"} {
		t.reservedLine[field] = c.source.Line(at.Fields("metadata", field))
	}
}

// unused warns of parameters that nothing reads.
func (c *compiler) unused(t *Template, at *manifest.Path) {
	for i, p := range t.spec.Parameters {
		if !c.env.Uses(p.Name) {
			c.warn(at.Item(i), fmt.Sprintf("the parameter %s is declared and never used", p.Name))
		}
	}
}

// Name returns the template's name.
func (t *Template) Name() string { return t.name }

// Hash returns 16 hex digits that identify the rendering: the spec with its defaults and without descriptions
// and examples, and the installer's values that its expressions read.
func (t *Template) Hash() string { return t.hash }

// Order returns the template's place among others: lower first.
func (t *Template) Order() int { return int(t.spec.Order) }

// Spec returns the spec with its defaults filled in. The caller must not change it.
func (t *Template) Spec() *v1alpha1.SidecarTemplateSpec { return &t.spec }

// Match returns the selectors of the pods that get the template without a request. Both must match. ok is false
// if the template has no match.
func (t *Template) Match() (namespace, pod labels.Selector, ok bool) {
	return t.matchNamespace, t.matchPod, t.spec.Match != nil
}

// AvailableTo reports whether a namespace with these labels may request the template.
func (t *Template) AvailableTo(namespaceLabels map[string]string) bool {
	return t.availableTo.Matches(labels.Set(namespaceLabels))
}

// Parameters returns the template's parameters, in the manifest's order.
func (t *Template) Parameters() []Parameter { return t.parameters.Parameters() }

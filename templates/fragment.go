package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// here is the current place of the fragment's compilation.
type here struct {
	at  *manifest.Path
	typ *podschema.Type
	env *expression.Environment
	// pod is the place in the pod: field names, and anItem for each item of a list.
	pod []string
	// atomic is set below an object or a list that the API treats as one value. The merge's directives are not
	// allowed there, because nothing is merged there.
	atomic bool
	// whole is set below an object that the merge treats as one value.
	whole bool
	// isItem is set for an item of a list, and keyed if the items of that list have keys. gathered is set if the
	// merge adds items to the list although the API treats it as one value.
	isItem, keyed, gathered bool
}

// anItem is the element of [here.pod] for an item of a list.
const anItem = "*"

func (h here) in(key string, typ *podschema.Type) here {
	below := h
	below.at, below.typ, below.pod = h.at.Field(key), typ, append(slices.Clone(h.pod), key)
	below.isItem, below.keyed, below.gathered = false, false, false
	// An atomic map is merged key by key.
	below.atomic = h.atomic || h.typ != nil && h.typ.Atomic() && h.typ.Kind() != podschema.Map
	below.whole = h.whole || h.typ.IsWhole()
	return below
}

func (h here) item(i int) here {
	below := h
	below.at, below.pod, below.typ = h.at.Item(i), append(slices.Clone(h.pod), anItem), nil
	below.isItem, below.keyed, below.gathered = true, false, false
	below.atomic = h.atomic || h.typ == nil || h.typ.Atomic()
	if h.typ != nil {
		below.typ, below.keyed = h.typ.Elem(), len(h.typ.Keys()) > 0
		below.gathered = !h.atomic && h.typ.Gathers()
	}
	return below
}

// where returns the place for the grammar of directives.
func (h here) where() directive.Where {
	return directive.Where{
		Path: h.pod, Item: h.isItem, Keyed: h.keyed, Gathered: h.gathered, Whole: h.typ.IsWhole(), Scalar: h.isScalar(), Inside: h.atomic || h.whole,
	}
}

// isScalar reports whether the schema has one scalar there.
func (h here) isScalar() bool { return h.typ != nil && h.typ.Kind() == podschema.Scalar }

// is reports whether the place in the pod has these elements.
func (h here) is(pod ...string) bool { return slices.Equal(h.pod, pod) }

// isOwnable reports whether the place is an item of a list in which required templates have items of their own.
func (h here) isOwnable() bool { return h.isContainer() || h.is("spec", "volumes", anItem) }

// isContainer reports whether the place is an item of a list of containers.
func (h here) isContainer() bool {
	return h.is("spec", "containers", anItem) || h.is("spec", "initContainers", anItem)
}

// fragmentRoots are the parts of a pod that a template may set.
const fragmentRoots = "metadata.labels, metadata.annotations and spec"

// forbidden returns the reason why a template may not set a part of the pod, "" if it may.
func forbidden(pod []string) string {
	switch {
	case slices.Equal(pod, []string{"spec", "ephemeralContainers"}):
		return "ephemeral containers cannot be injected"
	case pod[0] == "spec", slices.Equal(pod, []string{"metadata"}), pod[0] == "metadata" && (pod[1] == "labels" || pod[1] == "annotations"):
		return ""
	}
	return "a template may set only " + fragmentRoots
}

// node compiles a value of the fragment. It returns nil if v has problems.
func (c *compiler) node(v any, h here) node {
	switch v := v.(type) {
	case map[string]any:
		if h.isScalar() && slices.ContainsFunc(slices.Collect(maps.Keys(v)), isDirective) {
			return c.directed(v, h)
		}
		if h.typ != nil && h.typ.Kind() != podschema.Struct && h.typ.Kind() != podschema.Map {
			c.problem(h.at, fmt.Sprintf("must be %s; got an object%s", h.typ.Words(), quoteHint(v, h.typ)))
			return nil
		}
		return c.mapping(v, h)
	case []any:
		if h.typ != nil && h.typ.Kind() != podschema.List {
			c.problem(h.at, fmt.Sprintf("must be %s; got a list%s", h.typ.Words(), listHint(v, h.typ)))
			return nil
		}
		return c.sequence(v, h)
	case string:
		return c.text(v, h)
	case nil:
		c.problem(h.at, "is null, which sets nothing; leave it out, or write {} or []")
		return nil
	}
	return c.constantScalar(v, h)
}

// quoteHint completes a message about an object in place of a text. A text with a colon and a space is an
// object in YAML, unless it is quoted.
func quoteHint(v map[string]any, t *podschema.Type) string {
	if len(v) != 1 || !takesText(t) {
		return ""
	}
	for key, value := range v {
		switch value.(type) {
		case string, json.Number, bool:
			return fmt.Sprintf("; for the text quote all of it: %s", show.Value(fmt.Sprintf("%s: %v", key, value)))
		}
	}
	return ""
}

// listHint completes a message about a list in place of a text.
func listHint(v []any, t *podschema.Type) string {
	if !takesText(t) || len(v) == 0 {
		return ""
	}
	words := make([]string, len(v))
	for i, item := range v {
		text, ok := item.(string)
		if !ok {
			return ""
		}
		words[i] = text
	}
	return fmt.Sprintf("; for one text write %s", show.Value(strings.Join(words, ",")))
}

func takesText(t *podschema.Type) bool {
	return t.Kind() == podschema.Scalar && t.Scalar() != podschema.Number && t.Scalar() != podschema.Boolean
}

// constantScalar compiles a scalar without expressions.
func (c *compiler) constantScalar(v any, h here) node {
	if h.typ == nil {
		return newConstant(h, v)
	}
	_, isText := v.(string)
	wrong := h.typ.Kind() != podschema.Scalar || !isText && h.typ.Scalar() == podschema.String
	if !wrong {
		fitted, err := convertScalar(v, h.typ)
		if err == nil {
			if err := h.typ.Validate(fitted); err != nil {
				c.problem(h.at, showScalar(fitted)+" "+err.Error())
				return nil
			}
			return newConstant(h, fitted)
		}
	}
	hint := ""
	if !isText && h.typ.Kind() == podschema.Scalar && h.typ.Scalar() == podschema.String {
		hint = "; quote it"
	}
	if isText && h.typ.Kind() == podschema.Scalar && h.typ.Scalar() == podschema.Number {
		hint = "; write digits alone"
		if _, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil {
			hint = "; remove the quotes"
		}
	}
	c.problem(h.at, fmt.Sprintf("must be %s; got %s, %s%s", h.typ.Words(), show.Kind(v), show.Value(fmt.Sprint(v)), hint))
	return nil
}

// otherExpression matches an expression in the syntax of Helm, of Tekton, or without braces, that reads what ours can.
var otherExpression = regexp.MustCompile(`\$(?:params|variables|namespaceObject)\.\w+|\{\{-?\s*\.?(?:params|pod|values|Values|variables|namespaceObject|container)\.[^}]*\}\}|\$\((?:params|pod|values|variables|namespaceObject|container)\.[^)]*\)`)

// text compiles a text, which may be an expression as a whole.
func (c *compiler) text(v string, h here) node {
	parts, err := expression.Scan(v)
	if err != nil {
		c.problem(h.at, err.Error())
		return nil
	}
	if other := otherExpression.FindString(v); other != "" {
		c.warn(h.at, fmt.Sprintf("has the plain text %s, which nothing replaces; an expression is written ${…}", show.Value(other)))
	}
	switch {
	case len(parts) == 0:
		return c.constantScalar("", h)
	case len(parts) == 1 && !parts[0].IsExpr:
		return c.constantScalar(parts[0].Text, h)
	case len(parts) == 1:
		return c.whole(v, parts[0], h)
	}
	if h.typ != nil && (h.typ.Kind() != podschema.Scalar || h.typ.Scalar() == podschema.Number || h.typ.Scalar() == podschema.Boolean) {
		c.problem(h.at, fmt.Sprintf("must be %s; got text with an expression in it: let the expression stand alone", h.typ.Words()))
	}
	return &text{Place: c.place(h.at), typ: h.typ, parts: c.textParts(v, parts, h)}
}

func (c *compiler) whole(v string, p expression.Part, h here) node {
	if len(h.pod) == 0 || h.is("metadata") || h.is("spec") {
		c.problem(h.at, "must be written out as an object")
		return nil
	}
	if c.spec.Required && (h.is("spec", "containers") || h.is("spec", "initContainers") || h.is("spec", "volumes") || h.isOwnable()) {
		c.problem(h.at, "is an expression; write out each container and volume: "+verifiedByName)
		return nil
	}
	compile := h.env.CompileValue
	if h.isItem {
		compile = h.env.CompileItem
	}
	e := compile(p.Text, c.textPlace(h.at, v, p.Offset), h.typ)
	if e == nil {
		return nil
	}
	return &whole{expression: e, typ: h.typ}
}

func (c *compiler) textParts(v string, parts []expression.Part, h here) []textPart {
	var compiled []textPart
	for _, p := range parts {
		if !p.IsExpr {
			compiled = append(compiled, textPart{literal: p.Text})
			continue
		}
		if e := h.env.CompileText(p.Text, c.textPlace(h.at, v, p.Offset)); e != nil {
			compiled = append(compiled, textPart{expression: e})
		}
	}
	return compiled
}

// mapping compiles an object. The list has already removed $for and $each.
func (c *compiler) mapping(v map[string]any, h here) node {
	m := &mapping{Place: c.place(h.at), typ: h.typ}
	c.directives(m, v, h)
	whole := map[string]any{}
	isConstant := m.condition == nil && !m.directed
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if isDirective(key) {
			continue
		}
		e, ok := c.entry(key, v[key], h)
		if !ok {
			continue
		}
		m.entries = append(m.entries, e)
		if known, ok := e.value.(*constant); ok && e.text == nil {
			whole[e.key] = known.value
		} else {
			isConstant = false
		}
	}
	if isConstant {
		return newConstant(h, whole)
	}
	return m
}

// directed compiles an object that replaces a scalar, with directives of its own.
func (c *compiler) directed(v map[string]any, h here) node {
	m := &mapping{Place: c.place(h.at), typ: h.typ, scalar: true}
	c.directives(m, v, h)
	if !m.directed {
		c.problem(h.at, fmt.Sprintf("must be %s; got an object. An expression can leave one value out: ${CONDITION ? VALUE : null}", h.typ.Words()))
		return nil
	}
	value, at := directive.Value(v), h
	at.at = h.at.Field("value")
	switch value.(type) {
	case nil:
		return nil // the grammar of directives has reported it
	case map[string]any, []any:
		c.problem(at.at, fmt.Sprintf("must be %s; got %s", h.typ.Words(), show.Kind(value)))
		return nil
	}
	n := c.node(value, at)
	if n == nil {
		return nil
	}
	m.entries = []entry{{key: "value", value: n}}
	return m
}

// entry compiles one key of an object and its value.
func (c *compiler) entry(key string, value any, h here) (entry, bool) {
	at := h.at.Field(key)
	parts, err := expression.Scan(key)
	if err != nil {
		c.problem(at, "in the key: "+err.Error())
		return entry{}, false
	}
	if slices.ContainsFunc(parts, func(p expression.Part) bool { return p.IsExpr }) {
		return c.computedEntry(key, parts, value, h)
	}
	literal := ""
	for _, p := range parts {
		literal += p.Text
	}
	if directive.Is(literal) {
		c.problem(at, "no key may begin with $")
		return entry{}, false
	}
	typ := h.typ.Child(literal)
	if typ == nil && h.typ != nil && !c.spec.AllowUnknownFields {
		hint := nearest.Hint(literal, h.typ.FieldNames())
		if slices.Contains(directive.Names(), "$"+literal) {
			hint = "; did you mean $" + literal + "?"
		}
		c.problem(at, "unknown field of a pod"+hint)
		return entry{}, false
	}
	below := h.in(key, typ)
	if why := forbidden(below.pod); why != "" {
		c.problem(at, why)
		return entry{}, false
	}
	n := c.node(value, below)
	return entry{key: literal, value: n}, n != nil
}

// computedEntry compiles a key with an expression in it.
func (c *compiler) computedEntry(key string, parts []expression.Part, value any, h here) (entry, bool) {
	at := h.at.Field(key)
	if h.typ != nil && h.typ.Kind() != podschema.Map {
		c.problem(at, "keys with expressions are for maps such as labels; the key must be one of "+strings.Join(h.typ.FieldNames(), ", "))
		return entry{}, false
	}
	inKey := h
	inKey.at = at
	compiled := c.textParts(key, parts, inKey)
	n := c.node(value, h.in(key, h.typ.Child(key)))
	return entry{key: key, text: compiled, value: n}, n != nil
}

// sequence compiles a list.
func (c *compiler) sequence(v []any, h here) node {
	q := &sequence{at: h.at, typ: h.typ}
	var whole []any
	isConstant := h.typ == nil || len(h.typ.Keys()) == 0
	for i, value := range v {
		below := h.item(i)
		it := item{Place: c.place(below.at)}
		if object, ok := value.(map[string]any); ok {
			c.requiredItem(object, below)
			c.plainFields(object, below, h.typ)
			value, below = c.repeats(object, &it, below)
		}
		if it.node = c.node(value, below); it.node == nil {
			continue
		}
		q.items = append(q.items, it)
		if known, ok := it.node.(*constant); ok && it.loop == nil && it.each == "" {
			whole = append(whole, known.value)
		} else {
			isConstant = false
		}
	}
	if isConstant || len(v) == 0 {
		if whole == nil {
			whole = []any{}
		}
		return newConstant(h, whole)
	}
	return q
}

// plainFields checks the fields that identify a list's item in the merge.
func (c *compiler) plainFields(v map[string]any, h here, list *podschema.Type) {
	if list == nil {
		return
	}
	for _, key := range list.Keys() {
		if _, object := v[key.Name].(map[string]any); object {
			c.problem(h.at.Field(key.Name), "names the item, and can have no directive; it must be "+list.Elem().Child(key.Name).Words())
			delete(v, key.Name)
		}
	}
	if _, object := v["image"].(map[string]any); object && h.isContainer() {
		c.problem(h.at.Field("image"), "can have no directive, since a container with an image is one value; put $onConflict on the container")
		delete(v, "image")
	}
}

// verifiedByName says why the compiler has to read names in a required template.
const verifiedByName = "the final pod is verified to have the containers and volumes of a required template, by their names"

// requiredItem checks an item of a list: the verification has to know the names of the containers and
// volumes that a required template injects.
func (c *compiler) requiredItem(v map[string]any, h here) {
	if !c.spec.Required || !h.isOwnable() || h.isContainer() && v["image"] == nil {
		return
	}
	if _, repeated := v[directive.For]; repeated {
		c.problem(h.at.Field(directive.For), "repeats the item; write out each container with an image and each volume: "+verifiedByName)
	}
	name, _ := v["name"].(string)
	if parts, err := expression.Scan(name); err == nil && slices.ContainsFunc(parts, func(p expression.Part) bool { return p.IsExpr }) {
		c.problem(h.at.Field("name"), "has an expression; write the name as plain text: "+verifiedByName)
	}
}

// repeats takes $for and $each off an item of a list.
func (c *compiler) repeats(v map[string]any, it *item, h here) (any, here) {
	forValue, hasFor := v[directive.For]
	eachValue, hasEach := v[directive.Each]
	if !hasFor && !hasEach {
		return v, h
	}
	rest := make(map[string]any, len(v))
	for key, value := range v {
		if key != directive.For && key != directive.Each {
			rest[key] = value
		}
	}
	switch {
	case hasFor && hasEach:
		c.problem(h.at, "has both $for and $each; use one of them")
	case hasFor:
		h = c.loop(forValue, it, h)
	default:
		h = c.each(eachValue, rest, it, h)
	}
	return rest, h
}

var loopText = regexp.MustCompile(`(?s)\A\s*([a-zA-Z_][a-zA-Z0-9_]*)\s+in\s+(.*\S)\s*\z`)

func (c *compiler) loop(v any, it *item, h here) here {
	at := h.at.Field(directive.For)
	source, _ := v.(string)
	found := loopText.FindStringSubmatchIndex(source)
	if found == nil {
		c.problem(at, `must be text of the form "NAME in EXPRESSION"`)
		return h
	}
	name, over := source[found[2]:found[3]], h.env.Compile(source[found[4]:found[5]], c.textPlace(at, source, found[4]))
	if over == nil {
		return h
	}
	it.loop = &loop{name: name, over: over}
	env, err := h.env.Bind(name, over)
	return c.bound(env, err, at, h)
}

func (c *compiler) each(v any, rest map[string]any, it *item, h here) here {
	at := h.at.Field(directive.Each)
	which, _ := v.(string)
	switch {
	case !h.is("spec", "containers", anItem):
		c.problem(at, "is only for items of spec.containers, from where it also extends init containers")
		return h
	case !slices.Contains([]each{eachApp, eachInit, eachAll}, each(which)):
		c.problem(at, "must be App, Init or All")
		return h
	}
	for _, no := range []struct{ key, why string }{
		{"name", "$each gives the name"},
		{"image", "an item with $each extends containers, and cannot have an image"},
		{directive.Position, "an item with $each extends containers, which keep their place"},
		{directive.Patch, "an item with $each extends containers; delete or replace one by its name"},
	} {
		if _, ok := rest[no.key]; ok {
			c.problem(h.at.Field(no.key), no.why)
			delete(rest, no.key)
		}
	}
	it.each = each(which)
	env, err := h.env.BindContainer()
	return c.bound(env, err, at, h)
}

// bound returns the place in an item whose environment has a further name.
func (c *compiler) bound(env *expression.Environment, err error, at *manifest.Path, h here) here {
	if err != nil {
		c.problem(at, err.Error())
		return h
	}
	h.env = env
	return h
}

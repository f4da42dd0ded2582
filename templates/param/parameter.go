package param

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Parameter is a parameter of a template, described for teams.
type Parameter struct {
	// Parameter is the declaration, with SetBy filled in.
	v1alpha1.Parameter
	// Annotation is the first annotation's full key. For a map it ends in ".KEY".
	Annotation string
	// Allowed describes the allowed values in words.
	Allowed string
}

// parameter is a declared parameter, compiled.
type parameter struct {
	decl v1alpha1.Parameter
	// suffix is the annotation's key after the template's prefix.
	suffix string
	// one is the type of the value, or of a list's items and a map's values.
	one *scalar
	// def and example are typed values, or nil.
	def     any
	example any
}

var (
	parameterName = regexp.MustCompile(`\A[a-z][a-zA-Z0-9]*\z`)
	// Keywords cannot be names in expressions, because they cannot follow a dot in CEL.
	Keywords       = []string{"in", "true", "false", "null"}
	parameterTypes = []string{"string", "integer", "number", "boolean", "quantity", "duration", "image", "json", "list", "map"}
)

// maxAnnotationName is the length that Kubernetes allows after the slash of an
// annotation's key.
const maxAnnotationName = 63

// compileParameter checks a declaration of a template. It returns nil if the parameter has
// no usable name or type.
func compileParameter(d v1alpha1.Parameter, of Template, at *manifest.Path, report Report) *parameter {
	if !parameterName.MatchString(d.Name) || slices.Contains(Keywords, d.Name) {
		report(at.Field("name"), fmt.Sprintf(wrongName, strings.Join(Keywords, ", "), show.Value(d.Name)))
		return nil
	}
	p := &parameter{decl: d, suffix: kebab(d.Name)}
	if len(p.suffix) > maxAnnotationName {
		report(at.Field("name"), fmt.Sprintf(longAnnotation, p.suffix, len(p.suffix), maxAnnotationName))
	}
	if !p.setType(of.Patterns, at, report) {
		return nil
	}
	p.setLevels(of.Required, at, report)
	p.checkSecond(at.Field("annotation"), report)
	p.def = p.manifestValue(d.Default, at.Field("default"), report)
	p.example = p.manifestValue(d.Example, at.Field("example"), report)
	return p
}

// setType compiles the type and its constraints. It reports false if the parameter has no valid type.
func (p *parameter) setType(patterns *Patterns, at *manifest.Path, report Report) bool {
	d := p.decl
	under := func(at *manifest.Path) func(field, message string) {
		return func(field, message string) { report(at.Field(field), message) }
	}
	_, isScalar := scalarKinds[d.Type]
	switch {
	case isScalar:
		if d.Items != nil {
			report(at.Field("items"), strayItems)
		}
		p.one = newScalar(d.Type, d.Constraints, patterns, under(at))
		return true
	case d.Type == "":
		report(at.Field("type"), fmt.Sprintf(noType, strings.Join(parameterTypes, ", ")))
		return false
	case !p.collection():
		report(at.Field("type"), fmt.Sprintf(wrongType, strings.Join(parameterTypes, ", "), show.Value(string(d.Type))))
		return false
	case d.Items == nil:
		report(at.Field("items"), fmt.Sprintf(noItems, d.Type))
		return false
	}
	if constrained(d.Constraints) {
		report(at, fmt.Sprintf(strayConstraints, d.Type, d.Items.Type))
	}
	if _, ok := scalarKinds[d.Items.Type]; !ok {
		report(at.Field("items"), fmt.Sprintf(wrongItems, strings.Join(parameterTypes[:8], ", "), show.Value(string(d.Items.Type))))
		return false
	}
	p.one = newScalar(d.Items.Type, d.Items.Constraints, patterns, under(at.Field("items")))
	return true
}

// anyKey ends the annotation of a map. It stands for the map's key.
const anyKey = "KEY"

// checkSecond checks the second annotation.
func (p *parameter) checkSecond(at *manifest.Path, report Report) {
	second := p.decl.SecondAnnotation
	if second == "" {
		return
	}
	domain, _, _ := strings.Cut(second, "/")
	switch problems := validation.IsQualifiedName(second); {
	case len(problems) > 0:
		report(at, fmt.Sprintf(noAnnotation, show.Value(second)))
	case domain == v1alpha1.Group || strings.HasSuffix(domain, "."+v1alpha1.Group):
		report(at, fmt.Sprintf(ownAnnotation, show.Value(second)))
	case p.decl.Type == v1alpha1.Map && (second == anyKey || !strings.HasSuffix(second, anyKey)):
		report(at, fmt.Sprintf(annotationOfMap, anyKey, show.Value(second)))
	}
}

func constrained(c v1alpha1.Constraints) bool {
	return len(c.Enum) > 0 || c.Pattern != "" || c.Minimum != nil || c.Maximum != nil || c.MaxLength != nil
}

func (p *parameter) setLevels(required bool, at *manifest.Path, report Report) {
	switch {
	case p.decl.SetBy != nil:
	case required:
		p.decl.SetBy = []v1alpha1.Level{}
	default:
		p.decl.SetBy = []v1alpha1.Level{v1alpha1.Namespace, v1alpha1.Pod}
	}
	for i, level := range p.decl.SetBy {
		if level != v1alpha1.Namespace && level != v1alpha1.Pod {
			report(at.Field("setBy").Item(i), fmt.Sprintf(wrongLevel, show.Value(string(level))))
		}
	}
	if !p.setBy(FromNamespace) && !p.setBy(FromPod) && p.decl.Required && p.decl.Default == nil {
		report(at.Field("setBy"), nobodySets)
	}
}

func (p *parameter) collection() bool {
	return p.decl.Type == v1alpha1.List || p.decl.Type == v1alpha1.Map
}

// manifestValue parses a default or an example. It returns nil for an absent or invalid one.
func (p *parameter) manifestValue(raw json.RawMessage, at *manifest.Path, report Report) any {
	if raw == nil {
		return nil
	}
	var v any
	var err error
	switch p.decl.Type {
	case v1alpha1.List:
		v, err = p.manifestList(raw)
	case v1alpha1.Map:
		v, err = p.manifestMap(raw)
	default:
		v, err = p.one.fromManifest(raw)
	}
	if err != nil {
		report(at, err.Error())
		return nil
	}
	return v
}

func (p *parameter) manifestList(raw json.RawMessage) (any, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		list, part, err := p.parseList(text)
		if err != nil {
			return nil, fmt.Errorf("each item %w; got %s", err, shown(part, err))
		}
		return list, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, errors.New(wrongListValue)
	}
	list := make([]any, len(items))
	for i, item := range items {
		v, err := p.one.fromManifest(item)
		if err != nil {
			return nil, fmt.Errorf("item %d %w", i+1, err)
		}
		list[i] = v
	}
	return list, nil
}

func (p *parameter) manifestMap(raw json.RawMessage) (any, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, errors.New(wrongMapValue)
	}
	m := make(map[string]any, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		v, err := p.one.fromManifest(entries[key])
		if err != nil {
			return nil, fmt.Errorf("the key %s %w", show.Value(key), err)
		}
		m[key] = v
	}
	return m, nil
}

// parseList parses comma separated text. With an error it returns the item.
func (p *parameter) parseList(text string) (list []any, part string, err error) {
	list = []any{}
	if strings.TrimSpace(text) == "" {
		return list, "", nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		v, err := p.one.parse(part)
		if err != nil {
			return nil, part, err
		}
		list = append(list, v)
	}
	return list, "", nil
}

// key returns the annotation's full key under a template's prefix.
func (p *parameter) key(prefix string) string {
	if p.decl.Type == v1alpha1.Map {
		return prefix + p.suffix + "." + anyKey
	}
	return prefix + p.suffix
}

// setBy reports whether annotations of that origin may set the parameter.
func (p *parameter) setBy(from Origin) bool {
	return slices.Contains(p.decl.SetBy, v1alpha1.Level(from))
}

// sample returns a value for a test render if the manifest has none.
func (p *parameter) sample() (any, bool) {
	v, ok := p.one.sample()
	switch {
	case !ok:
		return nil, false
	case p.decl.Type == v1alpha1.List:
		return []any{v}, true
	case p.decl.Type == v1alpha1.Map:
		return map[string]any{"example": v}, true
	}
	return v, true
}

// kebab turns lowerCamelCase into kebab-case: logLevel to log-level, caURL to
// ca-url, proxyURLPath to proxy-url-path.
func kebab(camel string) string {
	var b strings.Builder
	for i := range len(camel) {
		if i > 0 && isUpper(camel[i]) {
			startsWord := !isUpper(camel[i-1])
			endsRun := i+1 < len(camel) && unicode.IsLower(rune(camel[i+1]))
			if startsWord || endsRun {
				b.WriteByte('-')
			}
		}
		b.WriteRune(unicode.ToLower(rune(camel[i])))
	}
	return b.String()
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

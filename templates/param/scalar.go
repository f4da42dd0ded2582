package param

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// scalar is a scalar parameter type with its constraints.
type scalar struct {
	kind    v1alpha1.ParameterType
	enum    []any
	pattern *regexp.Regexp
	min     any
	max     any
	// maxLength is in code points; negative means no bound.
	maxLength int64
	// allowed describes the allowed values in words, for errors.
	allowed string
}

// scalarKind has the operations of a scalar type.
type scalarKind struct {
	words   string
	parse   func(text string) (any, error)
	compare func(a, b any) int
	// pattern, length and enum are set if the type allows pattern, maxLength and enum.
	pattern, length, enum bool
	// samples are values to try if a manifest has no example.
	samples []string
}

var errNotAllowed = errors.New("not of the type")

// scalarKinds has every scalar type. Quantities and durations keep the author's text, and are compared by
// value.
var scalarKinds = map[v1alpha1.ParameterType]scalarKind{
	v1alpha1.String: {
		words: "text", pattern: true, length: true, enum: true,
		parse:   func(s string) (any, error) { return s, nil },
		samples: []string{"example", "1", "a", "A", "example.com", "/example", "https://example.com", "10.0.0.1", "1.0.0", "team/example", "true", "a@example.com", ""},
	},
	v1alpha1.Integer: {
		words: "a whole number", parse: parseInteger, compare: compareAs[int64], enum: true,
		samples: []string{"1", "0", "8080", "100", "-1"},
	},
	v1alpha1.Number: {
		words: "a number", parse: parseNumber, compare: compareAs[float64], enum: true,
		samples: []string{"1", "0", "0.5", "100", "-1"},
	},
	v1alpha1.Boolean: {
		words: "true or false", parse: parseBoolean, samples: []string{"true"},
	},
	v1alpha1.Quantity: {
		words: "a quantity such as 64Mi or 100m", parse: parseQuantityText, compare: compareQuantities, enum: true,
		samples: []string{"1", "64Mi", "100m", "1Gi", "1Ki", "0"},
	},
	v1alpha1.Duration: {
		words: "a duration such as 30s or 1h30m", parse: parseDurationText, compare: compareDurations, enum: true,
		samples: []string{"1s", "1m", "1h", "24h", "0s", "1ms"},
	},
	v1alpha1.Image: {
		words: "an image reference such as registry.example.com/team/app:1.2", parse: parseImage, pattern: true, length: true, enum: true,
		samples: []string{"registry.example.com/example:1", "example:1", "example"},
	},
	v1alpha1.JSON: {
		words: "JSON", parse: parseJSON, length: true,
	},
}

var (
	integerText  = regexp.MustCompile(`\A-?(?:0|[1-9][0-9]*)\z`)
	numberText   = regexp.MustCompile(`\A-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?\z`)
	quantityText = regexp.MustCompile(`\A[+-]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?\z`)
)

func parseInteger(s string) (any, error) {
	if !integerText.MatchString(s) {
		return nil, errNotAllowed
	}
	return strconv.ParseInt(s, 10, 64)
}

func parseNumber(s string) (any, error) {
	if !numberText.MatchString(s) {
		return nil, errNotAllowed
	}
	return strconv.ParseFloat(s, 64)
}

func parseBoolean(s string) (any, error) {
	if s != "true" && s != "false" {
		return nil, errNotAllowed
	}
	return s == "true", nil
}

// parseQuantityText parses a quantity as Kubernetes does. It refuses huge exponents, whose parsing would cost
// memory.
func parseQuantityText(s string) (any, error) {
	if !quantityText.MatchString(s) {
		return nil, errNotAllowed
	}
	_, err := resource.ParseQuantity(s)
	return s, err
}

func parseDurationText(s string) (any, error) {
	_, err := time.ParseDuration(s)
	return s, err
}

func parseImage(s string) (any, error) {
	if _, err := reference.Parse(s); err != nil {
		return nil, errNotAllowed
	}
	return s, nil
}

func parseJSON(s string) (any, error) { return rawjson.Decode([]byte(s)) }

func compareAs[T cmp.Ordered](a, b any) int { return cmp.Compare(a.(T), b.(T)) }

func compareQuantities(a, b any) int {
	x, y := resource.MustParse(a.(string)), resource.MustParse(b.(string))
	return x.Cmp(y)
}

func compareDurations(a, b any) int {
	x, _ := time.ParseDuration(a.(string))
	y, _ := time.ParseDuration(b.(string))
	return cmp.Compare(x, y)
}

// newScalar compiles a scalar type. It reports a mistake with the name of the field.
func newScalar(kind v1alpha1.ParameterType, c v1alpha1.Constraints, patterns *Patterns, report func(field, message string)) *scalar {
	k := scalarKinds[kind]
	s := &scalar{kind: kind, maxLength: -1, allowed: k.words}
	s.setPattern(k, c, patterns, report)
	s.setBounds(k, c, report)
	s.setEnum(k, c, report)
	s.describe(c)
	return s
}

func (s *scalar) setPattern(k scalarKind, c v1alpha1.Constraints, patterns *Patterns, report func(field, message string)) {
	switch {
	case c.Pattern == "":
	case !k.pattern:
		report("pattern", fmt.Sprintf(otherTypes, s.kind))
	default:
		if _, err := patterns.Compile(c.Pattern); err != nil {
			report("pattern", show.Plain(err.Error()))
			return
		}
		s.pattern = regexp.MustCompile(`\A(?:` + c.Pattern + `)\z`)
	}
	switch {
	case c.MaxLength == nil:
	case !k.length:
		report("maxLength", fmt.Sprintf(otherTypes, s.kind))
	case *c.MaxLength < 0:
		report("maxLength", fmt.Sprintf(negative, *c.MaxLength))
	default:
		s.maxLength = *c.MaxLength
	}
}

func (s *scalar) setBounds(k scalarKind, c v1alpha1.Constraints, report func(field, message string)) {
	least, greatest := s.bound(k, "minimum", c.Minimum, report), s.bound(k, "maximum", c.Maximum, report)
	s.min, s.max = least, greatest
	if s.min != nil && s.max != nil && k.compare(s.min, s.max) > 0 {
		report("minimum", greaterThanMaximum)
	}
}

func (s *scalar) bound(k scalarKind, field string, raw json.RawMessage, report func(field, message string)) any {
	if raw == nil {
		return nil
	}
	if k.compare == nil {
		report(field, fmt.Sprintf(otherTypes, s.kind))
		return nil
	}
	v, err := s.fromManifest(raw)
	if err != nil {
		report(field, err.Error())
		return nil
	}
	return v
}

func (s *scalar) setEnum(k scalarKind, c v1alpha1.Constraints, report func(field, message string)) {
	if len(c.Enum) == 0 {
		return
	}
	if !k.enum {
		report("enum", fmt.Sprintf(otherTypes, s.kind))
		return
	}
	var enum []any
	for i, raw := range c.Enum {
		v, err := s.fromManifest(raw)
		if err != nil {
			report("enum", fmt.Sprintf("value %d %v", i+1, err))
			continue
		}
		enum = append(enum, v)
	}
	s.enum = enum
}

// parse parses an annotation's text, or a part of it, and checks the constraints. Its error describes the
// allowed values.
func (s *scalar) parse(text string) (any, error) {
	v, err := scalarKinds[s.kind].parse(text)
	if err != nil {
		return nil, s.unreadable(text)
	}
	if !s.accepts(v, text) {
		return nil, errors.New("must be " + s.allowed)
	}
	return v, nil
}

// unreadable returns the error for a text that is not of the type. For json, whose text may be long, the error
// has the place of the mistake.
func (s *scalar) unreadable(text string) error {
	var syntax *json.SyntaxError
	if s.kind != v1alpha1.JSON || !errors.As(json.Unmarshal([]byte(text), new(json.RawMessage)), &syntax) {
		return errors.New("must be " + s.allowed)
	}
	at := int(syntax.Offset)
	if at > 0 && !strings.HasPrefix(syntax.Error(), "unexpected end") {
		at-- // the offset is after the byte that does not fit
	}
	return &placedError{message: "must be " + s.allowed + ": " + show.Plain(syntax.Error()), at: at}
}

// placedError is a mistake at a byte of a value.
type placedError struct {
	message string
	at      int
}

func (e *placedError) Error() string { return e.message }

// shown returns a value for a message about err: the part around the mistake if its place is known.
func shown(value string, err error) string {
	var placed *placedError
	if errors.As(err, &placed) {
		return show.Marked(value, placed.at)
	}
	return show.Value(value)
}

func (s *scalar) accepts(v any, text string) bool {
	compare := scalarKinds[s.kind].compare
	switch {
	case s.pattern != nil && !s.pattern.MatchString(text):
		return false
	case s.maxLength >= 0 && int64(utf8.RuneCountInString(text)) > s.maxLength:
		return false
	case s.min != nil && compare(v, s.min) < 0, s.max != nil && compare(v, s.max) > 0:
		return false
	case s.enum == nil:
		return true
	case compare != nil:
		return slices.ContainsFunc(s.enum, func(e any) bool { return compare(v, e) == 0 })
	}
	return slices.Contains(s.enum, v)
}

// fromManifest parses a value that the manifest has as text, or in the type's own JSON form.
func (s *scalar) fromManifest(raw json.RawMessage) (any, error) {
	v, err := rawjson.Decode(raw)
	if err != nil {
		return nil, err
	}
	text, err := s.manifestText(v, raw)
	if err != nil {
		return nil, err
	}
	parsed, err := s.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w; got %s", err, shown(text, err))
	}
	return parsed, nil
}

func (s *scalar) manifestText(v any, raw json.RawMessage) (string, error) {
	if text, ok := v.(string); ok {
		return text, nil
	}
	if s.kind == v1alpha1.JSON {
		return string(raw), nil
	}
	switch v := v.(type) {
	case json.Number:
		// YAML has already dropped zeros from 1.10, which matters only for text.
		if scalarKinds[s.kind].pattern && !integerText.MatchString(v.String()) {
			return "", fmt.Errorf(numberToYAML, show.Plain(v.String()))
		}
		return v.String(), nil
	case bool:
		if s.kind != v1alpha1.Boolean {
			return "", fmt.Errorf(booleanToYAML, v, s.allowed)
		}
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf(wrongKind, s.allowed, show.Kind(v))
}

// sample returns a value within the constraints, if one is easily found.
func (s *scalar) sample() (any, bool) {
	if len(s.enum) > 0 {
		return s.enum[0], true
	}
	for _, v := range []any{s.min, s.max} {
		if v != nil && s.accepts(v, textOf(v)) {
			return v, true
		}
	}
	for _, text := range scalarKinds[s.kind].samples {
		if v, err := s.parse(text); err == nil {
			return v, true
		}
	}
	return nil, false
}

// textOf writes a scalar as an annotation has it.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return manifest.FormatNumber(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return fmt.Sprint(v)
}

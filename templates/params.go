package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Origin tells where a parameter's value comes from.
type Origin string

// Where a parameter's value comes from.
const (
	// FromDefault is the template's default.
	FromDefault Origin = "Default"
	// FromNamespace is an annotation of the namespace.
	FromNamespace Origin = "Namespace"
	// FromPod is an annotation of the pod.
	FromPod Origin = "Pod"
)

// resolution is the parameters of one pod.
type resolution struct {
	// values has a typed value for each parameter that is not absent: string,
	// int64, float64, bool, []any, map[string]any, or any JSON.
	values   map[string]any
	origins  map[string]Origin
	warnings []string
}

// level is the annotations of one object that are this template's, by their key
// after the template's prefix.
type level struct {
	origin Origin
	values map[string]string
	// used has the keys that some parameter has taken.
	used map[string]bool
}

// resolveParams gives each parameter its value. The error is a *ParameterError.
func (t *Template) resolveParams(in Input) (*resolution, error) {
	levels := [2]*level{t.namespaceLevel(in.Namespace), t.podLevel(in.Pod)}
	r := &resolution{values: make(map[string]any, len(t.parameters)), origins: make(map[string]Origin, len(t.parameters))}
	var missing *parameter
	for _, p := range t.parameters {
		if err := t.resolveParam(p, levels, r); err != nil {
			return nil, err
		}
		if _, ok := r.origins[p.decl.Name]; missing == nil && p.decl.Required && !ok {
			missing = p
		}
	}
	if missing != nil {
		return nil, t.missing(missing, levels)
	}
	for _, l := range levels {
		r.warnings = append(r.warnings, t.unknownAnnotations(l)...)
	}
	return r, nil
}

func (t *Template) namespaceLevel(ns Namespace) *level {
	l := &level{origin: FromNamespace}
	for key, value := range ns.Annotations {
		l.take(t.annotations, key, value)
	}
	return l
}

func (t *Template) podLevel(pod map[string]any) *level {
	l := &level{origin: FromPod}
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key, value := range annotations {
		if text, ok := value.(string); ok {
			l.take(t.annotations, key, text)
		}
	}
	return l
}

func (l *level) take(prefix, key, value string) {
	suffix, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return
	}
	if l.values == nil {
		l.values, l.used = map[string]string{}, map[string]bool{}
	}
	l.values[suffix] = value
}

func (t *Template) resolveParam(p *parameter, levels [2]*level, r *resolution) error {
	resolve := t.resolveOne
	if p.decl.Type == v1alpha1.Map {
		resolve = t.resolveMap
	}
	value, origin, err := resolve(p, levels)
	if err != nil {
		return err
	}
	if m, ok := value.(map[string]any); ok && p.decl.Type == v1alpha1.Map && p.decl.Required && len(m) == 0 {
		return nil
	}
	if origin != "" {
		r.values[p.decl.Name], r.origins[p.decl.Name] = value, origin
	}
	return nil
}

// missing is the error for a required parameter without a value. It names the annotation
// that may have been meant for it.
func (t *Template) missing(p *parameter, levels [2]*level) error {
	message := fmt.Sprintf("is required by the template %s: set it on %s; want %s", t.name, p.levels(), p.allowed())
	for _, l := range levels {
		for _, suffix := range slices.Sorted(maps.Keys(l.values)) {
			if _, near := nearest.Name(suffix, []string{p.suffix}); near && !l.used[suffix] {
				message += fmt.Sprintf("; the %s has %s%s, which is no parameter: did you mean %s?", strings.ToLower(string(l.origin)), t.annotations, show.Plain(suffix), p.suffix)
			}
		}
	}
	return t.parameterError(p, "", "", "", message)
}

// resolveOne resolves anything but a map. Without a value the origin is empty.
func (t *Template) resolveOne(p *parameter, levels [2]*level) (any, Origin, error) {
	value, origin := p.def, Origin("")
	if p.decl.Default != nil {
		origin = FromDefault
	}
	for _, l := range levels {
		text, ok := l.values[p.suffix]
		if !ok {
			continue
		}
		l.used[p.suffix] = true
		v, err := t.parseAnnotation(p, l.origin, p.suffix, text)
		if err != nil {
			return nil, "", err
		}
		value, origin = v, l.origin
	}
	return value, origin, nil
}

// resolveMap gathers a map key by key. It is never absent.
func (t *Template) resolveMap(p *parameter, levels [2]*level) (any, Origin, error) {
	value, origin := map[string]any{}, FromDefault
	if def, ok := p.def.(map[string]any); ok {
		maps.Copy(value, def)
	}
	for _, l := range levels {
		if text, ok := l.values[p.suffix]; ok {
			return nil, "", t.parameterError(p, l.origin, p.suffix, text, fmt.Sprintf("is a map: set %s instead", p.key(t.annotations)))
		}
		for _, suffix := range slices.Sorted(maps.Keys(l.values)) {
			key, ok := strings.CutPrefix(suffix, p.suffix+".")
			if !ok {
				continue
			}
			l.used[suffix] = true
			v, err := t.parseAnnotation(p, l.origin, suffix, l.values[suffix])
			if err != nil {
				return nil, "", err
			}
			value[key], origin = v, l.origin
		}
	}
	return value, origin, nil
}

// parseAnnotation reads one annotation of a parameter, whose key after the
// template's prefix is suffix.
func (t *Template) parseAnnotation(p *parameter, from Origin, suffix, text string) (any, error) {
	if !p.setBy[from] {
		return nil, t.parameterError(p, from, suffix, text, fmt.Sprintf("may not be set there; it may be set by %s", p.levels()))
	}
	if p.decl.Type != v1alpha1.List {
		v, err := p.one.parse(text)
		if err != nil {
			return nil, t.parameterError(p, from, suffix, text, err.Error())
		}
		return v, nil
	}
	list, part, err := p.parseList(text)
	if err != nil {
		return nil, t.parameterError(p, from, suffix, text, fmt.Sprintf("the item %s of the list: %v", show.Value(part), err))
	}
	return list, nil
}

func (t *Template) parameterError(p *parameter, from Origin, suffix, text, message string) *ParameterError {
	e := &ParameterError{Template: t.name, Parameter: p.decl.Name, Annotation: p.key(t.annotations), Origin: from, Message: message}
	if from != "" {
		e.Annotation, e.Value = t.annotations+show.Plain(suffix), show.Value(text)
	}
	return e
}

// unknownAnnotations warns of annotations that are no parameter's.
func (t *Template) unknownAnnotations(l *level) []string {
	var warnings []string
	for _, suffix := range slices.Sorted(maps.Keys(l.values)) {
		if l.used[suffix] {
			continue
		}
		known := make([]string, len(t.parameters))
		for i, p := range t.parameters {
			known[i] = p.suffix
			if _, key, ok := strings.Cut(suffix, "."); ok && p.decl.Type == v1alpha1.Map {
				known[i] += "." + key
			}
		}
		warnings = append(warnings, fmt.Sprintf("annotation %s%s on the %s: the template %s has no such parameter%s",
			t.annotations, show.Plain(suffix), strings.ToLower(string(l.origin)), t.name, nearest.Hint(suffix, known)))
	}
	return warnings
}

// hash returns a short hash of the values, the same for equal values.
func (r *resolution) hash() string {
	text, err := json.Marshal(r.values)
	if err != nil {
		// Values are JSON, text and finite numbers.
		panic(fmt.Sprintf("templates: encoding parameters: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

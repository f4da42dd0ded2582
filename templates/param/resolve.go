package param

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Origin is the source of a parameter's value.
type Origin string

// The sources of a parameter's value.
const (
	// FromDefault is the template's default.
	FromDefault Origin = "Default"
	// FromNamespace is an annotation of the namespace.
	FromNamespace Origin = "Namespace"
	// FromPod is an annotation of the pod.
	FromPod Origin = "Pod"
)

// Values are the parameters of one pod.
type Values struct {
	// ByName has the typed value of each parameter with a value: string, int64, float64, bool, []any,
	// map[string]any, or any JSON.
	ByName map[string]any
	// Origins has the source of each value.
	Origins map[string]Origin
}

func newValues() *Values { return &Values{ByName: map[string]any{}, Origins: map[string]Origin{}} }

// Annotations are those of a pod and of its namespace.
type Annotations struct{ Namespace, Pod map[string]string }

// level has the annotations of one object.
type level struct {
	origin Origin
	// values are the template's annotations, by their key after the template's prefix.
	values map[string]string
	// used has the keys of values that belong to a parameter.
	used map[string]bool
	all  map[string]string
}

// setting is an annotation that sets a parameter, or one key of a map.
type setting struct{ annotation, key, text string }

// Resolve returns the parameters' values for a pod. Its error is an *Error.
func (s *Set) Resolve(a Annotations) (*Values, error) {
	levels := s.levels(a)
	v, err := s.resolveAll(levels)
	if err != nil {
		return nil, err
	}
	for _, p := range s.parameters {
		if _, ok := v.Origins[p.decl.Name]; p.decl.Required && !ok {
			return nil, s.missing(p, levels)
		}
	}
	if err := s.unknown(levels); err != nil {
		return nil, err
	}
	return v, nil
}

// ResolveExample is Resolve with examples, or made-up values, for parameters that neither an annotation nor a
// default sets: for required ones, and with all set for the others, too.
func (s *Set) ResolveExample(a Annotations, all bool) (*Values, error) {
	v, _, missing := s.Samples(all)
	if missing != "" {
		return nil, fmt.Errorf(noExample, missing, ErrNoExample)
	}
	levels := s.levels(a)
	given, err := s.resolveAll(levels)
	if err != nil {
		return nil, err
	}
	for name, origin := range given.Origins {
		if origin != FromDefault {
			v.ByName[name], v.Origins[name] = given.ByName[name], origin
		}
	}
	if err := s.unknown(levels); err != nil {
		return nil, err
	}
	return v, nil
}

// resolveAll returns the values from annotations and defaults.
func (s *Set) resolveAll(levels [2]*level) (*Values, error) {
	if err := s.tooLong(levels); err != nil {
		return nil, err
	}
	v := newValues()
	for _, p := range s.parameters {
		if err := s.resolve(p, levels, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// tooLong refuses annotations that are too long to match with the patterns of a template of a namespace.
func (s *Set) tooLong(levels [2]*level) error {
	bytes := 0
	for _, p := range s.parameters {
		if !s.namespaced || p.one.pattern == nil {
			continue
		}
		for _, l := range levels {
			for _, given := range s.settings(p, l) {
				if bytes += len(given.text); bytes > maxPatternInput {
					return s.mistake(p, l.origin, given.annotation, "", fmt.Sprintf(tooManyBytes, len(given.text), maxPatternInput))
				}
			}
		}
	}
	return nil
}

func (s *Set) levels(a Annotations) [2]*level {
	return [2]*level{s.level(FromNamespace, a.Namespace), s.level(FromPod, a.Pod)}
}

func (s *Set) level(origin Origin, annotations map[string]string) *level {
	l := &level{origin: origin, values: map[string]string{}, used: map[string]bool{}, all: annotations}
	for key, value := range annotations {
		if suffix, ok := strings.CutPrefix(key, s.prefix); ok {
			l.values[suffix] = value
		}
	}
	return l
}

// settings returns the annotations of an object that set a parameter: for a map one for each key, in the order
// of the keys, for any other type one at most. The second annotation counts where the first is absent.
func (s *Set) settings(p *parameter, l *level) []setting {
	if p.decl.Type == v1alpha1.Map {
		return s.mapSettings(p, l)
	}
	if text, ok := l.values[p.suffix]; ok {
		l.used[p.suffix] = true
		return []setting{{annotation: s.prefix + p.suffix, text: text}}
	}
	if text, ok := l.all[p.decl.SecondAnnotation]; ok && p.decl.SecondAnnotation != "" {
		return []setting{{annotation: p.decl.SecondAnnotation, text: text}}
	}
	return nil
}

func (s *Set) mapSettings(p *parameter, l *level) []setting {
	byKey := map[string]setting{}
	if before, ok := strings.CutSuffix(p.decl.SecondAnnotation, anyKey); ok {
		for annotation, text := range l.all {
			if key, ok := strings.CutPrefix(annotation, before); ok && key != "" {
				byKey[key] = setting{annotation, key, text}
			}
		}
	}
	for suffix, text := range l.values {
		if key, ok := strings.CutPrefix(suffix, p.suffix+"."); ok {
			l.used[suffix] = true
			byKey[key] = setting{s.prefix + suffix, key, text}
		}
	}
	all := make([]setting, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, byKey[key])
	}
	return all
}

func (s *Set) resolve(p *parameter, levels [2]*level, v *Values) error {
	resolve := s.resolveOne
	if p.decl.Type == v1alpha1.Map {
		resolve = s.resolveMap
	}
	value, origin, err := resolve(p, levels)
	if err != nil {
		return err
	}
	if origin != "" {
		v.ByName[p.decl.Name], v.Origins[p.decl.Name] = value, origin
	}
	return nil
}

// missing returns the error for a required parameter without a value. It suggests the annotation that may have
// been misspelt.
func (s *Set) missing(p *parameter, levels [2]*level) error {
	message := fmt.Sprintf(isMissing, s.name, p.levels(), p.allowed())
	for _, l := range levels {
		for _, suffix := range slices.Sorted(maps.Keys(l.values)) {
			if _, near := nearest.Name(suffix, []string{p.suffix}); near && !l.used[suffix] {
				message += fmt.Sprintf(nearAnnotation, strings.ToLower(string(l.origin)), s.prefix, show.Plain(suffix), p.key(s.prefix))
			}
		}
	}
	return s.mistake(p, "", "", "", message)
}

// resolveOne resolves any parameter but a map. Without a value the origin is empty.
func (s *Set) resolveOne(p *parameter, levels [2]*level) (any, Origin, error) {
	value, origin := p.def, Origin("")
	if p.decl.Default != nil {
		origin = FromDefault
	}
	for _, l := range levels {
		for _, given := range s.settings(p, l) {
			v, err := s.parseAnnotation(p, l.origin, given)
			if err != nil {
				return nil, "", err
			}
			value, origin = v, l.origin
		}
	}
	return value, origin, nil
}

// resolveMap collects a map key by key. An empty map counts as absent if the parameter is required.
func (s *Set) resolveMap(p *parameter, levels [2]*level) (any, Origin, error) {
	value, origin := map[string]any{}, FromDefault
	if def, ok := p.def.(map[string]any); ok {
		maps.Copy(value, def)
	}
	for _, l := range levels {
		if _, ok := l.values[p.suffix]; ok {
			return nil, "", s.mistake(p, l.origin, s.prefix+p.suffix, "", fmt.Sprintf(isMap, p.key(s.prefix)))
		}
		for _, given := range s.settings(p, l) {
			v, err := s.parseAnnotation(p, l.origin, given)
			if err != nil {
				return nil, "", err
			}
			value[given.key], origin = v, l.origin
		}
	}
	if p.decl.Required && len(value) == 0 {
		return nil, "", nil
	}
	return value, origin, nil
}

// parseAnnotation parses one annotation of a parameter.
func (s *Set) parseAnnotation(p *parameter, from Origin, given setting) (any, error) {
	if !p.setBy(from) {
		return nil, s.mistake(p, from, given.annotation, "", fmt.Sprintf(otherLevel, p.levels()))
	}
	if p.decl.Type != v1alpha1.List {
		v, err := p.one.parse(given.text)
		if err != nil {
			return nil, s.mistake(p, from, given.annotation, shown(given.text, err), err.Error())
		}
		return v, nil
	}
	list, part, err := p.parseList(given.text)
	if err != nil {
		return nil, s.mistake(p, from, given.annotation, shown(part, err), fmt.Sprintf("each item of the list %v", err))
	}
	return list, nil
}

// mistake returns an error about an annotation of a parameter. Without one, annotation is empty.
func (s *Set) mistake(p *parameter, from Origin, annotation, value, message string) *Error {
	own := p.key(s.prefix)
	e := &Error{Template: s.name, Parameter: p.decl.Name, Annotation: own, Other: p.decl.SecondAnnotation, Origin: from, Value: value, Message: message}
	if annotation != "" {
		e.Annotation = show.Plain(annotation)
	}
	if annotation != "" && !strings.HasPrefix(annotation, s.prefix) {
		e.Other = own
	}
	return e
}

// mostUnknown bounds the unknown annotations that one refusal names.
const mostUnknown = 4

// unknown refuses annotations that belong to no parameter. Their author expects an effect that would never
// come.
func (s *Set) unknown(levels [2]*level) error {
	var first *Error
	var more []string
	others := 0
	for _, l := range levels {
		if len(l.used) == len(l.values) {
			continue
		}
		for _, suffix := range slices.Sorted(maps.Keys(l.values)) {
			switch {
			case l.used[suffix]:
			case first == nil:
				first = &Error{Template: s.name, Annotation: s.prefix + show.Plain(suffix), Origin: l.origin,
					Message: fmt.Sprintf(noParameter, s.name, s.hint(suffix), s.name)}
			case len(more) < mostUnknown-1:
				more = append(more, fmt.Sprintf("%s%s on the %s", s.prefix, show.Plain(suffix), strings.ToLower(string(l.origin))))
			default:
				others++
			}
		}
	}
	if first == nil {
		return nil
	}
	if others > 0 {
		more = append(more, fmt.Sprintf("%d others", others))
	}
	if len(more) > 0 {
		first.Message += noneEither + strings.Join(more, ", ")
	}
	return first
}

// hint suggests the parameter that an annotation's key may have meant.
func (s *Set) hint(suffix string) string {
	known := make([]string, len(s.parameters))
	for i, p := range s.parameters {
		known[i] = p.suffix
		if _, key, ok := strings.Cut(suffix, "."); ok && p.decl.Type == v1alpha1.Map {
			known[i] += "." + show.Plain(key)
		}
	}
	return nearest.Hint(show.Plain(suffix), known)
}

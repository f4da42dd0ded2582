package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Release has the templates that the chart renders of a file of values, as for helm -f.
type Release struct {
	Templates []Template
	// Options has the values that the templates read.
	Options templates.Options
	// Mistakes are the values that the chart refuses.
	Mistakes []ReleaseMistake

	file   templates.Document
	values map[string]any
	// objects are the manifests, by the name of the template. steps has the place of each in the file.
	objects map[string]map[string]any
	steps   map[string][]any
}

// ReleaseMistake is a value that the chart refuses, with its place in the file.
type ReleaseMistake struct {
	Path    string
	Line    int
	Message string
}

// ReadRelease reads a file of values. It does what the chart's templates/_templates.tpl does.
func ReadRelease(source string, data []byte, o templates.Options) (*Release, error) {
	values, err := parseValues(source, data)
	if err != nil {
		return nil, err
	}
	r := &Release{Options: o, values: values, file: templates.Document{Manifest: data, Line: 1}, objects: map[string]map[string]any{}, steps: map[string][]any{}}
	if err := r.names(values); err != nil {
		return nil, fmt.Errorf("reading values from %s: %w", source, err)
	}
	r.settings(values)
	r.library(values)
	own := objectIn(values, "templates")
	for _, name := range slices.Sorted(maps.Keys(own)) {
		r.own(name, own[name])
	}
	defaults := objectIn(values, "parameterDefaults")
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		r.defaults(name, objectIn(defaults, name))
	}
	for _, name := range slices.Sorted(maps.Keys(r.objects)) {
		text, err := json.Marshal(r.objects[name])
		if err != nil {
			return nil, fmt.Errorf("reading values from %s: template %s: %w", source, name, err)
		}
		_, line := templates.Place(r.file, r.steps[name]...)
		r.Templates = append(r.Templates, Template{Source: source, Document: templates.Document{Manifest: text, Line: line}})
	}
	return r, nil
}

func (r *Release) mistake(message string, steps ...any) {
	path, line := templates.Place(r.file, steps...)
	r.Mistakes = append(r.Mistakes, ReleaseMistake{Path: path, Line: line, Message: message})
}

// valuesSchema is the part of the chart's values.schema.json that has the names of values.
type valuesSchema struct {
	Type                 any                     `json:"type"`
	Properties           map[string]valuesSchema `json:"properties"`
	AdditionalProperties any                     `json:"additionalProperties"`
}

// names refuses values that the chart does not have. Helm validates the rest of the schema.
func (r *Release) names(values map[string]any) error {
	var schema valuesSchema
	if err := json.Unmarshal(charts.ValuesSchema(), &schema); err != nil {
		return err
	}
	r.namesIn(values, schema)
	return nil
}

func (r *Release) namesIn(values map[string]any, schema valuesSchema, steps ...any) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		below, declared := schema.Properties[name]
		at := append(slices.Clone(steps), name)
		object, isObject := values[name].(map[string]any)
		switch {
		case !declared && schema.Properties != nil && schema.AdditionalProperties == false:
			r.mistake("the chart has no such value"+nearest.Hint(name, slices.Collect(maps.Keys(schema.Properties))), at...)
		case isObject:
			r.namesIn(object, below, at...)
		case declared && below.Type == "object" && values[name] != nil:
			r.mistake("must be an object; got "+show.Kind(values[name]), at...)
		}
	}
}

// settings reads the values that templates see, and the foreign sidecars.
func (r *Release) settings(values map[string]any) {
	global, of := map[string]any{}, objectIn(values, "global")
	if registry, _ := of["imageRegistry"].(string); registry != "" {
		global["imageRegistry"] = registry
	}
	secrets, _ := of["imagePullSecrets"].([]any)
	var names []any
	for _, secret := range secrets {
		if object, ok := secret.(map[string]any); ok {
			secret = object["name"]
		}
		names = append(names, secret)
	}
	if names != nil {
		global["imagePullSecrets"] = names
	}
	r.Options.Values = maps.Clone(objectIn(values, "templateValues"))
	if len(global) > 0 {
		maps.Copy(global, objectIn(r.Options.Values, "global"))
		if r.Options.Values == nil {
			r.Options.Values = map[string]any{}
		}
		r.Options.Values["global"] = global
	}
	if foreign, ok := values["foreignSidecars"].([]any); ok {
		r.Options.ForeignSidecars = []string{}
		for _, name := range foreign {
			r.Options.ForeignSidecars = append(r.Options.ForeignSidecars, fmt.Sprint(name))
		}
	}
}

// registryOf matches the registry of an image.
var registryOf = regexp.MustCompile(`^(localhost|[^/]*[.:][^/]*)/`)

// library adds the templates that library names.
func (r *Release) library(values map[string]any) {
	registry, _ := objectIn(values, "global")["imageRegistry"].(string)
	names, isList := values["library"].([]any)
	if !isList && values["library"] != nil {
		r.mistake("must be a list of names, such as [fluent-bit]", "library")
	}
	for i, item := range names {
		name := fmt.Sprint(item)
		text, err := charts.Template(name)
		object := map[string]any{}
		if err == nil {
			err = yaml.Unmarshal(text, &object)
		}
		if err != nil {
			r.mistake(fmt.Sprintf("there is no template %s%s", show.Value(name), nearest.Hint(name, charts.Names())), "library", i)
			continue
		}
		for _, p := range parametersIn(object) {
			if image, ok := p["default"].(string); ok && p["type"] == string(v1alpha1.Image) && registry != "" {
				p["default"] = strings.TrimSuffix(registry, "/") + "/" + registryOf.ReplaceAllString(image, "")
			}
		}
		r.objects[name], r.steps[name] = object, []any{"library", i}
	}
}

// own adds a template of the values: a spec, a manifest, or the text of one.
func (r *Release) own(name string, value any) {
	steps := []any{"templates", name}
	if text, ok := value.(string); ok {
		documents := templates.ParseFile([]byte(text))
		if len(documents) != 1 {
			r.mistake(fmt.Sprintf("the text has %d documents, and a template is one", len(documents)), steps...)
			return
		}
		var object map[string]any
		if err := yaml.Unmarshal(documents[0].Manifest, &object); err != nil {
			r.mistake("reading the text: "+show.Plain(err.Error()), steps...)
			return
		}
		value = object
	}
	object, ok := value.(map[string]any)
	if !ok {
		r.mistake("must be the spec of a SidecarTemplate, or a whole manifest; it is "+show.Kind(value), steps...)
		return
	}
	if object["kind"] == nil {
		object = map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "metadata": map[string]any{"name": name}, "spec": object}
	}
	spec := objectIn(object, "spec")
	switch is := objectIn(object, "metadata")["name"]; {
	case r.objects[name] != nil:
		r.mistake("library names a template of this name; take it out of one of the two, or choose another name", steps...)
		return
	case object["kind"] != v1alpha1.Kind || object["apiVersion"] != v1alpha1.APIVersion:
		r.mistake(fmt.Sprintf("is a %v of %v, and must be a SidecarTemplate of %s", object["kind"], object["apiVersion"], v1alpha1.APIVersion), steps...)
		return
	case is != name:
		r.mistake(fmt.Sprintf("its metadata.name is %v, and must be the key %s", is, name), steps...)
		return
	case spec == nil:
		r.mistake("has no spec", steps...)
		return
	case spec["suspend"] != nil:
		r.mistake("the chart never renders spec.suspend: take it out, and suspend by hand", steps...)
	}
	r.objects[name], r.steps[name] = object, steps
}

// defaults sets the defaults of a template's parameters. Those of a map are merged by key.
func (r *Release) defaults(name string, defaults map[string]any) {
	object := r.objects[name]
	if object == nil {
		r.mistake("neither library nor templates has a template of this name"+nearest.Hint(name, slices.Collect(maps.Keys(r.objects))), "parameterDefaults", name)
		return
	}
	parameters := parametersIn(object)
	for _, parameter := range slices.Sorted(maps.Keys(defaults)) {
		declared, ok := parameters[parameter]
		if !ok {
			r.mistake("the template has no such parameter"+nearest.Hint(parameter, slices.Collect(maps.Keys(parameters))), "parameterDefaults", name, parameter)
			continue
		}
		value := defaults[parameter]
		given, isMap := value.(map[string]any)
		if before, ok := declared["default"].(map[string]any); ok && isMap && declared["type"] == string(v1alpha1.Map) {
			all := maps.Clone(before)
			maps.Copy(all, given)
			value = all
		}
		declared["default"] = value
	}
}

// Place returns the place of a template's problem in the file: that of a default of parameterDefaults, or of the
// template with the path in it.
func (r *Release) Place(template, path string) (string, int) {
	if found := defaultOf.FindStringSubmatch(path); found != nil {
		index, _ := strconv.Atoi(found[1])
		list, _ := objectIn(r.objects[template], "spec")["parameters"].([]any)
		if index < len(list) {
			name := fmt.Sprint(objectAt(list, index)["name"])
			if objectIn(objectIn(r.values, "parameterDefaults"), template)[name] != nil {
				return templates.Place(r.file, "parameterDefaults", template, name)
			}
		}
	}
	at, line := templates.Place(r.file, r.steps[template]...)
	return strings.TrimSuffix(at+": "+path, ": "), line
}

var defaultOf = regexp.MustCompile(`^spec\.parameters\[(\d+)\]\.default`)

// parametersIn returns the parameters of a manifest by their names.
func parametersIn(object map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	list, _ := objectIn(object, "spec")["parameters"].([]any)
	for _, item := range list {
		if p, ok := item.(map[string]any); ok {
			all[fmt.Sprint(p["name"])] = p
		}
	}
	return all
}

func objectAt(list []any, index int) map[string]any {
	object, _ := list[index].(map[string]any)
	return object
}

func objectIn(of map[string]any, field string) map[string]any {
	object, _ := of[field].(map[string]any)
	return object
}

package param

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// defaultsValue is the key of the installer's values that replaces defaults of
// parameters, as values.defaults.TEMPLATE.PARAMETER. An admin sets an image's mirror,
// or an address that all teams of a cluster need, once, without changing the
// templates.
const defaultsValue = "defaults"

// installersDefaults returns the installer's values for parameters of the template, by
// name.
func (t Template) installersDefaults(declared []v1alpha1.Parameter, report Report) map[string]any {
	whole, ok := t.Values[defaultsValue].(map[string]any)
	if !ok {
		if v := t.Values[defaultsValue]; v != nil {
			report(nil, fmt.Sprintf("the installer's values.%s must be an object, not %s, as in %s: {%s: {PARAMETER: VALUE}}",
				defaultsValue, show.Kind(v), defaultsValue, t.Name))
		}
		return nil
	}
	own, ok := whole[t.Name].(map[string]any)
	if !ok && whole[t.Name] != nil {
		report(nil, fmt.Sprintf("the installer's values.%s.%s must be an object, not %s, as in {PARAMETER: VALUE}",
			defaultsValue, t.Name, show.Kind(whole[t.Name])))
	}
	names := make([]string, len(declared))
	for i, d := range declared {
		names[i] = d.Name
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if !slices.Contains(names, name) {
			report(nil, fmt.Sprintf("the installer's values.%s.%s.%s: the template has no such parameter%s",
				defaultsValue, t.Name, show.Plain(name), nearest.Hint(name, names)))
		}
	}
	return own
}

// withInstallersDefault returns the declaration with the installer's value as its
// default. A map is overlaid key by key, as annotations overlay it.
func withInstallersDefault(d v1alpha1.Parameter, value any) (v1alpha1.Parameter, error) {
	var below any
	if v, err := rawjson.Decode(d.Default); err == nil {
		below = v
	}
	raw, err := json.Marshal(overlaid(d.Type, below, value))
	d.Default = raw
	return d, err
}

// overlaid returns the installer's value above the default of a type.
func overlaid(of v1alpha1.ParameterType, below, above any) any {
	under, ok := below.(map[string]any)
	over, both := above.(map[string]any)
	if of != v1alpha1.Map || !ok || !both {
		return above
	}
	merged := maps.Clone(under)
	maps.Copy(merged, over)
	return merged
}

// ShowInstallersDefaults writes the installer's values for a template into the defaults of
// its parameters, as a manifest declares them. What is no declaration stays as it is: a
// manifest with mistakes is shown, too.
func ShowInstallersDefaults(declared any, template string, values map[string]any) {
	whole, _ := values[defaultsValue].(map[string]any)
	own, _ := whole[template].(map[string]any)
	list, _ := declared.([]any)
	for _, item := range list {
		d, _ := item.(map[string]any)
		name, _ := d["name"].(string)
		of, _ := d["type"].(string)
		if value, ok := own[name]; ok && d != nil {
			d["default"] = overlaid(v1alpha1.ParameterType(of), d["default"], value)
		}
	}
}

// installersReport reports a mistake in a default as the installer's.
func (t Template) installersReport(name string, at *manifest.Path, report Report) Report {
	of := at.Field("default").String()
	return func(where *manifest.Path, message string) {
		if where.String() == of {
			message = fmt.Sprintf("the installer's values.%s.%s.%s: %s", defaultsValue, t.Name, name, message)
		}
		report(where, message)
	}
}

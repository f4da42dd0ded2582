package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// defaultsValue is the key of the installer's values that replaces defaults of
// parameters, as values.defaults.TEMPLATE.PARAMETER: an admin's mirror of an image,
// or the address that all teams of a cluster need, is set once, for templates
// whose manifest is not theirs to change.
const defaultsValue = "defaults"

// installersDefaults returns what the installer's values have for parameters of
// the template, by name.
func (c *compiler) installersDefaults(t *Template, values map[string]any) map[string]any {
	whole, ok := values[defaultsValue].(map[string]any)
	if !ok {
		if values[defaultsValue] != nil {
			c.problem(nil, fmt.Sprintf("the installer's values.%s is %s; want an object, as in %s: {%s: {PARAMETER: VALUE}}",
				defaultsValue, show.Kind(values[defaultsValue]), defaultsValue, t.name))
		}
		return nil
	}
	own, ok := whole[t.name].(map[string]any)
	if !ok && whole[t.name] != nil {
		c.problem(nil, fmt.Sprintf("the installer's values.%s.%s is %s; want an object, as in {PARAMETER: VALUE}",
			defaultsValue, t.name, show.Kind(whole[t.name])))
	}
	var declared []string
	for _, p := range t.spec.Parameters {
		declared = append(declared, p.Name)
	}
	known := make(map[string]bool, len(declared))
	for _, name := range declared {
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if !known[name] {
			c.problem(nil, fmt.Sprintf("the installer's values.%s.%s.%s: the template has no such parameter%s",
				defaultsValue, t.name, show.Plain(name), nearest.Hint(name, declared)))
		}
	}
	return own
}

// withInstallersDefault returns the declaration with the installer's value as its
// default. A map is overlaid key by key, as annotations overlay it.
func withInstallersDefault(d v1alpha1.Parameter, value any) (v1alpha1.Parameter, error) {
	if above, ok := value.(map[string]any); ok && d.Type == v1alpha1.Map && d.Default != nil {
		var below map[string]any
		if v, err := manifest.DecodeJSON(d.Default); err == nil {
			below, _ = v.(map[string]any)
		}
		merged := maps.Clone(below)
		if merged == nil {
			merged = map[string]any{}
		}
		maps.Copy(merged, above)
		value = merged
	}
	raw, err := json.Marshal(value)
	d.Default = raw
	return d, err
}

// installersReport reports what is wrong with a default as the installer's fault,
// if it is theirs.
func (c *compiler) installersReport(t *Template, name string, at *manifest.Path) func(*manifest.Path, string) {
	of := at.Field("default").String()
	return func(where *manifest.Path, message string) {
		if where.String() == of {
			message = fmt.Sprintf("the installer's values.%s.%s.%s: %s", defaultsValue, t.name, name, message)
		}
		c.problem(where, message)
	}
}

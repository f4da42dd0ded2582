package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates/nearest"
)

// configure sets the flags that a functionConfig has.
func configure(o *manifests.Options, flags *pflag.FlagSet, config map[string]any) error {
	if config == nil {
		return nil
	}
	if config["apiVersion"] != "v1" || config["kind"] != "ConfigMap" {
		return fmt.Errorf("reading functionConfig: must be a ConfigMap of apiVersion v1, whose data has the flags of pillion-fn; got apiVersion %v and kind %v", config["apiVersion"], config["kind"])
	}
	fields := []string{"apiVersion", "kind", "metadata", "data"}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("reading functionConfig: it has the unknown field %q%s; the flags of pillion-fn are in data", name, nearest.Hint(name, fields))
		}
	}
	data, ok := config["data"].(map[string]any)
	if !ok && config["data"] != nil {
		return errors.New("reading functionConfig: data must be an object with the flags of pillion-fn")
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			names = append(names, f.Name)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(data)) {
		text, ok := data[name].(string)
		if !ok {
			return fmt.Errorf("reading functionConfig: data[%q] must be text: put it in quotes", name)
		}
		if name == "values" {
			o.ValuesText = text
			continue
		}
		if !slices.Contains(names, name) {
			return fmt.Errorf("reading functionConfig: data has the unknown key %q%s", name, nearest.Hint(name, names))
		}
		if err := flags.Set(name, text); err != nil {
			return fmt.Errorf("reading functionConfig: data[%q]: %w", name, err)
		}
	}
	return nil
}

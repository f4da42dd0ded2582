package main

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/injector/usage"
)

// namedMissing returns the templates that namespaces name and the replica has not, and those of
// which it has an old version only. A namespace can name anything, so they are no failure of Pillion's; `pillion prove` fails.
func (a answers) namedMissing() []string {
	var list []string
	for _, m := range a.metrics["pillion_unknown_template_namespaces"].GetMetric() {
		n, name := numberOf(m), labelsOf(m)["template"]
		switch {
		case n == 0:
		case name == usage.Others:
			list = append(list, fmt.Sprintf("other templates: %.0f namespaces name them, and they are not there", n))
		default:
			list = append(list, fmt.Sprintf("template %s: %.0f namespaces name it, and it is not there, so their pods are refused", name, n))
		}
	}
	for _, m := range a.metrics["pillion_template_info"].GetMetric() {
		if labels := labelsOf(m); labels["good"] == "false" {
			list = append(list, fmt.Sprintf("template %s: its newest manifest cannot be used, or is gone; its log says why", labels["template"]))
		}
	}
	slices.Sort(list)
	return list
}

// inUseProblems returns why the replica cannot record the templates in use.
func (a answers) inUseProblems() []string {
	if n, _ := a.value("pillion_in_use_record_failing"); n > 0 {
		return []string{"the templates in use cannot be recorded, so an upgrade that drops one is not held up"}
	}
	return nil
}

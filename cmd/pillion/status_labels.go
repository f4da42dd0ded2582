package main

import (
	"fmt"
	"slices"
)

// labelProblems returns the labels of namespaces that the replica cannot keep.
func (a answers) labelProblems() []string {
	var list []string
	for _, m := range a.metrics["pillion_namespaces_failing_label"].GetMetric() {
		if n := numberOf(m); n > 0 {
			list = append(list, fmt.Sprintf("label %s: cannot be written on %.0f namespaces, so what it asks for is not done there", labelsOf(m)["label"], n))
		}
	}
	slices.Sort(list)
	return list
}

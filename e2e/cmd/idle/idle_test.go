package main

import "testing"

func TestEveryTemplateIsAnother(t *testing.T) {
	kinds, err := readLibrary()
	if err != nil {
		t.Fatal(err)
	}
	names, specs := map[string]bool{}, map[string]bool{}
	for i := range 1000 {
		object, err := kinds.template(i)
		if err != nil {
			t.Fatal(err)
		}
		names[object.GetName()], specs[mustJSON(object.Object["spec"])] = true, true
	}
	if len(names) != 1000 || len(specs) != 1000 {
		t.Errorf("%d names and %d specs of 1,000 templates", len(names), len(specs))
	}
}

func TestNamespacesHaveNamesOfTheirOwn(t *testing.T) {
	names := map[string]bool{}
	for i := range 10_000 {
		names[namespace(i).Name] = true
	}
	if len(names) != 10_000 {
		t.Errorf("%d names of 10,000 namespaces", len(names))
	}
}

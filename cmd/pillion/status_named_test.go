package main

import (
	"slices"
	"testing"
)

func TestStatusNamesTheTemplatesThatNamespacesNameInVain(t *testing.T) {
	metrics, err := parseMetrics([]byte(`# TYPE pillion_unknown_template_namespaces gauge
pillion_unknown_template_namespaces{template="fluent-bit"} 5
pillion_unknown_template_namespaces{template="(others)"} 2
# TYPE pillion_template_info gauge
pillion_template_info{template="good",hash="1",good="true"} 1
pillion_template_info{template="lost",hash="2",good="false"} 1
# TYPE pillion_in_use_record_failing gauge
pillion_in_use_record_failing 1
`))
	if err != nil {
		t.Fatal(err)
	}
	a := answers{metrics: metrics}
	want := []string{"other templates: 2 namespaces name them, and they are not there", "template fluent-bit: 5 namespaces name it, and it is not there, so their pods are refused", "template lost: its newest manifest cannot be used, or is gone; its log says why"}
	if got := a.namedMissing(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := a.inUseProblems(); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if metrics, err = parseMetrics([]byte("pillion_unknown_template_namespaces{template=\"(others)\"} 0\npillion_in_use_record_failing 0\n")); err != nil {
		t.Fatal(err)
	}
	if a = (answers{metrics: metrics}); len(a.namedMissing())+len(a.inUseProblems()) != 0 {
		t.Errorf("without any: %q, %q", a.namedMissing(), a.inUseProblems())
	}
}

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

func TestTheProcessIsMeasured(t *testing.T) {
	const status = "Name:\tpillion\nVmHWM:\t  204800 kB\nVmRSS:\t   98304 kB\nRssFile:\t   20480 kB\n"
	for line, want := range map[string]float64{"VmRSS": 96, "VmHWM": 200, "RssFile": 20} {
		if got, err := statusMiB(status, line); err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", line, got, err, want)
		}
	}
	if _, err := statusMiB(status, "VmData"); err == nil {
		t.Error("a line that is not there has a value")
	}
	got, err := sums("# TYPE a gauge\na{x=\"1 {\"} 1\na{x=\"2\"} 1\n# TYPE b counter\nb 2.5e+06\n")
	if err != nil || got["a"] != 2 || got["b"] != 2.5e6 {
		t.Errorf("the sums are %v (%v)", got, err)
	}
	if _, err := sums("a x\n"); err == nil {
		t.Error("a line without a number is read")
	}
}

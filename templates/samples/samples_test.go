package samples_test

import (
	"testing"

	"github.com/pillion-dev/pillion/templates/samples"
)

func TestTheBundledPodsHaveDifferentNamesAndThoseOfTheRulesAreThere(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range samples.Bundled() {
		if s.Name == "" || seen[s.Name] || s.Pod["kind"] != "Pod" || s.Namespace.Name == "" {
			t.Errorf("sample %+v", s)
		}
		seen[s.Name] = true
	}
	for _, name := range []string{samples.Restricted, samples.Windows, samples.Job} {
		if !seen[name] {
			t.Errorf("there is no sample %s", name)
		}
	}
}

func TestEachCallMakesNewPods(t *testing.T) {
	first := samples.Bundled()
	first[0].Pod["kind"] = "changed"
	if samples.Bundled()[0].Pod["kind"] != "Pod" {
		t.Error("a change of one caller's pod shows in another's")
	}
}

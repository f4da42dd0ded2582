package main

import (
	"slices"
	"testing"
)

func TestOnlyTheModuleAndItsParsersAreInstrumented(t *testing.T) {
	for path, want := range map[string]bool{
		"github.com/pillion-dev/pillion/templates": true, "github.com/pillion-dev/pillion/templates_test": true, "encoding/json": true, "go.yaml.in/yaml/v3": true,
		"main": false, "encoding/jsonx": false, "encoding": false, "k8s.io/api/core/v1": false, "github.com/google/cel-go/cel": false, "": false,
	} {
		args := []string{"-o", "x.a", "-trimpath", "y", "-p", path, libfuzzer, "-pack", "a.go"}
		if got := slices.Contains(withoutCounters(args), libfuzzer); got != want {
			t.Errorf("%q is instrumented: %t, want %t", path, got, want)
		}
		if rest := len(args) - len(withoutCounters(args)); rest != 0 && rest != 1 {
			t.Errorf("%q: %d arguments are gone", path, rest)
		}
	}
	for _, args := range [][]string{nil, {"-p"}, {libfuzzer, "a.go"}} {
		if got := withoutCounters(args); !slices.Equal(got, args) {
			t.Errorf("%q became %q", args, got)
		}
	}
}

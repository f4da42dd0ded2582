package main

import (
	"slices"
	"strings"
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

// The Go command wants a version of at least three fields, and in a development version the
// build ID at the end.
func TestTheVersionNamesAnotherCompiler(t *testing.T) {
	for _, out := range []string{"compile version go1.26.8\n", "compile version go1.26.8 X:framepointer\n", "compile version devel go1.27-abc buildID=a/b\n"} {
		got, was := strings.Fields(namedVersion(out)), strings.Fields(out)
		if len(got) != len(was)+1 || !slices.Equal(got[:3], was[:3]) || len(was) > 3 && got[len(got)-1] != was[len(was)-1] {
			t.Errorf("%q became %q", out, got)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A module with every outcome that a go test can have.
var module = map[string]string{
	"go.mod":               "module m\n\ngo 1.26\n",
	"pass/pass_test.go":    "package pass\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Log(\"chatter\") }) }\n\nfunc TestB(t *testing.T) { t.Skip(\"not here\") }\n",
	"fail/fail_test.go":    "package fail\n\nimport \"testing\"\n\nfunc TestC(t *testing.T) { t.Error(\"wrong\") }\n",
	"broken/b_test.go":     "package broken\n\nimport \"testing\"\n\nfunc TestD(t *testing.T) { undefined() }\n",
	"panics/p_test.go":     "package panics\n\nimport \"testing\"\n\nfunc TestE(t *testing.T) { panic(\"down\") }\n",
	"none/none.go":         "package none\n",
	"ends/main_test.go":    "package ends\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { println(\"no ground\"); os.Exit(3) }\n\nfunc TestF(t *testing.T) {}\n",
	"others/other_test.go": "package others\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {}\n\nfunc TestTwo(t *testing.T) {}\n\nfunc TestThree(t *testing.T) {}\n",
}

func TestEachOutcomeCountsAndWhatFailedIsShown(t *testing.T) {
	dir := t.TempDir()
	for name, text := range module {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		packages      []string
		want          counts
		fails         bool
		shown, hidden []string
	}{
		{[]string{"./pass"}, counts{passed: 2, skipped: 1}, false, []string{"not here", "pass TestA"}, []string{"chatter"}},
		{[]string{"./fail"}, counts{failed: 1}, true, []string{"wrong", "fail_test.go:5"}, nil},
		{[]string{"./broken"}, counts{failed: 1}, true, []string{"undefined: undefined"}, nil},
		{[]string{"./panics"}, counts{failed: 1}, true, []string{"panic: down"}, nil},
		{[]string{"./ends"}, counts{failed: 1}, true, []string{"no ground"}, nil},
		{[]string{"./none", "./pass"}, counts{passed: 2, skipped: 1}, false, nil, nil},
		{[]string{"-run=T", "-skip=^TestTwo$", "./others"}, counts{passed: 2}, false, []string{"pass TestOne", "pass TestThree"}, nil},
		{[]string{"./pass", "./others"}, counts{passed: 5, skipped: 1}, false, []string{"pass m/others  3 tests"}, nil},
	} {
		t.Run(strings.Join(test.packages, " "), func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			got, err := run{dir: dir, args: append([]string{"-count=1"}, test.packages...)}.test(nil, &out)
			if (err != nil) != test.fails || got != test.want {
				t.Errorf("counted %v (%v), want %v\n%s", got, err, test.want, &out)
			}
			for _, text := range test.shown {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not shown:\n%s", text, &out)
				}
			}
			for _, text := range test.hidden {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is shown:\n%s", text, &out)
				}
			}
		})
	}
}

func TestEachRunHasItsOwnEnvironmentFolderAndArguments(t *testing.T) {
	got := split([]string{"unit tests", ".", "-race", "./...", "--", "on a node", "A=1", "B=", "e2e", "-ldflags=x", "./...", "--", "nothing"})
	want := []run{
		{title: "unit tests", dir: ".", args: []string{"-race", "./..."}},
		{title: "on a node", env: []string{"A=1", "B="}, dir: "e2e", args: []string{"-ldflags=x", "./..."}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("split gives %q, want %q", got, want)
	}
}

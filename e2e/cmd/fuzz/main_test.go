package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Lines of go test, as it prints them.
const (
	learning = "fuzz: elapsed: 0s, gathering baseline coverage: 0/40 completed\n"
	learned  = "fuzz: elapsed: 2s, gathering baseline coverage: 40/40 completed, now fuzzing with 1 workers\n"
	stillAt  = "fuzz: elapsed: 10s, gathering baseline coverage: 36/40 completed\nPASS\n"
)

func TestTheCountIsWhatWasTriedBeyondTheKnownInputs(t *testing.T) {
	for name, c := range map[string]struct {
		output, line string
	}{
		"the last count": {learning + learned + "fuzz: elapsed: 5s, execs: 100 (33/sec), new interesting: 1 (total: 9)\nfuzz: elapsed: 12s, execs: 50040 (50/sec), new interesting: 2 (total: 9)\nPASS\n",
			"FUZZ FuzzA execs=50000 found=0 per_second=5000"},
		"minutes":             {learned + "fuzz: elapsed: 1m42s, execs: 1000040 (50/sec), new interesting: 2 (total: 9)\n", "FUZZ FuzzA execs=1000000 found=0 per_second=10000"},
		"only known inputs":   {learning + stillAt, `FUZZ FuzzA execs=0 found=0 per_second=0 slow="unexplained"`},
		"known inputs, count": {learned + "fuzz: elapsed: 3s, execs: 40 (33/sec), new interesting: 0 (total: 9)\n", `FUZZ FuzzA execs=0 found=0 per_second=0 slow="unexplained"`},
		"a second of work":    {learned + "fuzz: elapsed: 2s, execs: 90 (33/sec), new interesting: 0 (total: 9)\n", `FUZZ FuzzA execs=50 found=0 per_second=50 slow="unexplained"`},
		"nothing at all":      {"", `FUZZ FuzzA execs=0 found=0 per_second=0 slow="unexplained"`},
	} {
		if got := readResult(c.output, false).line(target{name: "FuzzA"}); got != c.line {
			t.Errorf("%s: %s, want %s", name, got, c.line)
		}
	}
}

func TestASlowTargetSaysWhy(t *testing.T) {
	r := readResult(learned+"fuzz: elapsed: 12s, execs: 140 (10/sec), new interesting: 0 (total: 9)\n", false)
	want := `FUZZ FuzzA execs=100 found=0 per_second=10 slow="compiles an expression"`
	if got := r.line(target{name: "FuzzA", slow: "compiles an expression"}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestATargetThatTriedNothingOrFailedIsAFailure(t *testing.T) {
	tried := learned + "fuzz: elapsed: 12s, execs: 140 (10/sec), new interesting: 0 (total: 9)\n"
	for _, c := range []struct {
		output string
		failed bool
		want   string
	}{
		{tried, false, ""},
		{tried, true, "failed"},
		{learning + stillAt, false, "tried no input"},
		{learned, false, "tried no input"},
		{"FAIL\tbuild failed", true, "failed"},
		{tried + "--- FAIL: FuzzA (10.08s)\n    context deadline exceeded\nFAIL\nexit status 1\n", true, ""},
		{tried + "--- FAIL: FuzzA (10.08s)\n    context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzA/1\n", true, "failed"},
		{tried + "--- FAIL: FuzzA (10.08s)\n    --- FAIL: FuzzA (0.00s)\n        a_test.go:1: context deadline exceeded\n", true, "failed"},
	} {
		got := readResult(c.output, c.failed).problem()
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, failed %t: problem %q, want %q", c.output, c.failed, got, c.want)
		}
	}
}

func TestTargetsAreFoundInTheSourceWithTheReasonsOfSlowOnes(t *testing.T) {
	dir := t.TempDir()
	for name, source := range map[string]string{
		"a_test.go": "package x\n\nimport \"testing\"\n\n// FuzzA holds a law.\n//\n//fuzz:slow compiles an expression\nfunc FuzzA(f *testing.F) {}\n\n// FuzzB is fast.\nfunc FuzzB(f *testing.F) {}\n\n" +
			"func FuzzyMatch(s string) {}\n\nfunc (t T) FuzzC(f *testing.F) {}\n\nfunc TestFuzzD(t *testing.T) {}\n",
		"b_test.go": "package x_test\n\nimport \"testing\"\n\nfunc FuzzE(f *testing.F) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := testPackage{ImportPath: "example.com/x", Dir: dir, TestGoFiles: []string{"a_test.go"}, XTestGoFiles: []string{"b_test.go"}}.targets()
	want := []target{{"example.com/x", "FuzzA", "compiles an expression"}, {"example.com/x", "FuzzB", ""}, {"example.com/x", "FuzzE", ""}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("targets %v (%v), want %v", got, err, want)
	}
}

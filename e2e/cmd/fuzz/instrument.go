package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// instrument is the first argument when go build runs this command in place of a tool, by
// -toolexec: "fuzz instrument TOOL ARGUMENT…".
const instrument = "instrument"

// instrumented are the packages whose coverage guides the fuzzing, with those below them:
// this module, and the parsers through which all input comes.
//
// go test instruments everything that is linked, some two thousand packages here. It clears
// and reads a counter for each branch of all of them on every execution, and sends them
// between its processes as JSON. That takes 1 to 60 ms, in which a target does its work
// hundreds of times.
var instrumented = []string{
	"github.com/pillion-dev/pillion",
	"encoding/json",
	"encoding/pem",
	"go.yaml.in/yaml",
	"sigs.k8s.io/json",
	"sigs.k8s.io/yaml",
}

func isInstrumented(importPath string) bool {
	return slices.ContainsFunc(instrumented, func(p string) bool {
		return importPath == p || strings.HasPrefix(importPath, p+"/") || importPath == p+"_test"
	})
}

// libfuzzer is the compiler's flag that go test -fuzz adds for each package.
const libfuzzer = "-d=libfuzzer"

// withoutCounters returns the arguments of a call of the compiler, without the flag that
// instruments the package if the package is none of those that guide the fuzzing.
func withoutCounters(args []string) []string {
	i := slices.Index(args, "-p")
	if i < 0 || i+1 == len(args) || isInstrumented(args[i+1]) {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == libfuzzer })
}

// runTool runs a tool of the Go toolchain. It returns the exit code.
func runTool(tool string, args []string) (int, error) {
	isCompiler := strings.TrimSuffix(path.Base(strings.ReplaceAll(tool, `\`, "/")), ".exe") == "compile"
	if isCompiler {
		args = withoutCounters(args)
	}
	cmd := exec.Command(tool, args...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	if !isCompiler || !slices.Equal(args, []string{"-V=full"}) {
		cmd.Stdout = os.Stdout
		return exitCode(cmd.Run())
	}
	// The version names this compiler in the build cache. What it compiles differs from
	// what go test has there under the same flags.
	out, err := cmd.Output()
	if err == nil {
		fmt.Println(namedVersion(string(out)))
	}
	return exitCode(err)
}

// namedVersion returns the compiler's version with the packages that it instruments. A
// development version ends in the field buildID.
func namedVersion(out string) string {
	fields := strings.Fields(out)
	return strings.Join(slices.Insert(fields, min(3, len(fields)), "counting:"+strings.Join(instrumented, ",")), " ")
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// Command fuzz runs every fuzz target of the module in the current folder, one after the
// other, and prints for each
//
//	FUZZ <target> execs=<n> found=<n>
//
// where found is 1 if the target failed: go test then has written the input to the
// package's testdata/fuzz, and what it says stands above the line.
//
//	fuzz -time 1m
//
// It exits with 1 if anything was found, and if there is no target.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	duration := flag.String("time", "1m", "how long each target runs, as go test -fuzztime has it")
	flag.Parse()
	found, err := fuzzAll(*duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	if found > 0 {
		os.Exit(1)
	}
}

// fuzzAll returns how many targets failed.
func fuzzAll(duration string) (int, error) {
	targets, err := list()
	if err != nil {
		return 0, err
	}
	if len(targets) == 0 {
		return 0, fmt.Errorf("no fuzz target in the module")
	}
	failed := 0
	for _, t := range targets {
		// Without a bound, one input whose coverage is not always the same is minimized for
		// a minute, in which nothing else is tried.
		out, err := exec.Command("go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+duration, "-fuzzminimizetime=1s", t.pkg).CombinedOutput()
		found := 0
		if err != nil {
			fmt.Printf("%s", out)
			found = 1
		}
		fmt.Printf("FUZZ %s execs=%s found=%d\n", t.name, executions(string(out)), found)
		failed += found
	}
	return failed, nil
}

type target struct{ pkg, name string }

// list asks go test for the targets: it prints the names of a package, then the package.
func list() ([]target, error) {
	cmd := exec.Command("go", "test", "-list=^Fuzz", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the targets: %w\n%s", err, out)
	}
	return parseList(string(out)), nil
}

func parseList(out string) []target {
	var targets []target
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && strings.HasPrefix(fields[0], "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			for _, name := range names {
				targets = append(targets, target{pkg: fields[1], name: name})
			}
			names = nil
		}
	}
	return targets
}

var execsPattern = regexp.MustCompile(`execs: (\d+)`)

// executions is the last count that go test reported.
func executions(out string) string {
	all := execsPattern.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return "0"
	}
	return all[len(all)-1][1]
}

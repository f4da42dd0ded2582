package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"gotest.tools/gotestsum/testjson"
)

func main() {
	runs := split(os.Args[1:])
	if len(runs) == 0 {
		fmt.Fprintln(os.Stderr, "usage: tally TITLE [NAME=VALUE]... DIR [ARGUMENT of go test]... [-- TITLE [NAME=VALUE]... DIR [ARGUMENT]...]...")
		os.Exit(2)
	}
	// A Ctrl-C reaches the tests too; what they still have to say is waited for.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	var total counts
	for i, r := range runs {
		fmt.Printf("== %d of %d: %s\n", i+1, len(runs), r.title)
		c, err := r.test(interrupted, os.Stdout)
		if err != nil {
			fmt.Printf("%s: %v\n", r.title, err)
			c.failed = max(c.failed, 1)
		}
		total.add(c)
	}
	fmt.Println(total)
	if total.failed > 0 || total.passed == 0 {
		os.Exit(1)
	}
}

// counts are the outcomes of tests and subtests.
type counts struct{ passed, failed, skipped int }

func (c *counts) add(o counts) {
	c.passed += o.passed
	c.failed += o.failed
	c.skipped += o.skipped
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// A run is one `go test`.
type run struct {
	title string
	env   []string
	dir   string
	args  []string
}

func split(words []string) []run {
	var runs []run
	var r []string
	for _, word := range append(words, "--") {
		if word != "--" {
			r = append(r, word)
			continue
		}
		if len(r) > 1 {
			one := run{title: r[0]}
			r = r[1:]
			for len(r) > 1 && strings.Contains(r[0], "=") {
				one.env, r = append(one.env, r[0]), r[1:]
			}
			one.dir, one.args = r[0], r[1:]
			runs = append(runs, one)
		}
		r = nil
	}
	return runs
}

// single reports whether the arguments name no more than one package.
func (r run) single() bool {
	packages := slices.DeleteFunc(slices.Clone(r.args), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	return len(packages) < 2 && !strings.HasSuffix(strings.Join(packages, ""), "...")
}

// test runs go test, passing signals on to it, and counts. The error says that go test
// itself failed, which failing tests make it do too.
func (r run) test(signals <-chan os.Signal, out io.Writer) (counts, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, r.args...)...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), r.env...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return counts{}, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return counts{}, err
	}
	if err := cmd.Start(); err != nil {
		return counts{}, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case signal := <-signals:
				_ = cmd.Process.Signal(signal) // an error means that it has ended
			case <-ended:
				return
			}
		}
	}()
	report := newReport(out, r.single())
	all, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: stdout, Stderr: stderr, Handler: report, IgnoreNonJSONOutputLines: true})
	report.end()
	waitErr := cmd.Wait()
	if err != nil {
		return counts{}, fmt.Errorf("reading from go test: %w", err)
	}
	testjson.PrintSummary(out, all, testjson.SummarizeFailed|testjson.SummarizeSkipped|testjson.SummarizeErrors|testjson.SummarizeOutput)
	c := counts{failed: len(all.Failed()), skipped: len(all.Skipped())}
	for _, name := range all.Packages() {
		c.passed += len(all.Package(name).Passed)
	}
	return c, waitErr
}

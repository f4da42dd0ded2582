package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

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

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Key, Value                                string
	Elapsed                                   float64
}

// counter follows the packages of one `go test -json`.
type counter struct {
	out      io.Writer
	total    counts
	packages map[string]*pkg
}

// pkg is a package under way: its counts, and what its unfinished tests wrote.
type pkg struct {
	counts counts
	tests  map[string]*strings.Builder
}

// count reads a `go test -json` to its end. Lines that are not JSON go to out as they are.
func count(in io.Reader, out io.Writer) (counts, error) {
	c := counter{out: out, packages: map[string]*pkg{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(out, line)
			} else {
				c.event(e)
			}
		}
		if err == io.EOF {
			return c.total, nil
		}
		if err != nil {
			return c.total, fmt.Errorf("reading from go test: %w", err)
		}
	}
}

func (c *counter) event(e event) {
	switch {
	case e.Action == "build-output":
		fmt.Fprint(c.out, e.Output)
	case e.Package == "":
	case e.Test == "":
		c.packageEvent(e)
	default:
		c.testEvent(e)
	}
}

func (c *counter) pkg(name string) *pkg {
	p := c.packages[name]
	if p == nil {
		p = &pkg{tests: map[string]*strings.Builder{}}
		c.packages[name] = p
	}
	return p
}

func (c *counter) testEvent(e event) {
	p := c.pkg(e.Package)
	output := p.tests[e.Test]
	if output == nil {
		output = &strings.Builder{}
		p.tests[e.Test] = output
	}
	switch e.Action {
	case "output":
		output.WriteString(e.Output)
	case "attr":
		fmt.Fprintf(c.out, "  %s: %s: %s\n", e.Test, e.Key, e.Value)
	case "pass":
		p.counts.passed++
		delete(p.tests, e.Test)
	case "skip":
		p.counts.skipped++
		fmt.Fprint(c.out, output)
		delete(p.tests, e.Test)
	case "fail":
		p.counts.failed++
		fmt.Fprint(c.out, output)
		delete(p.tests, e.Test)
	}
}

func (c *counter) packageEvent(e event) {
	p := c.pkg(e.Package)
	switch e.Action {
	case "output":
		if !summary(e.Output) {
			fmt.Fprint(c.out, e.Output)
		}
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	for name, output := range p.tests {
		p.counts.failed++
		fmt.Fprintf(c.out, "%s: %s did not end\n%s", e.Package, name, output)
	}
	if e.Action == "fail" && p.counts.failed == 0 {
		p.counts.failed++
	}
	if p.counts != (counts{}) {
		fmt.Fprintf(c.out, "%-4s %s  %s  (%.1f s)\n", e.Action, e.Package, p.counts, e.Elapsed)
	}
	c.total.add(p.counts)
	delete(c.packages, e.Package)
}

// summary tells the lines that go test itself ends a package with.
func summary(line string) bool {
	for _, start := range []string{"PASS\n", "FAIL\n", "ok  \t", "FAIL\t", "?   \t", "coverage: "} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return strings.Contains(line, "[no test files]")
}

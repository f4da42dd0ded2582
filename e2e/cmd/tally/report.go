package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// silence is how long a run may say nothing.
const silence = 10 * time.Second

// report says what has ended, and what is under way.
type report struct {
	mu      sync.Mutex
	out     io.Writer
	single  bool     // of one package, whose tests are told one by one
	running []string // tests of a single package, or packages, that are under way
	said    *time.Timer
}

func newReport(out io.Writer, single bool) *report {
	r := &report{out: out, single: single}
	r.said = time.AfterFunc(silence, r.alive)
	return r
}

func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Stop()
}

// alive says what is under way when nothing has ended for a while.
func (r *report) alive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	doing := "compiling"
	if n := len(r.running); n > 0 {
		doing = "running " + strings.Join(r.running[:min(n, 4)], ", ")
		if n > 4 {
			doing += fmt.Sprintf(" and %d more", n-4)
		}
	}
	fmt.Fprintf(r.out, "     %s\n", doing)
	r.said.Reset(silence)
}

// Event implements [testjson.EventHandler].
func (r *report) Event(e testjson.TestEvent, all *testjson.Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := e.Test
	if !r.single {
		name = testjson.RelativePackagePath(e.Package)
	}
	pkg := all.Package(e.Package)
	if pkg != nil && e.Action == testjson.ActionFail && !e.PackageEvent() {
		fmt.Fprintf(r.out, "FAIL %s\n%s", e.Test, strings.Join(pkg.OutputLines(pkg.LastFailedByName(e.Test)), ""))
	}
	switch {
	case e.PackageEvent() && e.Action == testjson.ActionOutput && !summary(e.Output):
		fmt.Fprint(r.out, e.Output) // what TestMain says, such as the progress of a build
		r.said.Reset(silence)
	case r.single != !e.PackageEvent() || strings.Contains(e.Test, "/"):
	case e.Action == testjson.ActionRun || e.Action == testjson.ActionCont || e.Action == "start":
		r.running = append(r.running, name)
	case e.Action == testjson.ActionPause: // until tests that are not parallel are over
		r.running = slices.DeleteFunc(r.running, func(o string) bool { return o == name })
	case e.Action.IsTerminal():
		r.running = slices.DeleteFunc(r.running, func(o string) bool { return o == name })
		if !r.single {
			if pkg == nil || pkg.Total == 0 && e.Action != testjson.ActionFail {
				return nil // it has no tests
			}
			name += fmt.Sprintf("  %d tests", pkg.Total)
		}
		fmt.Fprintf(r.out, "%s %s  %.1f s\n", e.Action, name, e.Elapsed)
		r.said.Reset(silence)
	}
	return nil
}

// summary tells the lines that go test itself ends a package with.
func summary(line string) bool {
	for _, start := range []string{"PASS\n", "FAIL\n", "ok  \t", "FAIL\t", "?   \t", "coverage: ", "testing: warning: no tests to run"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// Err implements [testjson.EventHandler]: what go test writes besides tests, such as the progress
// of a build.
func (r *report) Err(text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.out, text)
	r.said.Reset(silence)
	return nil
}

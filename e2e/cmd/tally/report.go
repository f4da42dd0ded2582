package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// scope is what a run is going to do.
type scope struct {
	packages []string // that have tests
	tests    int      // of the package, where it is one
}

// scope asks go for the packages, and reads the tests of a single one.
func (r run) scope() (scope, error) {
	list := r.command(append([]string{"list", "-test", "-f", "{{if .ForTest}}{{.ForTest}} {{.Dir}}{{end}}"}, r.packages()...)...)
	out, err := list.Output()
	if err != nil {
		return scope{}, fmt.Errorf("listing the packages with tests: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			dirs[name] = dir
		}
	}
	s := scope{packages: slices.Sorted(maps.Keys(dirs))}
	if len(s.packages) == 1 {
		s.tests, err = r.tests(dirs[s.packages[0]])
	}
	return s, err
}

// packages are the arguments that name some, with the flags that decide what belongs to them.
func (r run) packages() (args []string) {
	for _, arg := range r.args {
		if !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "-tags=") {
			args = append(args, arg)
		}
	}
	return args
}

// tests counts the tests in a folder that -run and -skip choose.
func (r run) tests(dir string) (n int, err error) {
	chosen, skipped := regexp.MustCompile(""), regexp.MustCompile("^$")
	for _, arg := range r.args {
		for flag, to := range map[string]**regexp.Regexp{"-run=": &chosen, "-skip=": &skipped} {
			if pattern, ok := strings.CutPrefix(arg, flag); ok {
				if *to, err = regexp.Compile(pattern); err != nil {
					return 0, err
				}
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) && chosen.MatchString(f.Name.Name) && !skipped.MatchString(f.Name.Name) {
				n++
			}
		}
	}
	return n, nil
}

func isTest(name string) bool { return strings.HasPrefix(name, "Test") && name != "TestMain" }

// silence is how long a run may say nothing.
const silence = 10 * time.Second

// report says how far a run is.
type report struct {
	mu      sync.Mutex
	out     io.Writer
	scope   scope
	began   time.Time
	done    int
	running []string // tests of a single package, or packages, that are under way
	said    *time.Timer
}

func newReport(out io.Writer, s scope) *report {
	r := &report{out: out, scope: s, began: time.Now()}
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
	fmt.Fprintf(r.out, "     %s  [%s]\n", doing, r.share())
	r.said.Reset(silence)
}

// share is how much is done, and how long the rest takes if it goes on like this.
func (r *report) share() string {
	all, what := len(r.scope.packages), "packages"
	if r.single() {
		all, what = r.scope.tests, "tests"
	}
	text := fmt.Sprintf("%d of %d %s", r.done, all, what)
	if r.done*10 < all || r.done >= all {
		return text
	}
	left := time.Since(r.began) * time.Duration(all-r.done) / time.Duration(r.done)
	return text + fmt.Sprintf(", about %s left", left.Round(5*time.Second))
}

func (r *report) single() bool { return len(r.scope.packages) == 1 }

// Event implements [testjson.EventHandler].
func (r *report) Event(e testjson.TestEvent, all *testjson.Execution) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := e.Test
	if !r.single() {
		name = testjson.RelativePackagePath(e.Package)
	}
	if pkg := all.Package(e.Package); pkg != nil && e.Action == testjson.ActionFail && !e.PackageEvent() {
		fmt.Fprintf(r.out, "FAIL %s\n%s", e.Test, strings.Join(pkg.OutputLines(pkg.LastFailedByName(e.Test)), ""))
	}
	switch {
	case e.PackageEvent() && e.Action == testjson.ActionOutput && !summary(e.Output):
		fmt.Fprint(r.out, e.Output) // what TestMain says, such as the progress of a build
		r.said.Reset(silence)
	case r.single() != !e.PackageEvent() || strings.Contains(e.Test, "/"):
	case e.Action == testjson.ActionRun || e.Action == testjson.ActionCont || e.Action == "start":
		r.running = append(r.running, name)
	case e.Action == testjson.ActionPause: // until tests that are not parallel are over
		r.running = slices.DeleteFunc(r.running, func(o string) bool { return o == name })
	case e.Action.IsTerminal():
		r.running = slices.DeleteFunc(r.running, func(o string) bool { return o == name })
		if r.single() || slices.Contains(r.scope.packages, e.Package) {
			r.done++
			r.say(e, name, all)
		}
	}
	return nil
}

func (r *report) say(e testjson.TestEvent, name string, all *testjson.Execution) {
	if pkg := all.Package(e.Package); !r.single() && pkg != nil {
		name += fmt.Sprintf("  %d tests", pkg.Total)
	}
	fmt.Fprintf(r.out, "%s %s  %.1f s  [%s]\n", e.Action, name, e.Elapsed, r.share())
	r.said.Reset(silence)
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

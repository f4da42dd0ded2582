// Command fuzz runs every fuzz target of the module in the current folder, one after the
// other, and prints for each
//
//	FUZZ <target> execs=<n> found=<n> per_second=<n> [slow=<why>]
//
// Execs counts the inputs that were tried beyond the seeds and the corpus of earlier runs.
// Found is 1 if the target failed: go test then has written the input to the package's
// testdata/fuzz, and its report stands above the line. A target that tries fewer than 1,000
// inputs in a second says why in a comment of the form
//
//	//fuzz:slow compiles an expression
//
//	fuzz -time 1m -parallel 1 -only '^FuzzScan$'
//
// It exits with 1 if anything was found, if a target tried nothing, and if there is no
// target.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == instrument {
		code, err := runTool(os.Args[2], os.Args[3:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "fuzz:", err)
		}
		os.Exit(code)
	}
	var o options
	flag.StringVar(&o.time, "time", "1m", "how long each target runs, as go test -fuzztime has it")
	flag.IntVar(&o.parallel, "parallel", 0, "how many processes try inputs at the same time (default: one for each CPU)")
	only := flag.String("only", "", "regular expression for the names of the targets")
	flag.Parse()
	failed, err := fuzzAll(o, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// options are how a target runs.
type options struct {
	time     string
	parallel int
}

// fuzzAll returns how many targets failed.
func fuzzAll(o options, only string) (failed int, err error) {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return 0, fmt.Errorf("the expression for the names: %w", err)
	}
	targets, err := list()
	if err != nil {
		return 0, err
	}
	ran := 0
	for _, t := range targets {
		if !chosen.MatchString(t.name) {
			continue
		}
		ran++
		r, err := t.run(o)
		if err != nil {
			return failed, fmt.Errorf("running %s: %w", t.name, err)
		}
		if r.failed {
			fmt.Print(r.output)
		}
		fmt.Println(r.line(t))
		if problem := r.problem(); problem != "" {
			fmt.Fprintf(os.Stderr, "fuzz: %s %s\n", t.name, problem)
			failed++
		}
	}
	if ran == 0 {
		return 0, fmt.Errorf("no fuzz target in the module has a name that matches %q", only)
	}
	return failed, nil
}

// run has go test fuzz the target.
func (t target) run(o options) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	args := []string{
		"test", "-run=^$", "-fuzz=^" + t.name + "$", "-fuzztime=" + o.time,
		// Without a bound, one input whose coverage is not always the same is minimized for
		// a minute, in which nothing else is tried.
		"-fuzzminimizetime=200x",
		"-toolexec='" + self + "' " + instrument,
	}
	if o.parallel > 0 {
		args = append(args, "-parallel="+strconv.Itoa(o.parallel))
	}
	out, err := exec.Command("go", append(args, t.pkg)...).CombinedOutput()
	return readResult(string(out), err != nil), nil
}

// result is what go test said of one target.
type result struct {
	output string
	failed bool
	// execs are the inputs tried beyond those that were known, seconds the time for them.
	execs, seconds int
}

var (
	knownPattern = regexp.MustCompile(`elapsed: (\S+), gathering baseline coverage: \d+/(\d+) completed`)
	execsPattern = regexp.MustCompile(`elapsed: (\S+), execs: (\d+)`)
)

// readResult reads the progress lines of go test. It counts the known inputs, which it runs
// first to learn their coverage, as executions.
func readResult(output string, failed bool) result {
	r := result{output: output, failed: failed && !atTheEnd(output)}
	known, began := 0, 0
	for _, line := range knownPattern.FindAllStringSubmatch(output, -1) {
		known, began = number(line[2]), seconds(line[1])
	}
	all := execsPattern.FindAllStringSubmatch(output, -1)
	if len(all) > 0 {
		last := all[len(all)-1]
		r.execs, r.seconds = max(number(last[2])-known, 0), seconds(last[1])-began
	}
	return r
}

var deadline = regexp.MustCompile(`--- FAIL: Fuzz\w+ \(.*\)\n\s+context deadline exceeded\n`)

// atTheEnd reports whether the end of its time is all that go test calls a failure. It does
// so on a busy machine, when a process ends while an input is on its way to it
// (https://go.dev/issue/75804).
func atTheEnd(output string) bool {
	return deadline.MatchString(output) && !strings.Contains(output, "Failing input written to")
}

// number reads a whole number that a pattern matched.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// fewPerSecond is the rate below which a target has to say why.
const fewPerSecond = 1000

func (r result) perSecond() int { return r.execs / max(r.seconds, 1) }

// line is the result in one line.
func (r result) line(t target) string {
	found := 0
	if r.failed {
		found = 1
	}
	text := fmt.Sprintf("FUZZ %s execs=%d found=%d per_second=%d", t.name, r.execs, found, r.perSecond())
	switch {
	case t.slow != "":
		text += fmt.Sprintf(" slow=%q", t.slow)
	case r.perSecond() < fewPerSecond:
		text += ` slow="unexplained"`
	}
	return text
}

// problem says why the run counts as failed. It is empty if it does not.
func (r result) problem() string {
	switch {
	case r.failed:
		return "failed"
	case r.execs == 0:
		return "tried no input beyond those that were known: it needs more time, or has to be faster"
	}
	return ""
}

// seconds reads a duration that a pattern matched, such as 1m30s.
func seconds(text string) int {
	d, _ := time.ParseDuration(text)
	return int(d.Seconds())
}

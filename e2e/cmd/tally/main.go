package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	runs := split(os.Args[1:])
	if len(runs) == 0 {
		fmt.Fprintln(os.Stderr, "usage: tally [NAME=VALUE]... DIR [ARGUMENT of go test]... [-- [NAME=VALUE]... DIR [ARGUMENT]...]...")
		os.Exit(2)
	}
	// A Ctrl-C reaches the tests too; what they still have to say is waited for.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	var total counts
	for _, r := range runs {
		if len(r.env) > 0 {
			fmt.Println("==", strings.Join(r.env, " "))
		}
		c, err := r.test(interrupted, os.Stdout)
		if err != nil {
			fmt.Fprintf(os.Stdout, "go test in %s: %v\n", r.dir, err)
			if c.failed == 0 {
				c.failed++
			}
		}
		total.add(c)
	}
	fmt.Println(total)
	if total.failed > 0 || total.passed == 0 {
		os.Exit(1)
	}
}

// A run is one `go test`.
type run struct {
	env  []string // NAME=VALUE, beside this program's environment
	dir  string
	args []string
}

// split cuts the arguments at each "--". Runs without a folder are left out.
func split(args []string) []run {
	var runs []run
	var words []string
	for _, arg := range append(args, "--") {
		if arg != "--" {
			words = append(words, arg)
			continue
		}
		var r run
		for len(words) > 0 && strings.Contains(words[0], "=") {
			r.env, words = append(r.env, words[0]), words[1:]
		}
		if len(words) > 0 {
			r.dir, r.args = words[0], words[1:]
			runs = append(runs, r)
		}
		words = nil
	}
	return runs
}

// test runs go test, passing signals on to it, and counts. The error says that go test
// itself failed, which failing tests make it do too.
func (r run) test(signals <-chan os.Signal, out io.Writer) (counts, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, r.args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), r.env...)
	cmd.Stderr = out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return counts{}, err
	}
	if err := cmd.Start(); err != nil {
		return counts{}, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // an error means that it has ended
			case <-ended:
				return
			}
		}
	}()
	c, readErr := count(stdout, out)
	err = cmd.Wait()
	close(ended)
	if readErr != nil {
		return c, readErr
	}
	return c, err
}

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	runs := split(os.Args[1:])
	if len(runs) == 0 {
		fmt.Fprintln(os.Stderr, "usage: tally DIR [ARGUMENT of go test]... [-- DIR [ARGUMENT]...]...")
		os.Exit(2)
	}
	// A Ctrl-C reaches the tests too; what they still have to say is waited for.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	var total counts
	for _, run := range runs {
		c, err := test(run[0], run[1:], interrupted, os.Stdout)
		if err != nil {
			fmt.Fprintf(os.Stdout, "go test in %s: %v\n", run[0], err)
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

// split cuts the arguments at each "--". Runs without a folder are left out.
func split(args []string) [][]string {
	var runs [][]string
	var run []string
	for _, arg := range append(args, "--") {
		if arg != "--" {
			run = append(run, arg)
			continue
		}
		if len(run) > 0 {
			runs = append(runs, run)
		}
		run = nil
	}
	return runs
}

// test runs go test in dir, passing signals on to it, and counts. The error says that go
// test itself failed, which failing tests make it do too.
func test(dir string, args []string, signals <-chan os.Signal, out io.Writer) (counts, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
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

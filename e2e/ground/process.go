package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A process is one program that a ground runs, in a process group of its own, so that a
// Ctrl-C at the terminal reaches the ground and not its programs.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string        // path of what it writes
	exited chan struct{} // closed when it is gone and waited for
}

// startProcess has fork start path with args and exactly the environment env. What the
// program writes goes to the end of the file log.
func startProcess(fork *forker, name, path string, args, env []string, log string) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = env
	cmd.SysProcAttr = fork.attributes()
	return launch(fork, name, cmd, log)
}

// launch is startProcess for a command whose attributes are set.
func launch(fork *forker, name string, cmd *exec.Cmd, log string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer file.Close()
	cmd.Dir = filepath.Dir(log)
	cmd.Stdout, cmd.Stderr = file, file
	if err := fork.do(cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // its outcome stays in cmd.ProcessState
	}()
	return p, nil
}

// stop asks the program to end, and kills its process group when it has not after grace,
// or when ctx ends. It returns when the program is gone. A grace of zero kills at once.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	if grace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it is gone already
		select {
		case <-p.exited:
		case <-ctx.Done():
		case <-time.After(grace):
		}
	}
	p.killGroup()
	<-p.exited
}

func (p *process) killGroup() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error means that all are gone already
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// until calls ready until it returns nil. It gives up, with what ready last said and the
// end of the program's log, when the program ends or limit is over.
func (p *process) until(ctx context.Context, limit time.Duration, ready func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	err := poll(limited, func(ctx context.Context) (bool, error) {
		if !p.alive() {
			return true, fmt.Errorf("it ended: %s", p.cmd.ProcessState)
		}
		err := ready(ctx)
		return err == nil, err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for %s: %w", p.name, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s: %w\nthe end of its log:\n%s", p.name, err, tail(p.log, 20))
	}
	return nil
}

// poll calls try until it says done, every 50 ms. When ctx ends first, the error has its
// cause and what try last returned.
func poll(ctx context.Context, try func(context.Context) (done bool, err error)) error {
	var last error
	for {
		done, err := try(ctx)
		if done {
			return err
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tail is the last n lines of the file path, or why it cannot be read.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

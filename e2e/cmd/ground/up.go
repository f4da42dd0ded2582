package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// How long starting may take beyond what the build takes, and how long ending may.
const (
	answerLimit = 10 * time.Second
	downLimit   = 90 * time.Second
)

// up starts a holder, which has the ground as long as it lives, and returns when the
// ground is ready. A holder that runs already is left alone; it is an error if it has
// another ground than the one that is asked for.
func up(ctx context.Context, checkout ground.Checkout) error {
	if pid, held, err := holder(checkout); err != nil {
		return err
	} else if held {
		return welcome(ctx, checkout, fmt.Sprintf("already up (process %d)", pid))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	progress, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer progress.Close()
	child := exec.Command(self, "hold")
	child.Dir = string(checkout)
	child.ExtraFiles = []*os.File{write}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("starting the holder of the ground: %w", err)
	}
	stopHolder := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stopHolder()
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		if lines.Text() == ready {
			return welcome(ctx, checkout, "up")
		}
		fmt.Println(lines.Text())
	}
	_ = child.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing is left")
	}
	return errors.New("the ground did not start")
}

// errBusy is what up says where it finds a holder without a ground that answers.
var errBusy = errors.New("a ground is being started or ended, or is broken (`make down` removes it)")

// welcome checks that the ground is as the environment asks and answers, and says how to use it.
func welcome(ctx context.Context, checkout ground.Checkout, how string) error {
	s := stateOf(checkout)
	text, err := os.ReadFile(s.path("welcome"))
	if err != nil {
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for _, variable := range []string{"GROUND", "K8S", "HELM"} {
		asked := os.Getenv(variable)
		if asked != "" && !slices.Contains(strings.FieldsFunc(first, func(r rune) bool { return r == ',' || r == ' ' }), asked) {
			return fmt.Errorf("%s: %s; it is not the one that %s=%s asks for: `make down` removes it", how, first, variable, asked)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	kubectl := exec.CommandContext(ctx, s.path("bin", "kubectl"), "--kubeconfig", s.path("kubeconfig"), "get", "--raw", "/readyz")
	if out, err := kubectl.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %w\n%s", errBusy, err, out)
	}
	fmt.Printf("%s: %s", how, text)
	return nil
}

// down asks the holder to end, and kills it when it does not; its programs die with it.
func down(ctx context.Context, checkout ground.Checkout) error {
	pid, held, err := holder(checkout)
	if err != nil {
		return err
	}
	if held {
		fmt.Printf("stopping the ground (process %d)\n", pid)
		if err := end(ctx, checkout, pid); err != nil {
			return err
		}
	}
	if err := stateOf(checkout).remove(); err != nil {
		return err
	}
	if err := ground.Sweep(ctx, checkout); err != nil {
		return err
	}
	fmt.Println("down")
	return nil
}

func end(ctx context.Context, checkout ground.Checkout, pid int) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d: %w", pid, err)
		}
		for deadline := time.Now().Add(downLimit); time.Now().Before(deadline); {
			_, held, err := holder(checkout)
			if err != nil || !held {
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// library is the template that a ground is raised with.
const library = "fluent-bit"

// ready is the last line that a holder sends to the `up` that started it.
const ready = "ready"

// hold has a ground until it is told to end. Standard output and error are the null
// device; what it does goes to file descriptor 3 until the ground is ready, and to the
// log all the time.
func hold(ctx context.Context, checkout ground.Checkout) (err error) {
	progress := os.NewFile(3, "progress")
	s := stateOf(checkout)
	if err := os.MkdirAll(filepath.Dir(string(s)), 0o755); err != nil {
		return err
	}
	unlock, err := ground.TryLock(s.holder())
	if err != nil {
		fmt.Fprintln(progress, "another `up` is at work:", err)
		return err
	}
	defer unlock()
	if err := os.WriteFile(s.holder(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return err
	}
	if err := s.create(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	log, err := os.Create(s.path("log"))
	if err != nil {
		return err
	}
	defer log.Close()
	out := io.MultiWriter(log, progress)
	began := time.Now()
	g, err := raise(ctx, checkout, s, out)
	if err != nil {
		fmt.Fprintln(out, err)
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	fmt.Fprintf(out, "Pillion ready, %.1f s after the start\n%s\n", time.Since(began).Seconds(), ready)
	progress.Close()
	if plane, ok := g.(*ground.ControlPlane); ok {
		plane.Follow(ctx, ground.Namespace)
	}
	<-ctx.Done()
	return nil
}

// raise starts the ground that the environment asks for, and installs Pillion on it.
func raise(ctx context.Context, checkout ground.Checkout, s state, out io.Writer) (_ ground.Ground, err error) {
	g, err := ground.Start(ctx, checkout, ground.FromEnvironment(), out)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if err := ground.Install(ctx, g, checkout, "--set", "library={"+library+"}"); err != nil {
		return nil, err
	}
	return g, s.publish(g, checkout)
}

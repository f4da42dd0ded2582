package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// ErrMissed says that what was measured is not as promised, and that this was printed.
var ErrMissed = errors.New("a target is missed")

// Main runs a command until it is done or interrupted, and exits with 1 if it fails.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil && !errors.Is(err, ErrMissed) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// Missed prints what is wrong, a line each, and returns ErrMissed if anything is.
func Missed(wrong []string) error {
	for _, w := range wrong {
		fmt.Println("wrong:", w)
	}
	if len(wrong) > 0 {
		return ErrMissed
	}
	return nil
}

package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked says that somebody else holds a lock.
var ErrLocked = errors.New("somebody else holds the lock")

// TryLock takes the lock file path, creating it, until the returned function is called or
// this process ends, however it ends. The error is ErrLocked if somebody else holds it.
func TryLock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

// lock is TryLock that calls waiting once, if somebody else holds the lock, and then goes
// on trying until ctx ends.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for said := false; ; {
		unlock, err := TryLock(path)
		if err == nil || !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		if !said {
			waiting()
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// newScratch makes an empty folder below parent for one ground, and removes those whose
// owners died without removing them. An owner holds the lock beside its folder, and the
// kernel lets go of it when the owner dies, however it dies.
func newScratch(ctx context.Context, parent string) (dir string, remove func() error, err error) {
	unlockAll, err := sweep(ctx, parent)
	if err != nil {
		return "", nil, err
	}
	defer unlockAll()
	dir, err = os.MkdirTemp(parent, "")
	if err != nil {
		return "", nil, err
	}
	owner := dir + ".owner"
	unlock, err := TryLock(owner)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		err := errors.Join(os.RemoveAll(dir), os.Remove(owner))
		unlock()
		return err
	}, nil
}

// cgroupOf is the control group, in every hierarchy, of the node whose folder is dir.
func cgroupOf(dir string) string { return "/pillion-" + filepath.Base(dir) }

// sweep removes the folders below parent that have no living owner, and what
// else of a node does not end with its owner: control groups, a network interface. Until it is unlocked,
// nobody else makes or removes folders there.
func sweep(ctx context.Context, parent string) (unlock func(), err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	unlock, err = lock(ctx, filepath.Join(parent, ".lock"), func() {})
	if err != nil {
		return nil, err
	}
	owners, err := filepath.Glob(filepath.Join(parent, "*.owner"))
	for _, owner := range owners {
		unlockOwner, lockErr := TryLock(owner)
		if errors.Is(lockErr, ErrLocked) {
			continue
		}
		if err = errors.Join(err, lockErr); lockErr == nil {
			dir := strings.TrimSuffix(owner, ".owner")
			err = errors.Join(err, removeCgroups(cgroupOf(dir)), removeWire(dir), os.RemoveAll(dir), os.Remove(owner))
			unlockOwner()
		}
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("removing what a dead ground left: %w", err)
	}
	return unlock, nil
}

// Sweep removes what grounds of this checkout left whose owners were killed.
func Sweep(ctx context.Context, c Checkout) error {
	unlock, err := sweep(ctx, c.cache("grounds"))
	if err == nil {
		unlock()
	}
	return err
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// versionEvery is how often a version is read: on a new connection each time, which may lead to
	// another API server.
	versionEvery = 5 * time.Second
	// versionCounts is how long a version counts after it was read last. Where connections go to one of
	// three API servers at random, each of them is met in that time, but for once in 16,000 times.
	versionCounts = 2 * time.Minute
	// versionLately is how long another replica may judge by a version after it was read last here. It
	// may reach another API server all the time, and all of them are upgraded in less than that.
	versionLately = time.Hour
)

// kubeVersion knows the version of the API servers, for expressions. While they are of several versions
// it is the lowest: an older one drops the fields that it does not know. What counted last stays while
// no version can be read; until one was read it is the newest that this build knows.
type kubeVersion struct {
	read func(context.Context) ([]byte, error) // the body of /version
	log  *slog.Logger

	mu      sync.Mutex
	version templates.KubernetesVersion
	seen    map[templates.KubernetesVersion]time.Time // when each was read last
	tried   bool
	failing bool
}

func newKubeVersion(read func(context.Context) ([]byte, error), log *slog.Logger) *kubeVersion {
	return &kubeVersion{read: read, log: log, version: templates.NewestKubernetes(), seen: map[templates.KubernetesVersion]time.Time{}}
}

// Version returns the version that counts now.
func (k *kubeVersion) Version() templates.KubernetesVersion {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

// Lately returns the other versions by which a replica may have judged a moment ago.
func (k *kubeVersion) Lately() []templates.KubernetesVersion {
	k.mu.Lock()
	defer k.mu.Unlock()
	var others []templates.KubernetesVersion
	for v := range k.seen {
		if v != k.version {
			others = append(others, v)
		}
	}
	slices.SortFunc(others, templates.KubernetesVersion.Compare)
	return others
}

// Ready returns an error until the first attempt to read the version has ended.
func (k *kubeVersion) Ready() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.tried {
		return errors.New("the API server's version is being read")
	}
	return nil
}

// Run reads the version again and again, until ctx ends.
func (k *kubeVersion) Run(ctx context.Context) error {
	for {
		version, err := inspect.KubernetesVersion(ctx, k.read)
		if ctx.Err() != nil {
			return nil
		}
		k.note(version, err)
		if !waiting.For(ctx, versionEvery) {
			return nil
		}
	}
}

// note takes the result of a read, and logs what is new of it.
func (k *kubeVersion) note(version templates.KubernetesVersion, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = true
	if err != nil {
		if !k.failing {
			from := "the newest that this build knows"
			if len(k.seen) > 0 {
				from = "the last that was read"
			}
			k.log.Warn("the API server's version cannot be read; expressions see another as kubernetes", "version", k.version.String(), "which is", from, "error", err)
		}
		k.failing = true
		return
	}
	first, now := len(k.seen) == 0, time.Now()
	k.seen[version] = now
	lowest := version
	for v, at := range k.seen {
		switch age := now.Sub(at); {
		case age > versionLately:
			delete(k.seen, v)
		case age <= versionCounts && v.Compare(lowest) < 0:
			lowest = v
		}
	}
	if first || k.failing || lowest != k.version {
		k.log.Info("the API servers' version, the lowest of several, which expressions see as kubernetes", "version", lowest.String())
	}
	k.version, k.failing = lowest, false
}

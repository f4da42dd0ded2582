package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
)

// versionEvery is how often the API server's version is read: an upgrade is noticed well within a
// minute.
const versionEvery = 20 * time.Second

// kubeVersion knows the API server's version, for expressions. What was read last stays while
// the version cannot be read; until it was read once it is the newest that this build knows.
type kubeVersion struct {
	read func(context.Context) ([]byte, error) // the body of /version
	log  *slog.Logger

	mu      sync.Mutex
	version templates.KubernetesVersion
	known   bool // the version was read
	tried   bool
	failing bool
}

func newKubeVersion(read func(context.Context) ([]byte, error), log *slog.Logger) *kubeVersion {
	return &kubeVersion{read: read, log: log, version: templates.NewestKubernetes()}
}

// Version returns the version that counts now.
func (k *kubeVersion) Version() templates.KubernetesVersion {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
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
			if k.known {
				from = "the last that was read"
			}
			k.log.Warn("the API server's version cannot be read; expressions see another as kubernetes", "version", k.version.String(), "which is", from, "error", err)
		}
		k.failing = true
		return
	}
	if !k.known || k.failing || version != k.version {
		k.log.Info("the API server's version, which expressions see as kubernetes", "version", version.String())
	}
	k.version, k.known, k.failing = version, true, false
}

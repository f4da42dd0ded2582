package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/templates"
)

func TestTheAPIServersVersionIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		var mu sync.Mutex
		body, failing := `{"major": "1", "minor": "34+", "gitVersion": "v1.34.1-eks"}`, true
		k := newKubeVersion(func(ctx context.Context) ([]byte, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a read has no deadline")
			}
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if failing {
				return nil, errors.New("no answer")
			}
			return []byte(body), nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		if k.Ready() == nil || k.Version() != templates.NewestKubernetes() {
			t.Errorf("before the first read: ready %v, version %v", k.Ready(), k.Version())
		}
		answer := func(text string) { // the empty text: none
			mu.Lock()
			defer mu.Unlock()
			if failing = text == ""; !failing {
				body = text
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		within := func(wait time.Duration, want string, says string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if got := k.Version().String(); got != want || k.Ready() != nil {
				t.Errorf("version %s, want %s; %v", got, want, k.Ready())
			}
			if lines := log.Take(); says == "" != (lines == "") || !strings.Contains(lines, says) || strings.Count(lines, "\n") > 1 {
				t.Errorf("the log says %q; want one line with %q", lines, says)
			}
		}
		within(2*time.Second, templates.NewestKubernetes().String(), "the newest that this build knows")
		within(time.Minute, templates.NewestKubernetes().String(), "") // said once
		answer(body)
		within(30*time.Second, "1.34", "version=1.34")
		answer(`{"major": "1", "minor": "35"}`)
		within(time.Minute, "1.35", "version=1.35")
		answer("")
		within(time.Minute, "1.35", "the last that was read")
		answer(`{"major": "1", "minor": "35"}`)
		within(time.Minute, "1.35", "version=1.35")
		answer(`{"major": "", "minor": ""}`)
		within(time.Minute, "1.35", "must be a version of Kubernetes")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/templates"
)

func TestTheAPIServersVersionIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		body, failing := `{"major": "1", "minor": "34+", "gitVersion": "v1.34.1-eks"}`, true
		k := newKubeVersion(func(ctx context.Context) ([]byte, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a read has no deadline")
			}
			time.Sleep(time.Second)
			if failing {
				return nil, errors.New("no answer")
			}
			return []byte(body), nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		if k.Ready() == nil || k.Version() != templates.NewestKubernetes() {
			t.Errorf("before the first read: ready %v, version %v", k.Ready(), k.Version())
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
			if lines := log.String(); says == "" != (lines == "") || !strings.Contains(lines, says) || strings.Count(lines, "\n") > 1 {
				t.Errorf("the log says %q; want one line with %q", lines, says)
			}
			log.Reset()
		}
		within(2*time.Second, templates.NewestKubernetes().String(), "the newest that this build knows")
		within(time.Minute, templates.NewestKubernetes().String(), "") // said once
		failing = false
		within(30*time.Second, "1.34", "version=1.34")
		body = `{"major": "1", "minor": "35"}`
		within(time.Minute, "1.35", "version=1.35")
		failing = true
		within(time.Minute, "1.35", "the last that was read")
		failing = false
		within(time.Minute, "1.35", "version=1.35")
		body = `{"major": "", "minor": ""}`
		within(time.Minute, "1.35", "is no version of Kubernetes")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
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
		within(time.Minute, "1.34", "")
		within(2*time.Minute, "1.35", "version=1.35")
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

// API servers are upgraded one after the other, and each connection leads to any of them.
func TestOfSeveralVersionsOfAPIServersTheLowestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		var read atomic.Int64
		minors := make([]atomic.Int64, 3)
		serve := func(now []int) {
			for i := range minors {
				minors[i].Store(int64(now[i]))
			}
		}
		serve([]int{36, 36, 36})
		k := newKubeVersion(func(context.Context) ([]byte, error) {
			return fmt.Appendf(nil, `{"major": "1", "minor": "%d"}`, minors[read.Add(1)%3].Load()), nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		for _, step := range []struct {
			minors []int
			want   int
			lately string
			logs   int
		}{
			{[]int{36, 36, 36}, 36, "[]", 1},
			{[]int{37, 36, 36}, 36, "[1.37]", 0},
			{[]int{37, 37, 36}, 36, "[1.37]", 0},
			{[]int{37, 37, 37}, 37, "[]", 1},
			{[]int{37, 37, 36}, 36, "[1.37]", 1},
			{[]int{36, 36, 36}, 36, "[]", 0},
		} {
			serve(step.minors)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if got := k.Version(); got != (templates.KubernetesVersion{Major: 1, Minor: step.want}) || fmt.Sprint(k.Lately()) != step.lately {
				t.Errorf("of API servers %v version %s counts, and lately %s; want 1.%d and %s", step.minors, got, k.Lately(), step.want, step.lately)
			}
			if lines := strings.Count(log.Take(), "\n"); lines != step.logs {
				t.Errorf("of API servers %v %d lines are logged, want %d", step.minors, lines, step.logs)
			}
		}
		serve([]int{37, 37, 37})
		time.Sleep(versionCounts + 2*versionEvery)
		synctest.Wait()
		if got := fmt.Sprint(k.Version(), k.Lately()); got != "1.37 [1.36]" {
			t.Errorf("right after the upgrade they are %s, want 1.37 [1.36]: another replica may not have noticed", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

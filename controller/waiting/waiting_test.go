package waiting

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPauseEndsWithItsTimeItsContextOrWhenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		woken := make(chan struct{}, 1)
		notReadyUntil := time.Now().Add(10 * time.Second)
		ready := func() error {
			if time.Now().Before(notReadyUntil) {
				return errors.New("not yet")
			}
			return nil
		}
		for what, c := range map[string]struct {
			pause func() bool
			want  bool
			took  time.Duration
		}{
			"the time passes":                {func() bool { return For(t.Context(), time.Second) }, true, time.Second},
			"the context has ended":          {func() bool { return For(ended, time.Second) }, false, 0},
			"nobody wakes":                   {func() bool { return Until(t.Context(), time.Second, woken) }, true, time.Second},
			"nobody can wake":                {func() bool { return Until(t.Context(), time.Second, nil) }, true, time.Second},
			"woken":                          {func() bool { woken <- struct{}{}; return Until(t.Context(), time.Second, woken) }, true, 0},
			"the context ends, nobody wakes": {func() bool { return Until(ended, time.Second, nil) }, false, 0},
			"ready at once":                  {func() bool { return UntilReady(ended, time.Second, func() error { return nil }) }, true, 0},
			"never ready":                    {func() bool { return UntilReady(ended, time.Second, func() error { return errors.New("no") }) }, false, 0},
		} {
			began := time.Now()
			if got := c.pause(); got != c.want || time.Since(began) != c.took {
				t.Errorf("%s: %t after %s, want %t after %s", what, got, time.Since(began), c.want, c.took)
			}
		}
		if !UntilReady(t.Context(), 3*time.Second, ready) || time.Now().Before(notReadyUntil) || time.Since(notReadyUntil) > 3*time.Second {
			t.Errorf("it is ready at %s, and waited for until %s", notReadyUntil, time.Now())
		}
	})
}

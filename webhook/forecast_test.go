package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector/reason"
)

func TestWhatRefusesAControllersPodsIsForetoldOnceAfterTheAnswer(t *testing.T) {
	owner := func(uid string) string {
		return strings.Replace(reviewOf(v1Version, "", false), `"uid":"1"`, fmt.Sprintf(`"uid":%q`, uid), 1)
	}
	synctest.Test(t, func(t *testing.T) {
		var seen []Injection
		nothing := false
		slow := make(chan struct{})
		close(slow)
		f := newFixture(t, func(p *parts) {
			p.Forecasts = NewForecasts(func(_ context.Context, i Injection) []events.Event {
				seen = append(seen, i)
				if nothing {
					return nil
				}
				<-slow
				return []events.Event{{Code: reason.RefusedByCluster, Message: "the LimitRange small\nrefuses the pod"}}
			})
		})
		foretold := func(what string, want int, bodies ...string) {
			t.Helper()
			for _, body := range bodies {
				f.post(t, body)
			}
			synctest.Wait()
			found := 0
			for _, e := range f.effects.outcomes {
				if e.Code != reason.RefusedByCluster {
					continue
				}
				if found++; e.Namespace != "shop" || e.Pod == nil || !e.Told || e.Refused || e.DryRun || strings.Contains(e.Message, "\n") {
					t.Errorf("%s: the event %+v", what, e)
				}
			}
			if f.effects.outcomes = nil; found != want {
				t.Errorf("%s: %d events, want %d", what, found, want)
			}
		}
		foretold("a dry run", 0, reviewOf(v1Version, "", true))
		foretold("a pod without a controller", 0, strings.Replace(owner("1"), `"controller":true`, `"controller":false`, 1))
		foretold("a pod that is not injected", 0, reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"false"}`, false))
		foretold("a large pod", 0, strings.Replace(owner("1"), `"nginx"`, fmt.Sprintf("%q", strings.Repeat("x", forecastBody)), 1))
		foretold("a controller's pods", 1, owner("1"), owner("1"))
		if len(seen) != 1 || len(seen[0].Injected) != 1 || seen[0].Injected[0].Name() != "shipper" || seen[0].Namespace.Name != "shop" ||
			len(containersOf(seen[0].After)) <= len(containersOf(seen[0].Before)) {
			t.Errorf("what is looked at: %+v", seen)
		}
		foretold("the same some minutes later", 0, owner("1"))
		time.Sleep(forecastEvery + 1)
		foretold("the same after long", 1, owner("1"))

		slow = make(chan struct{})
		foretold("while one is made", 0, owner("2"))
		foretold("another beside it", 0, owner("3"))
		close(slow)
		foretold("the one", 1)
		foretold("the other at its next pod", 1, owner("3"))

		nothing = true
		foretold("a pod about which nothing is found", 0, owner("4"))
		nothing = false
		foretold("the same at once", 0, owner("4"))
		time.Sleep(forecastAgain + 1)
		foretold("the same later", 1, owner("4"))

		time.Sleep(forecastEvery + 1)
		var many []string
		for i := range 10 * forecastsPerSecond {
			many = append(many, owner(fmt.Sprint("many-", i)))
		}
		if n := len(seen); n > 0 {
			foretoldAtMost := n + forecastsPerSecond
			for _, body := range many {
				f.post(t, body)
				synctest.Wait()
			}
			if len(seen) > foretoldAtMost {
				t.Errorf("%d forecasts at once", len(seen)-n)
			}
		}
	})
}

func containersOf(pod map[string]any) []any {
	spec, _ := pod["spec"].(map[string]any)
	init, _ := spec["initContainers"].([]any)
	own, _ := spec["containers"].([]any)
	return append(append([]any{}, init...), own...)
}

package canary

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/owner"
)

// health reads workloads as "shop/a shop/b! other/c": those with ! fail.
func health(text string) Health {
	h := Health{}
	for _, field := range strings.Fields(text) {
		name, fails := strings.CutSuffix(field, "!")
		namespace, name, _ := strings.Cut(name, "/")
		f := Failure{}
		if fails {
			f = Failure{ContainersRestart, "the container side restarted 3 times"}
		}
		h.Note(Workload{namespace, owner.Workload{Kind: "Deployment", Name: name}}, f)
	}
	return h
}

func TestACanaryStopsWhenMoreWorkloadsFailThanAreToleratedAndThanOfTheStableVersion(t *testing.T) {
	for name, c := range map[string]struct {
		canary, stable string
		tolerate       int
		stops          bool
	}{
		"nothing has it":                         {"", "shop/x", 1, false},
		"all is well":                            {"shop/a shop/b", "shop/x", 1, false},
		"one fails, and one is tolerated":        {"shop/a! shop/b", "shop/x", 1, false},
		"one fails, and none is tolerated":       {"shop/a! shop/b", "shop/x", 0, true},
		"two fail":                               {"shop/a! shop/b!", "shop/x shop/y", 1, true},
		"two fail, and nothing else has it":      {"shop/a! shop/b!", "", 1, true},
		"two fail, and two are tolerated":        {"shop/a! shop/b!", "shop/x", 2, false},
		"the stable version fails as well":       {"shop/a! shop/b!", "shop/x! shop/y!", 1, false},
		"the stable version fails as often":      {"shop/a! shop/b! shop/c shop/d", "shop/x! shop/y", 1, false},
		"the stable version fails less often":    {"shop/a! shop/b! shop/c", "shop/x! shop/y", 1, true},
		"two namespaces":                         {"shop/a! other/b!", "shop/x", 1, true},
		"two namespaces, and a third does well":  {"shop/a! other/b! third/c", "shop/x", 1, true},
		"one namespace, and another does well":   {"shop/a! shop/b! shop/c! shop/d! other/e", "shop/x", 1, false},
		"one namespace, and no other has it yet": {"shop/a! shop/b! shop/c", "shop/x other/y", 1, true},
		"one namespace, and none is tolerated":   {"shop/a! other/e", "shop/x", 0, true},
		"a namespace of failures beside it":      {"shop/a! other/b! third/c", "dev/1! dev/2! dev/3! dev/4! shop/x third/y other/z", 1, true},
	} {
		reason, message := Judge(Comparison{Canary: health(c.canary), Stable: health(c.stable), Tolerate: c.tolerate})
		if (reason != "") != c.stops || (message != "") != c.stops {
			t.Errorf("%s: %q, %q", name, reason, message)
		}
	}
	h := health("shop/a! shop/b! shop/c! shop/d! shop/e! shop/f! shop/g")
	h[Workload{"shop", owner.Workload{Kind: "Job", Name: "\x1b[2J"}}] = Failure{PodsRefused, "its pods are refused: no"}
	reason, message := Judge(Comparison{Canary: h, Stable: health("shop/x"), Tolerate: 1})
	if want := "7 of 8 workloads fail with the canary, 0 of 1 with the stable version; tolerated: 1. shop/deployment/a: the container side restarted 3 times; "; reason != ContainersRestart ||
		!strings.HasPrefix(message, want) || !strings.HasSuffix(message, "shop/deployment/e: the container side restarted 3 times; and 2 more.") {
		t.Errorf("%s: %s", reason, message)
	}
}

func someHealth(t *rapid.T, label string) Health {
	h := Health{}
	for i := range rapid.IntRange(0, 12).Draw(t, label) {
		w := Workload{fmt.Sprintf("n%d", rapid.IntRange(0, 4).Draw(t, "namespace")), owner.Workload{Kind: "Deployment", Name: fmt.Sprint(i)}}
		h.Note(w, rapid.SampledFrom([]Failure{{}, {}, {ContainersRestart, "restarts"}, {PodsRefused, "refused"}}).Draw(t, "failure"))
	}
	return h
}

// One namespace, whatever it does, stops no canary that does well in another.
func TestOneNamespaceDecidesForNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Comparison{Canary: someHealth(t, "canary"), Stable: someHealth(t, "stable"), Tolerate: rapid.IntRange(1, 4).Draw(t, "tolerate")}
		failing, well := 0, false // elsewhere
		for w, f := range c.Canary {
			switch {
			case w.Namespace == "n0":
			case f == (Failure{}):
				well = true
			default:
				failing++
			}
		}
		if reason, _ := Judge(c); reason != "" && well && failing == 0 {
			t.Fatalf("the namespace n0 alone stopped the canary: %v", c.Canary)
		}
		// More failures of the canary in one more namespace never let go on what had stopped.
		before, _ := Judge(c)
		worse := Comparison{Canary: Health{{"worse", owner.Workload{Kind: "Deployment", Name: "all"}}: {ContainersRestart, "restarts"}}, Stable: c.Stable, Tolerate: c.Tolerate}
		for w, f := range c.Canary {
			worse.Canary[w] = f
		}
		if after, _ := Judge(worse); before != "" && after == "" {
			t.Fatalf("with one more failure it goes on: %v beside %v", worse.Canary, c.Stable)
		}
		// A canary that fails nowhere goes on; the same answer comes again.
		if reason, message := Judge(c); reason != "" {
			if again, says := Judge(c); len(c.Canary.Failing()) <= c.Tolerate || again != reason || says != message {
				t.Fatalf("%s: %s, and then %s: %s", reason, message, again, says)
			}
		}
	})
}

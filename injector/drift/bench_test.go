package drift_test

import (
	"testing"

	"github.com/pillion-dev/pillion/injector/drift"
)

func BenchmarkCompareAnInjectedPod(b *testing.B) {
	set := setOf(b, map[string]string{"side": sidecar("side", "1"), "other": sidecar("other", "1")})
	ns := asking("enabled", "side,other")
	pod := live(b, injected(b, newPod(b, ""), ns, set))
	c := drift.Comparer{Pipeline: pipeline}
	b.ReportAllocs()
	for b.Loop() {
		if s, err := c.Compare(b.Context(), pod, ns, set); err != nil || s.Behind() {
			b.Fatal(err)
		}
	}
}

package main

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pillion-dev/pillion/internal/cputime"
)

// BenchmarkPreview prints what a preview of an ordinary Deployment takes, of 30 variables and
// with two templates, and what the middleware alone takes of that: a line BENCH preview us=<x> kib=<x>.
func BenchmarkPreview(b *testing.B) {
	to := newPreview(b, map[string]string{"pillion.dev/inject": "shipper,proxy"})
	const rounds = 1000
	// The time is the processor's: that of the clock depends on who else works here.
	cost := func(review []byte) (us, kib float64) {
		for range rounds / 10 {
			post(to, review)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := cputime.Used()
		for range rounds {
			post(to, review)
		}
		took := cputime.Used() - began
		runtime.ReadMemStats(&after)
		return float64(took.Microseconds()) / rounds, float64(after.TotalAlloc-before.TotalAlloc) / rounds / 1024
	}
	env := ", env: ["
	for i := range 30 {
		env += fmt.Sprintf("{name: VARIABLE_%d, value: some-value-%d}, ", i, i)
	}
	deployment := previewReview(b, fmt.Sprintf(webManifest, "", "", ", annotations: {shipper.pillion.dev/log-level: debug}", "", env+"]"))
	plain := previewReview(b, "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {text: '"+fmt.Sprintf("%0*d", len(deployment), 0)+"'}}")
	us, kib := cost(deployment)
	aloneUs, aloneKiB := cost(plain)
	fmt.Printf("BENCH preview us=%.0f kib=%.0f alone_us=%.0f alone_kib=%.0f\n", us, kib, aloneUs, aloneKiB)
}

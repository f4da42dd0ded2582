package injector

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/pillion-dev/pillion/injector/patch"
)

// footprint is what a review takes beside the decoded pod, in bytes.
type footprint struct {
	decoded   uint64 // the pod
	allocated uint64 // by the pipeline in all
	live      uint64 // by the pipeline, at most at one time
}

// footprintOf measures a review of that pod. The live bytes are those that are still there
// when the garbage is collected, each time that the pipeline has asked its context so often.
func footprintOf(tb testing.TB, r *review, text []byte, every int) footprint {
	tb.Helper()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	total := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	r.text = text
	r.run() // what is made once for the process
	empty := heap()
	request := r.request(text)
	f := footprint{decoded: heap() - empty}
	before := total()
	if _, err := r.do(counting(tb, nil), request); err != nil {
		tb.Fatal(err)
	}
	f.allocated = total() - before
	full, asked := heap(), 0
	look := func() {
		if now := heap(); now > full {
			f.live = max(f.live, now-full)
		}
	}
	out, err := r.do(counting(tb, func() {
		if asked++; asked%every == 0 {
			look()
		}
	}), request)
	if err != nil {
		tb.Fatal(err)
	}
	patch.Marshal(out.Operations)
	look()
	runtime.KeepAlive(out)
	runtime.KeepAlive(request)
	return f
}

func (f footprint) String() string {
	by := func(n uint64) string {
		return fmt.Sprintf("%.1f MB (%.2f of it)", float64(n)/1e6, float64(n)/float64(f.decoded))
	}
	return fmt.Sprintf("the decoded pod has %.1f MB; allocated %s, live %s", float64(f.decoded)/1e6, by(f.allocated), by(f.live))
}

// variables is the JSON of a pod with a container of n variables, of which each is as small
// as it can be: the pod that is largest when it is decoded.
func variables(n int, asks string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","annotations":{"pillion.dev/inject":%q,"environment.pillion.dev/env.NEW":"1"}},`, asks)
	b.WriteString(`"spec":{"containers":[{"name":"app","image":"app:1","env":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"a%x"}`, i)
	}
	b.WriteString(`]}]}}`)
	return b.Bytes()
}

// A large pod is there once, decoded. The steps share its parts: only the list that changes
// is copied, which is small beside its items.
func TestThePipelineDoesNotCopyALargePod(t *testing.T) {
	for _, c := range []struct {
		library         string
		allocated, live float64 // times the decoded pod, at most
	}{
		{"fluent-bit", 0.05, 0.05},
		{"environment", 0.25, 0.2},
	} {
		t.Run(c.library, func(t *testing.T) {
			r := growth{library: []string{c.library}, shape: small}.at(t, 1)
			text := variables(40_000, c.library)
			f := footprintOf(t, r, text, 1)
			t.Log(f)
			if decoded := float64(f.decoded); float64(f.allocated) > c.allocated*decoded || float64(f.live) > c.live*decoded {
				t.Errorf("%v; want %.2f and %.2f at most", f, c.allocated, c.live)
			}
			// The second call, and the pod without the record's places, cost no more.
			r.again()
			again := footprintOf(t, r, r.text, 1)
			t.Log(again)
			if decoded := float64(again.decoded); float64(again.allocated) > c.allocated*decoded || float64(again.live) > c.live*decoded {
				t.Errorf("the second call: %v; want %.2f and %.2f at most", again, c.allocated, c.live)
			}
		})
	}
}

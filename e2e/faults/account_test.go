package faults

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is an outcome of a pod that was sent so many seconds after zero, and took 10 ms.
func at(seconds float64, o Outcome) Outcome {
	o.Began = zero.Add(time.Duration(seconds * float64(time.Second)))
	o.Ended = o.Began.Add(10 * time.Millisecond)
	return o
}

func TestPodsMayBeRefusedInTheWindowOnly(t *testing.T) {
	t.Parallel()
	denied := Outcome{Kind: Enforced, Closed: true, Refused: "no answer"}
	left := Outcome{Kind: Requested, Missing: []string{"side"}}
	healed, mended := Timeline{Began: zero}, Timeline{Began: zero, Mending: zero.Add(10 * time.Second)}
	for _, c := range []struct {
		what    string
		o       Outcome
		t       Timeline
		w       Window
		broken  string
		recover time.Duration
	}{
		{"refused in time", at(4, denied), healed, Window{5 * time.Second, -1}, "", 4 * time.Second},
		{"refused before it is mended", at(9, denied), mended, Window{0, -1}, "", 0},
		{"refused after it is mended", at(12, denied), mended, Window{time.Second, -1}, "1 pods were refused outside", 2 * time.Second},
		{"bare too late", at(6, left), healed, Window{-1, 5 * time.Second}, "1 pods were created without", 6 * time.Second},
	} {
		r := Account("x", []Outcome{c.o, at(20, Outcome{Kind: Requested})}, 0, c.t, c.w)
		if got := strings.Join(r.Broken, "; "); c.broken == "" && got != "" || !strings.HasPrefix(got, c.broken) {
			t.Errorf("%s: broken is %q, want %q", c.what, got, c.broken)
		}
		if r.Recovered != c.recover || r.Tried != 2 {
			t.Errorf("%s: recovered after %s of %d, want %s of 2", c.what, r.Recovered, r.Tried, c.recover)
		}
	}
}

// Every pod that an API server answered counts once, and nothing but the windows decides
// whether one that was refused or bare is as stated. A call for a namespace that never asked is wrong.
func TestEveryAnsweredPodCountsOnce(t *testing.T) {
	t.Parallel()
	for range 500 {
		var outcomes []Outcome
		want := map[verdict]int{}
		answered, calls := 0, rand.IntN(2)
		outside := calls > 0
		w := Window{time.Duration(rand.IntN(3)-1) * 5 * time.Second, time.Duration(rand.IntN(3)-1) * 5 * time.Second}
		for range rand.IntN(60) {
			o := Outcome{Kind: []Kind{Enforced, Requested, NeverAsked}[rand.IntN(3)], Closed: rand.IntN(2) == 0, Away: rand.IntN(5) == 0}
			switch rand.IntN(4) {
			case 0:
				o.Refused = "no answer"
			case 1:
				o.Otherwise = "quota"
			case 2:
				o.Missing = []string{"side"}
			}
			if o.Kind == NeverAsked {
				o.Missing = nil
			}
			seconds := float64(rand.IntN(20))
			outcomes = append(outcomes, at(seconds, o))
			if o.Away {
				continue
			}
			answered++
			v := o.verdict()
			want[v]++
			limit := map[verdict]time.Duration{refused: w.Refused, bare: w.Bare}
			if l, ok := limit[v]; v == wrong || ok && (l < 0 || seconds > l.Seconds()) {
				outside = true
			}
		}
		r := Account("x", outcomes, calls, Timeline{Began: zero}, w)
		if r.Tried != answered || r.Refused != want[refused] || r.Bare != want[bare] || r.Wrong != want[wrong]+calls || r.Elsewhere != want[elsewhere] {
			t.Fatalf("%+v, want %d tried and %v", r, answered, want)
		}
		if outside != (len(r.Broken) > 0) {
			t.Fatalf("outside of the windows is %v, and broken is %q", outside, r.Broken)
		}
	}
}

package expression

import (
	"fmt"
	"testing"
	"time"
)

// CEL's tracker of costs looks through all values that it keeps, and by itself keeps some of each
// repetition.
func TestALoopTakesAsLongForEachRepetition(t *testing.T) {
	const few, times = 3_000, 4
	e, newRun := sample(t)
	for _, source := range []string{
		"lists.range(%d).all(i, i >= 0)",
		"lists.range(%d).exists(i, i < 0)",
		"lists.range(%d).exists_one(i, i == 7)",
		"lists.range(%d).map(i, i + 1)",
		"lists.range(%d).filter(i, params.port > 1)",
		"lists.range(%d).all(i, j, i == j)",
		"lists.range(%d).transformList(i, j, i + j)",
		"lists.range(%d).all(i, [i].all(j, j >= 0))",
	} {
		took := func(n int) time.Duration {
			checked, err := e.check(fmt.Sprintf(source, n))
			if err != nil {
				t.Fatal(err)
			}
			made, err := sharedPlanner().plan(checked.NativeRep(), false)
			if err != nil {
				t.Fatal(err)
			}
			least := time.Hour
			for range 5 {
				start := time.Now()
				if _, _, err := made.run(t.Context(), newRun().Scope()); err != nil {
					t.Fatal(err)
				}
				least = min(least, time.Since(start))
			}
			return least
		}
		// A busy machine may slow one of the two. What grows with the square never comes below.
		var a, b time.Duration
		for try := 0; try == 0 || b > 2*times*a && try < 10; try++ {
			a, b = took(few), took(few*times)
		}
		if b > 2*times*a {
			t.Errorf("%s takes %v for %d repetitions, and %v for %d times as many", source, a, few, b, times)
		}
	}
}

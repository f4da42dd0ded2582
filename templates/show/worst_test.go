package show_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pillion-dev/pillion/templates/show"
)

func TestTheWorstAreNamedAndTheRestIsSummed(t *testing.T) {
	counts := map[string]int{"also-30": 30}
	for i := range 30 {
		counts[fmt.Sprintf("t%02d", i)] = i + 1
	}
	if worst, rest := show.Worst(counts, 3); !slices.Equal(worst, []string{"also-30", "t29", "t28"}) || rest != 28*29/2 {
		t.Errorf("%v, and %d", worst, rest)
	}
	if worst, rest := show.Worst(counts, 100); len(worst) != 31 || rest != 0 {
		t.Errorf("%v, and %d", worst, rest)
	}
}

package live_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/templates"
)

// atRest counts the templates of a set that are at rest.
func atRest(set *templates.Set) int {
	n := 0
	for _, e := range set.All() {
		if e.Template.AtRest() {
			n++
		}
	}
	return n
}

func TestFewTemplatesStayAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("a")
		l, _ := running(t, source)
		source.has("a.yaml", manifest("a", "1"), "b.yaml", manifest("b", "2"))
		time.Sleep(time.Hour)
		if n := atRest(l.Snapshot()); n != 0 {
			t.Errorf("%d of 2 templates are at rest", n)
		}
	})
}

func TestOfManyTemplatesThoseThatNobodyUsesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("a")
		l, _ := running(t, source)
		var units []string
		for i := range 100 {
			name := fmt.Sprintf("t%02d", i)
			units = append(units, name+".yaml", manifest(name, name))
		}
		source.has(units...)
		if n := atRest(l.Snapshot()); n != 36 {
			t.Fatalf("%d of 100 templates are at rest at once, want 36", n)
		}
		for i := range 70 {
			if name := fmt.Sprintf("t%02d", 30+i); value(t, l.Snapshot(), name) != name {
				t.Errorf("%s adds %s", name, value(t, l.Snapshot(), name))
			}
		}
		if n := atRest(l.Snapshot()); n != 0 {
			t.Fatalf("%d of 100 templates are at rest after they were used", n)
		}
		for range 3 { // the first time they were used, and two more have to be
			for i := range 10 {
				value(t, l.Snapshot(), fmt.Sprintf("t%02d", i))
			}
			time.Sleep(10*time.Minute + time.Second)
		}
		if n := atRest(l.Snapshot()); n != 90 {
			t.Errorf("%d of 100 templates are at rest, want all but the 10 that are used", n)
		}
		units[1], units[199] = manifest("t00", "new"), manifest("t99", "new")
		source.has(units...)
		for name, rests := range map[string]bool{"t00": false, "t50": true} {
			if e, _ := l.Snapshot().Get(name); e.Template.AtRest() != rests {
				t.Errorf("%s is at rest: %v, want %v", name, e.Template.AtRest(), rests)
			}
		}
		if value(t, l.Snapshot(), "t00") != "new" || value(t, l.Snapshot(), "t99") != "new" {
			t.Error("a changed template adds what it added before")
		}
	})
}

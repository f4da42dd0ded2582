package usage

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pillion-dev/pillion/templates"
)

func TestACounterCountsAfterChangesAndNotBeforeAllIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := templates.NewSet([]templates.Entry{compile(t, "named", "")})
		var ready atomic.Bool
		var all atomic.Pointer[[]templates.Namespace]
		all.Store(&[]templates.Namespace{inject("a", "named", nil)})
		counter := NewCounter(CounterOptions{
			Templates:  func() *templates.Set { return set },
			Namespaces: func() iter.Seq[templates.Namespace] { return slices.Values(*all.Load()) },
			Ready: func() error {
				if ready.Load() {
					return nil
				}
				return errors.New("not read yet")
			},
		})
		var counts atomic.Int64
		counter.OnCount(func(c Count) {
			counts.Add(1)
			if c.Set != set {
				t.Error("the count is of another set")
			}
		})
		go func() { _ = counter.Run(t.Context()) }()
		counter.Changed()
		time.Sleep(time.Minute)
		if counter.latest.Load() != nil || testutil.CollectAndCount(counter) != 0 {
			t.Fatal("counted before namespaces and templates are read")
		}
		ready.Store(true)
		time.Sleep(50 * time.Millisecond)
		if c := counter.latest.Load(); c == nil || c.In["named"] != 1 {
			t.Fatalf("%+v", c)
		}
		more := []templates.Namespace{inject("a", "named", nil), inject("b", "named,typo", nil)}
		all.Store(&more)
		before := counts.Load()
		for range 100 {
			counter.Changed()
			time.Sleep(10 * time.Millisecond)
		}
		if n := counts.Load() - before; n < 1 || n > 11 {
			t.Errorf("%d counts in a second of changes", n)
		}
		want := `# HELP pillion_template_namespaces Namespaces in which a template is in force: they name it, ask for it by "true", or its match selects them.
# TYPE pillion_template_namespaces gauge
pillion_template_namespaces{template="named"} 2
# HELP pillion_unknown_template_namespaces Namespaces that name a template that does not exist, so that their pods are refused. The 20 most named templates have their names, the rest are together as (others).
# TYPE pillion_unknown_template_namespaces gauge
pillion_unknown_template_namespaces{template="(others)"} 0
pillion_unknown_template_namespaces{template="typo"} 1
`
		if err := testutil.CollectAndCompare(counter, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		before = counts.Load()
		time.Sleep(time.Hour)
		if n := counts.Load() - before; n > 1 {
			t.Errorf("%d counts without a change", n)
		}
	})
}

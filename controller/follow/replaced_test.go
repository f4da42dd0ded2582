package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/controller/follow"
)

func TestAReplacedVersionIsRememberedForSomeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r follow.Replaced[int]
		r.Add("a", 1)
		time.Sleep(follow.ReplacedCounts / 2)
		r.Add("a", 2)
		r.Add("b", 3)
		if a, b := r.Of("a"), r.Of("b"); !slices.Equal(a, []int{2, 1}) || !slices.Equal(b, []int{3}) || r.Of("c") != nil {
			t.Errorf("of a %v, of b %v", a, b)
		}
		time.Sleep(follow.ReplacedCounts/2 - time.Nanosecond)
		if a := r.Of("a"); !slices.Equal(a, []int{2, 1}) {
			t.Errorf("just before its time is over: %v", a)
		}
		time.Sleep(time.Nanosecond)
		if a := r.Of("a"); !slices.Equal(a, []int{2}) {
			t.Errorf("after it: %v", a)
		}
		time.Sleep(follow.ReplacedCounts)
		if a, b := r.Of("a"), r.Of("b"); a != nil || b != nil {
			t.Errorf("of a %v, of b %v", a, b)
		}
	})
}

// However much changes, what is remembered is bounded.
func TestReplacedVersionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r follow.Replaced[int]
		for n := range 2000 {
			r.Add(fmt.Sprint("key-", n), n)
			r.Add("key-0", n)
		}
		if n := len(r.Of("key-0")); n != 16 || r.Of("key-0")[0] != 1999 {
			t.Errorf("%d versions of one key", n)
		}
		few := follow.Replaced[int]{Most: 3}
		for n := range 20 {
			few.Add("key", n)
		}
		if got := few.Of("key"); !slices.Equal(got, []int{19, 18, 17}) {
			t.Errorf("%v, want the last three", got)
		}
		if r.Of("key-1023") == nil || r.Of("key-1024") != nil {
			t.Error("not the first 1024 keys are remembered")
		}
		time.Sleep(follow.ReplacedCounts)
		r.Add("key-1024", 1)
		if r.Of("key-1024") == nil {
			t.Error("there is no room after some seconds")
		}
	})
}

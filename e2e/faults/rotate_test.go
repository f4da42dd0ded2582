package faults

import (
	"strings"
	"testing"
	"time"
)

func TestARotationThatIsNotAsPromisedSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	some := Rotation{Tried: 9000, RefusedDamaged: 40, Heal: []time.Duration{time.Millisecond, 999 * time.Millisecond}}
	if wrong := some.Wrong(); len(wrong) > 0 {
		t.Errorf("as promised: %q", wrong)
	}
	for want, change := range map[string]func(*Rotation){
		"1 pods were refused":       func(r *Rotation) { r.Failed = 1 },
		"2 pods lack their sidecar": func(r *Rotation) { r.Uninjected = 2 },
		"3 new connections":         func(r *Rotation) { r.Broken = 3 },
		"a damage was felt for 1s":  func(r *Rotation) { r.Heal = []time.Duration{time.Second} },
		"0 pods were tried":         func(r *Rotation) { r.Tried = 0 },
	} {
		bad := some
		change(&bad)
		if wrong := bad.Wrong(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], want) {
			t.Errorf("wrong is %q, want one that begins with %q", wrong, want)
		}
	}
}

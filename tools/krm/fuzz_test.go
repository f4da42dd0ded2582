package krm_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/tools/krm"
)

// FuzzResourceList holds that a list that is written without a change has the items that were read.
func FuzzResourceList(f *testing.F) {
	for _, items := range []string{
		"[]", "\n- {y: n, off: 0644, z: !!binary aGk=} # c\n- a: &x {b: 1}\n  c: *x\n- <<: *x\n", "[{a: >-\n  b\n\n   c\n, d: |+\n  e\n\n}]", "\n# h\n- ? a\n  : [b, # c\n  d]\n", `[{"a": "\u0085\ud83d\ude00\/"}]`,
	} {
		f.Add(items)
	}
	f.Fuzz(func(t *testing.T, items string) {
		list, err := krm.Read([]byte("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: " + items))
		if err != nil {
			return
		}
		var out strings.Builder
		if err := list.Write(&out, nil); err != nil {
			t.Fatal(err)
		}
		again, err := krm.Read([]byte(out.String()))
		if err != nil || !reflect.DeepEqual(again.Items, list.Items) {
			t.Fatalf("%v became\n%s(%v)", list.Items, out.String(), err)
		}
	})
}

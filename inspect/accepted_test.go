package inspect_test

import (
	"slices"
	"testing"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
)

func TestATemplateWhosePodsTheAPIServerRefusesIsNamed(t *testing.T) {
	t.Parallel()
	object := func(kind, metadata, status string) string {
		return "---\napiVersion: pillion.dev/v1alpha1\nkind: " + kind + "\nmetadata: {" + metadata + ", generation: 2}\nspec: {inject: {metadata: {labels: {a: b}}}}\n" +
			"status: {conditions: [{type: Accepted, reason: x, " + status + "}]}\n"
	}
	live := inspecttest.Live(t, inspecttest.Shop+
		object("SidecarTemplate", "name: bad", "status: 'False', observedGeneration: 2, message: \"template bad: one\\ntemplate bad: two\"")+
		object("SidecarTemplate", "name: mended", "status: 'False', observedGeneration: 1, message: old")+
		object("SidecarTemplate", "name: good", "status: 'True', observedGeneration: 2, message: fine")+
		object("SidecarTemplate", "name: unasked", "status: Unknown, observedGeneration: 2, message: nobody")+
		object("NamespacedSidecarTemplate", "name: own, namespace: shop", "status: 'False', observedGeneration: 2, message: own"), nil)
	const bad, own = "warning: template bad: one; template bad: two", "warning: own"
	for of, want := range map[inspect.Target][]string{
		{}:                                   {bad},
		{Template: "bad"}:                    {bad},
		{Template: "good"}:                   nil,
		{Namespace: "shop"}:                  {bad, own},
		{Namespace: "shop", Template: "own"}: {own},
		{Namespace: "cart"}:                  {bad},
	} {
		if got := live.AcceptanceWarnings(t.Context(), of); !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", of, got, want)
		}
	}
}

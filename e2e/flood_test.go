package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// flood has a tenant write a namespace by four clients without a pause.
func (n *namespace) flood(t *testing.T, patch string) *podLoad {
	t.Helper()
	tenant := asTenant(t, n)
	return newLoad(t, 4, 0, func(ctx context.Context, value string) (outcome string, err error) {
		_, err = tenant.CoreV1().Namespaces().Patch(ctx, n.name, types.MergePatchType, fmt.Appendf(nil, patch, value), metav1.PatchOptions{FieldManager: "x"})
		switch {
		case apierrors.IsConflict(err):
			return "conflicts", nil
		case err != nil:
			return refused, err
		}
		return "writes", nil
	})
}

// Pillion's writes are for the version of a namespace that it knows. Somebody who makes a new one
// every few milliseconds does not keep them away.
func TestATenantWhoWritesItsNamespaceAllTheTimeKeepsNoLabelAway(t *testing.T) {
	t.Parallel()
	team := unique("team")
	m := requiredFor(team, sidecarSpec)
	m.apply(t)
	waitRequired(t, map[string]string{"team": team})
	for what, patch := range map[string]string{
		"an annotation":                        `{"metadata":{"annotations":{"flip":"%s"}}}`,
		"an annotation, and no managed fields": `{"metadata":{"managedFields":[{}],"annotations":{"flip":"%s"}}}`,
	} {
		asks, late := newNamespace(t, nil, nil), newNamespace(t, nil, map[string]string{"team": team + "-late"})
		floods := []*podLoad{asks.flood(t, patch), late.flood(t, patch)}
		asks.mustPatch(t, asksNow)
		lateTemplate := requiredFor(team+"-late", sidecarSpec)
		lateTemplate.apply(t)
		took := eventually(t, soon, func() error { return asks.hasInjection(t, "enforced") })
		tookLate := eventually(t, soon, func() error { return errors.Join(late.hasLabel(t, true), late.hasInjection(t, "enforced")) })
		t.Logf("%s: enforced after %v, required after %v", what, took, tookLate)
		for _, flood := range floods {
			flood.end()
			if c := flood.counts(); c["writes"] == 0 || c[refused] > 0 {
				t.Errorf("the tenant's writes: %s", flood)
			}
		}
	}
}

// A label that is nobody's is Pillion's, and goes where nothing asks for it.
func TestATenantDoesNotTakeAHandsLabelByTakingTheHandAway(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, enforced())
	tenant := asTenant(t, n)
	patches := []string{ownersReset}
	for i := range n.object(t).ManagedFields {
		patches = append(patches,
			fmt.Sprintf(`[{"op":"replace","path":"/metadata/managedFields/%d/manager","value":"before-first-apply"}]`, i),
			fmt.Sprintf(`[{"op":"replace","path":"/metadata/managedFields/%d/fieldsV1","value":{"f:metadata":{"f:labels":{".":{}}}}}]`, i))
	}
	for _, patch := range patches {
		_, err := tenant.CoreV1().Namespaces().Patch(t.Context(), n.name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		wantNoError(t, forbiddenWith(err), patch)
	}
	// Tools come and go all the same, and the oldest hands become one.
	twelveTools(t, tenant, n)
	time.Sleep(12 * time.Second) // Pillion takes a label off after ten seconds
	wantNoError(t, n.hasInjection(t, "enforced"))
}

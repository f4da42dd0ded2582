package e2e

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// proofNamespace is the one that the chart makes.
const proofNamespace = ground.Namespace + "-proof"

// proven looks at what every replica says of its proofs.
func proven(want string, more ...string) error {
	for _, r := range shared.Replicas(ground.Namespace) {
		for _, line := range append(more, "pillion_enforcement_proven "+want) {
			if err := metric(r, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// Not in parallel: meanwhile the API server calls Pillion for no pod.
func TestNothingIsProvenWhileTheAPIServerDoesNotCallPillion(t *testing.T) {
	backToOne(t)
	before := webhookConfiguration(t)
	deaf := before.DeepCopy()
	for i := range deaf.Webhooks {
		for j, rule := range deaf.Webhooks[i].Rules {
			if rule.Resources[0] == "pods" {
				deaf.Webhooks[i].Rules[j].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
			}
		}
	}
	update := func(ctx context.Context, c *admissionregistrationv1.MutatingWebhookConfiguration) error {
		api := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
		now, err := api.Get(ctx, configuration, metav1.GetOptions{})
		if err == nil {
			for i := range now.Webhooks {
				now.Webhooks[i].Rules = c.Webhooks[i].Rules
			}
			_, err = api.Update(ctx, now, metav1.UpdateOptions{})
		}
		return err
	}
	expectNoError(t, update(t.Context(), deaf))
	atTheEnd(t, func(ctx context.Context) error { return update(ctx, before) })
	kill(t)
	scale(t, 1)
	eventually(t, soon, func() error {
		return proven("0", `pillion_proofs_total{result="succeeded"} 0`, `pillion_proofs_total{result="failed"}`)
	})
	if result, found := checking(t).find("proof", "came back without the sidecar"); result != "failed" || len(found) != 1 {
		t.Errorf("proof is %s: %+v", result, found)
	}
	expectNoError(t, update(t.Context(), before))
	eventually(t, soon, func() error { return proven("1") })
}

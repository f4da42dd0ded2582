package proof

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector/reason"
)

// RequiredTemplate is the name of the template of [Bare] pods, and of its sidecar.
const RequiredTemplate = "pillion-proof-required"

// bareLabel is on [Bare] pods.
const bareLabel = "pillion-proof"

// RequiredManifest returns the template of [Bare] pods. A pod has no UID before all webhooks have
// changed it. So the template injects none of them, and requires its sidecar in all final ones.
func RequiredManifest(prefix, namespace string) []byte {
	return fmt.Appendf(nil, `apiVersion: %s/v1alpha1
kind: SidecarTemplate
metadata:
  name: %s
spec:
  description: The sidecar that is missing in the pods by which Pillion proves that final pods are verified. They are never created.
  required: true
  availableTo:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: %s
  match:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: %[3]s
    podSelector:
      matchLabels:
        %s: bare
  matchConditions:
  - name: final
    expression: has(pod.metadata.uid)
  inject:
    spec:
      initContainers:
      - name: %[2]s
        image: proof.invalid/sidecar:1
        restartPolicy: Always
`, prefix, RequiredTemplate, namespace, bareLabel)
}

// Bare returns a pod that lacks the sidecar of a required template when all webhooks are done with it.
func Bare(prefix string) *corev1.Pod {
	pod := Pod(prefix, "")
	pod.Labels = map[string]string{bareLabel: "bare"}
	return pod
}

// Refused reports whether the API server had Pillion verify a [Bare] pod.
func Refused(err error) bool {
	code, ours := reason.OfRefusal(err)
	return ours && code == reason.RequiredMissing && strings.Contains(err.Error(), RequiredTemplate)
}

// verify sends a [Bare] pod, and returns nil if it is refused.
func (p *Prover) verify(ctx context.Context) *Failure {
	o := p.options
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	_, err := o.Create(limited, Bare(o.Prefix))
	switch {
	case err == nil:
		return &Failure{Outcome: NotVerified, text: fmt.Sprintf("a pod of namespace %s without the sidecar of a required template was not refused: the API server does not have final pods verified. "+
			"See that the ValidatingWebhookConfiguration is there and that its entry required-enforced.%s is as the chart has it (pillion check), and that the namespace has its label (kubectl label namespace %[1]s %[2]s/required=true --overwrite)", o.Namespace, o.Prefix)}
	case Refused(err):
		return nil
	}
	return &Failure{Outcome: NotVerified, cause: err, text: fmt.Sprintf("a pod of namespace %s without the sidecar of a required template was not refused for it, so whether final pods are verified cannot be told", o.Namespace)}
}

// verified takes note of the end of [Prover.verify], and returns the longest time until the next one.
// What is not verified is injected all the same: it changes nothing about enforcement.
func (p *Prover) verified(failure *Failure) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if failure == nil {
		if p.bare >= enough {
			p.options.Logger.Info("proven: the API server has final pods verified again", "namespace", p.options.Namespace)
		}
		p.bare, p.unverified = 0, nil
		return 2 * interval
	}
	p.counts[failure.Outcome]++
	p.bare++
	p.unverified = failure
	if p.bare == enough {
		p.options.Logger.Error("the proof that final pods are verified fails: pods without the sidecars of required templates may be created", "reason", failure.Outcome, "failures", p.bare, "error", failure)
	}
	if p.bare < enough {
		return soonest
	}
	return latest
}

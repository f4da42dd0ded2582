package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Outcome names how a proof ended.
type Outcome string

// How a proof ends.
const (
	// Proven: the pod came back injected.
	Proven Outcome = "Proven"
	// NotInjected: the pod came back without the sidecar.
	NotInjected Outcome = "NotInjected"
	// NotVerified: a pod without the sidecar of a required template was not refused for that.
	NotVerified Outcome = "NotVerified"
	// WebhookFailed: the API server called Pillion, and got no answer that it could use.
	WebhookFailed Outcome = "WebhookFailed"
	// OtherWebhookFailed: the API server called another webhook, got no answer that it could use,
	// and refused the pod.
	OtherWebhookFailed Outcome = "OtherWebhookFailed"
	// RefusedByPillion and RefusedByOthers: the pod was refused.
	RefusedByPillion Outcome = "RefusedByPillion"
	RefusedByOthers  Outcome = "RefusedByOthers"
	// NamespaceMissing, ServiceAccountMissing and PermissionMissing: something that a proof
	// needs is missing.
	NamespaceMissing      Outcome = "NamespaceMissing"
	ServiceAccountMissing Outcome = "ServiceAccountMissing"
	PermissionMissing     Outcome = "PermissionMissing"
	// Unauthorized: the API server does not accept Pillion's token.
	Unauthorized Outcome = "Unauthorized"
	// NoAnswer: the API server did not answer, or failed itself.
	NoAnswer Outcome = "NoAnswer"
)

// Outcomes returns how a proof can end, as values of the label outcome.
func Outcomes() []Outcome {
	return []Outcome{Proven, NotInjected, NotVerified, WebhookFailed, OtherWebhookFailed, RefusedByPillion, RefusedByOthers, NamespaceMissing, ServiceAccountMissing, PermissionMissing, Unauthorized, NoAnswer}
}

// broken reports whether the outcome shows that pods are not injected. Other failures say
// nothing about that.
func (o Outcome) broken() bool {
	return o == NotInjected || o == WebhookFailed || o == RefusedByPillion
}

// Failure is a proof that failed. Its text says what to do.
type Failure struct {
	Outcome Outcome
	text    string
	cause   error
}

func (f *Failure) Error() string {
	if f.cause == nil {
		return f.text
	}
	return f.text + ": " + f.cause.Error()
}

// Unwrap returns the API server's answer, or nil.
func (f *Failure) Unwrap() error { return f.cause }

// prove sends one pod, and returns nil if it came back injected.
func (p *Prover) prove(ctx context.Context) *Failure {
	o := p.options
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	pod, err := o.Create(limited, Pod(o.Prefix, Template))
	switch {
	case err != nil:
		return p.failure(err)
	case !Injected(o.Prefix, pod):
		return &Failure{Outcome: NotInjected, text: fmt.Sprintf("a pod of namespace %s came back without its sidecar: the API server does not call Pillion. "+
			"See that the MutatingWebhookConfiguration is there, has the entry enforced.%s and a caBundle (kubectl get mutatingwebhookconfigurations -o yaml), "+
			"and that the namespace has its label (kubectl label namespace %[1]s %s/injection=enforced --overwrite); helm upgrade --reset-then-reuse-values restores both", o.Namespace, o.Prefix, o.Prefix)}
	}
	return nil
}

// Unanswered reports whether a pod was refused because the API server called Pillion, with
// this prefix, and got no answer that it can use.
func Unanswered(err error, prefix string) bool {
	return strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "."+prefix+`"`)
}

// unansweredOther returns the name of the webhook that gave the API server no answer that it can use.
func unansweredOther(err error) (name string, found bool) {
	_, rest, found := strings.Cut(err.Error(), `failed calling webhook "`)
	name, _, _ = strings.Cut(rest, `"`)
	return name, found
}

// lacksRequired reports whether the admission policy of a required template refused the pod.
func lacksRequired(err error, prefix string) bool {
	_, policy, found := strings.Cut(err.Error(), "ValidatingAdmissionPolicy 'required-")
	name, _, _ := strings.Cut(policy, "'")
	return found && strings.HasSuffix(name, "."+prefix)
}

// failure names the error of a request that was to create a pod.
func (p *Prover) failure(err error) *Failure {
	o := p.options
	failed := func(outcome Outcome, text string, args ...any) *Failure {
		return &Failure{Outcome: outcome, text: fmt.Sprintf(text, args...), cause: err}
	}
	missing := func() *Failure {
		return failed(NamespaceMissing, "the proof namespace %s is missing or is being deleted; restore it with helm upgrade --reset-then-reuse-values, or by hand: "+
			"kubectl create namespace %[1]s; kubectl label namespace %[1]s %s/injection=enforced pod-security.kubernetes.io/enforce=restricted", o.Namespace, o.Prefix)
	}
	if code, ours := reason.OfRefusal(err); ours {
		return failed(RefusedByPillion, "Pillion refuses the pod of its own proof in namespace %s (%s); if the match of a template selects every namespace, exclude this one", o.Namespace, code)
	}
	var answer apierrors.APIStatus
	other, otherFailed := unansweredOther(err)
	switch {
	case !errors.As(err, &answer):
		return failed(NoAnswer, "the API server does not answer the proof in namespace %s", o.Namespace)
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return missing()
	case Unanswered(err, o.Prefix):
		return failed(WebhookFailed, "the API server calls Pillion for a pod of namespace %s, and gets no answer that it can use; "+
			"see that Pillion's Service has ready endpoints, that its port is reachable from the API servers, and that the caBundle verifies its certificate (pillion status)", o.Namespace)
	case otherFailed:
		return failed(OtherWebhookFailed, "another webhook, %s, does not answer, so pods are refused, in namespace %s too: repair it, or exclude the namespace in its namespaceSelector; "+
			"to find it: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o yaml", other, o.Namespace)
	case apierrors.IsUnauthorized(err):
		return failed(Unauthorized, "the API server does not accept Pillion's token, so nothing can be proven in namespace %s; for the cause run: pillion check", o.Namespace)
	case strings.Contains(err.Error(), "error looking up service account"):
		return failed(ServiceAccountMissing, "the ServiceAccount default of namespace %s is missing, without which no pod is admitted there; the controller manager makes it, or by hand: "+
			"kubectl -n %[1]s create serviceaccount default", o.Namespace)
	case apierrors.IsForbidden(err):
		// Where the namespace is gone, so is the Role in it.
		if !o.Exists() {
			return missing()
		}
		if rights.Lacks(err) {
			return failed(PermissionMissing, "missing permission: the verb create on the resource pods in namespace %s, which the chart grants with rbac.create=true and enforcement.mode=Auto. By hand: "+
				"kubectl -n %[1]s create role pillion-proof --verb=create --resource=pods; "+
				"kubectl -n %[1]s create rolebinding pillion-proof --role=pillion-proof --serviceaccount=NAMESPACE:ACCOUNT, with the account of this error", o.Namespace)
		}
		if lacksRequired(err, o.Prefix) {
			return failed(RefusedByOthers, "a pod of namespace %s is refused by the admission policy of a required template: the API server does not call Pillion, or the policy is older than the template; for the cause run: pillion check", o.Namespace)
		}
		fallthrough
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return failed(RefusedByOthers, "a pod of namespace %s is refused, but not by Pillion: exclude this namespace from the policy or webhook that refuses it", o.Namespace)
	}
	return failed(NoAnswer, "the API server fails at a pod of namespace %s", o.Namespace)
}

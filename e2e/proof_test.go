package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/proof"
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

func TestAnInstallProvesItself(t *testing.T) {
	t.Parallel()
	eventually(t, soon, func() error { return proven("1", `pillion_proofs_total{outcome="Proven"}`) })
	for _, r := range shared.Replicas(ground.Namespace) {
		if metric(r, "pillion_template_info", proof.Template) == nil {
			t.Error("the template of proofs is among those that somebody looks after")
		}
	}
	if out := must(t, "", "pillion", "prove"); !strings.Contains(out, proofNamespace) || !strings.Contains(out, proof.Template) {
		t.Errorf("pillion prove says %q", out)
	}
	var told struct {
		Proven []struct {
			Record struct{ Templates map[string]any }
		}
	}
	if out := must(t, "", "pillion", "prove", "-o", "json"); json.Unmarshal([]byte(out), &told) != nil || len(told.Proven) < 2 || told.Proven[0].Record.Templates[proof.Template] == nil {
		t.Errorf("as JSON: %s", out)
	}
	n := newNamespace(t, nil, nil)
	if _, err := n.preview(t, newPod("thief", map[string]string{injectAnnotation: proof.Template})); err == nil || !strings.Contains(err.Error(), "NotAllowedHere") {
		t.Errorf("a pod elsewhere that asks for the template of proofs: %v, want it refused", err)
	}
	args := must(t, "", "kubectl", "get", "namespace", proofNamespace, "-o", "jsonpath={.metadata.labels}")
	if !strings.Contains(args, `"pillion.dev/injection":"enforced"`) {
		t.Errorf("the labels of the proof namespace are %s", args)
	}
}

// What a real API server answers has the name that it should have.
func TestFailuresOfProofsAreNamedAsTheAPIServerAnswersThem(t *testing.T) {
	t.Parallel()
	nobody := asUser(t, unique("nobody"))
	over := rest.AnonymousClientConfig(config)
	over.BearerToken = "over"
	unauthorized, err := kubernetes.NewForConfig(over)
	expectNoError(t, err)
	broken := newNamespace(t, nil, map[string]string{injectionLabel: "disabled"}).name
	foreignWebhook(t, unique("broken"), "Fail", broken)
	for name, c := range map[string]struct {
		client    kubernetes.Interface
		namespace string
		want      proof.Outcome
	}{
		"another webhook fails":  {client, broken, proof.OtherWebhookFailed},
		"the token is over":      {unauthorized, proofNamespace, proof.Unauthorized},
		"no namespace":           {client, unique("none"), proof.NamespaceMissing},
		"no namespace, no right": {nobody, unique("none"), proof.NamespaceMissing},
		"no right":               {nobody, proofNamespace, proof.PermissionMissing},
		"Pillion refuses":        {client, newNamespace(t, nil, nil).name, proof.RefusedByPillion},
		"Pillion keeps out":      {client, "kube-system", proof.NotInjected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proof.New(proof.Options{
				Prefix: "pillion.dev", Namespace: c.namespace, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
				Ready: func() error { return nil },
				Create: func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
					return c.client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				},
				Exists: func() bool {
					_, err := client.CoreV1().Namespaces().Get(t.Context(), c.namespace, metav1.GetOptions{})
					return !apierrors.IsNotFound(err)
				},
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- p.Run(ctx) }()
			eventually(t, soon, func() error {
				var failure *proof.Failure
				if err := p.Err(); !errors.As(err, &failure) || failure.Outcome != c.want {
					return fmt.Errorf("it fails with %v, want %s", err, c.want)
				}
				return nil
			})
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
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
	t.Cleanup(func() {
		if err := update(context.Background(), before); err != nil {
			t.Error(err)
		}
	})
	kill(t)
	scale(t, 1)
	eventually(t, soon, func() error {
		return proven("0", `pillion_proof_failing{outcome="NotInjected"} 1`, `pillion_proofs_total{outcome="NotInjected"}`)
	})
	if out, stderr, err := run(t, "", "pillion", "prove"); err == nil || !strings.Contains(stderr, "without the sidecar") {
		t.Errorf("pillion prove: %v\n%s%s", err, out, stderr)
	}
	expectNoError(t, update(t.Context(), before))
	eventually(t, soon, func() error { return proven("1") })
}

func TestTheValuesOfEnforcementReachTheObjects(t *testing.T) {
	t.Parallel()
	objects := render(t)
	ns := only[corev1.Namespace](t, objects, "Namespace")
	if ns.Name != proofNamespace || ns.Labels["pillion.dev/injection"] != "enforced" || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" || ns.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("the proof namespace is\n%s", pretty(ns))
	}
	if _, ok := policies(t, objects)["proof"]; !ok {
		t.Error("no policy holds Pillion to dry runs in the proof namespace")
	}
	for _, test := range []struct {
		sets      []string
		arguments []string
		not       string
		namespace string // empty: none is made
	}{
		{nil, []string{"--enforcement=Auto", "--proof-namespace=" + proofNamespace, "--namespace=" + proofNamespace, "--inject=pillion-proof"}, "--take-back-after", proofNamespace},
		{[]string{"enforcement.mode=Manual"}, []string{"--enforcement=Manual", "--namespace=default"}, "proof", ""},
		{[]string{"enforcement.takeBackAfter=10m", "enforcement.proofNamespace=mine"}, []string{"--take-back-after=10m", "--proof-namespace=mine", "--namespace=mine"}, proofNamespace, "mine"},
		{[]string{"test.namespace=shop"}, []string{"--namespace=shop", "--proof-namespace=" + proofNamespace}, "--inject=", proofNamespace},
		{[]string{"annotationPrefix=side.example.com"}, []string{"--proof-namespace=" + proofNamespace}, "", proofNamespace},
	} {
		objects := render(t, test.sets...)
		text := ""
		for _, object := range objects {
			if kind := object.GetKind(); kind == "Deployment" || kind == "Pod" {
				text += pretty(object)
			}
		}
		for _, want := range test.arguments {
			if !strings.Contains(text, `"`+want+`"`) {
				t.Errorf("with %q the arguments lack %s", test.sets, want)
			}
		}
		if test.not != "" && strings.Contains(text, test.not) {
			t.Errorf("with %q the arguments have %s", test.sets, test.not)
		}
		if objects.has("Namespace") != (test.namespace != "") || test.namespace != "" && only[corev1.Namespace](t, objects, "Namespace").Name != test.namespace {
			t.Errorf("with %q the namespace is another one than %q", test.sets, test.namespace)
		}
	}
	for set, want := range map[string]string{
		"enforcement.mode=auto":                              "mode",
		"enforcement.takeBackAfter=soon":                     "takeBackAfter",
		"enforcement.proofNamespace=kube-system":             "enforcement.proofNamespace",
		"enforcement.proofNamespace=" + ground.Namespace:     "enforcement.proofNamespace",
		"templates.pillion-proof.inject.metadata.labels.a=b": "enforcement.mode=Manual",
		"rbac.hardened=true,certs.provider=cert-manager,rbac.admissionPolicy=false,webhook.required.enabled=false": "rbac.admissionPolicy=true",
	} {
		refuses(t, []string{set}, []string{want}, "-n", ground.Namespace)
	}
}

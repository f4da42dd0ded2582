package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
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
	eventually(t, soon, func() error { return proven("1", `pillion_proofs_total{result="succeeded"}`) })
	for _, r := range shared.Replicas(ground.Namespace) {
		if metric(r, "pillion_template_info", proof.Template) == nil {
			t.Error("the template of proofs is among those that somebody looks after")
		}
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

// An error has what a real API server answers.
func TestAProofThatFailsHasTheAnswerOfTheAPIServer(t *testing.T) {
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
		want      string
	}{
		"all is well":           {client, proofNamespace, ""},
		"another webhook fails": {client, broken, "failed calling webhook"},
		"the token is over":     {unauthorized, proofNamespace, "Unauthorized"},
		"no namespace":          {client, unique("none"), "not found"},
		"no right":              {nobody, proofNamespace, "cannot create resource"},
		"Pillion refuses":       {client, newNamespace(t, nil, nil).name, "NotAllowedHere"},
		"Pillion keeps out":     {client, "kube-system", "came back without the sidecar"},
	} {
		pod, err := c.client.CoreV1().Pods(c.namespace).Create(t.Context(), proof.Pod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err := proof.Validate(c.namespace, pod, err); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Not in parallel: it upgrades the release.
func TestOneValueSaysWhichNamespacesAreEnforced(t *testing.T) {
	_, required := newRequired(t, nil)
	asks, quiet := newNamespace(t, asking("fluent-bit"), nil), newNamespace(t, nil, nil)
	set := func(value string) {
		must(t, "", "helm", append(upgradeOf(installed...), "--set", "enforcement="+value)...)
		rolledOut(t, ground.Namespace)
	}
	defer set("Asked")
	for _, c := range []struct{ value, required, asks string }{
		{"Asked", "enforced", "enforced"}, {"Required", "enforced", "enabled"}, {"None", "enabled", "enabled"}, {"Required", "enforced", "enabled"},
	} {
		set(c.value)
		eventually(t, soon, func() error {
			return errors.Join(required.hasInjection(t, c.required), asks.hasInjection(t, c.asks), quiet.hasInjection(t, ""))
		})
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), proofNamespace, metav1.GetOptions{}); err != nil {
			t.Error(err) // the chart keeps it, with None as well
		}
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
		return proven("0", `pillion_proofs_total{result="succeeded"} 0`, `pillion_proofs_total{result="failed"}`)
	})
	if result, found := checking(t).find("proof", "came back without the sidecar"); result != "failed" || len(found) != 1 {
		t.Errorf("proof is %s: %+v", result, found)
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
		settings  []string
		not       string
		namespace string // empty: none is made
	}{
		{nil, []string{"enforcement: Required", "proof: " + proofNamespace}, "", proofNamespace},
		{[]string{"enforcement=Asked"}, []string{"enforcement: Asked", "proof: " + proofNamespace}, "", proofNamespace},
		{[]string{"enforcement=None"}, []string{"enforcement: None"}, "proof", ""},
	} {
		objects := render(t, test.sets...)
		text := objects.settings(t)
		for _, want := range test.settings {
			if !strings.Contains(text, want) {
				t.Errorf("with %q the settings lack %s", test.sets, want)
			}
		}
		if test.not != "" && strings.Contains(text, test.not) {
			t.Errorf("with %q the settings have %s", test.sets, test.not)
		}
		if objects.has("Namespace") != (test.namespace != "") || test.namespace != "" && only[corev1.Namespace](t, objects, "Namespace").Name != test.namespace {
			t.Errorf("with %q the namespace is another one than %q", test.sets, test.namespace)
		}
	}
	for set, want := range map[string]string{
		"enforcement=asked":                                                         "enforcement",
		"enforcement.mode=Auto":                                                     "enforcement",
		"excludedNamespaces={" + proofNamespace + "}":                               "enforcement=None",
		"templates.pillion-proof.inject.metadata.labels.a=b":                        "choose another name",
		"rbac.hardened=true,certs.provider=cert-manager,rbac.admissionPolicy=false": "rbac.admissionPolicy=true",
	} {
		refuses(t, []string{set}, []string{want}, "-n", ground.Namespace)
	}
}

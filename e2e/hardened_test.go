package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const registrationGroup = "admissionregistration.k8s.io"

// hardened are the ways to install with rbac.hardened.
var hardened = map[string][]string{
	"files":        {"rbac.hardened=true", "certs.provider=files", "certs.files.secretName=mine"},
	"cert-manager": {"rbac.hardened=true", "certs.provider=cert-manager"},
}

// harms are the verbs of a rule that a hardened installation must not have, with the reason.
func harms(rule rbacv1.PolicyRule, clusterWide bool) []string {
	var harms []string
	say := func(wrong bool, text string) {
		if wrong {
			harms = append(harms, text)
		}
	}
	any := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(wanted, s) })
	}
	writes := any(rule.Verbs, "create", "update", "patch", "delete", "deletecollection", "*")
	say(any(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*"), "a wildcard")
	say(any(rule.APIGroups, registrationGroup) && writes, "a webhook configuration can be written")
	say(any(rule.APIGroups, registrationGroup) && len(rule.ResourceNames) == 0, "every webhook configuration can be read")
	say(any(rule.Resources, "secrets") && writes, "a Secret can be written")
	say(any(rule.Resources, "secrets") && clusterWide, "Secrets of the whole cluster")
	say(any(rule.Resources, "secrets") && len(rule.ResourceNames) == 0, "Secrets of any name")
	say(any(rule.APIGroups, "rbac.authorization.k8s.io", "certificates.k8s.io"), "roles or certificates")
	say(any(rule.Verbs, "escalate", "bind", "impersonate", "approve", "sign"), "a verb that gives rights")
	say(any(rule.Resources, "serviceaccounts/token", "pods/exec", "pods/ephemeralcontainers", "nodes/proxy"), "a way into another account")
	say(any(rule.Resources, "pods") && clusterWide, "pods of the whole cluster")
	say(any(rule.APIGroups, "", "apps", "batch") && clusterWide && !slices.Equal(rule.Resources, []string{"namespaces"}), "objects of tenants")
	say(any(rule.Resources, "pods") && writes, "a pod can be written")
	say(any(rule.APIGroups, "") && any(rule.Resources, "events"), "core events")
	say(any(rule.Resources, "namespaces") && writes, "a namespace can be written")
	return harms
}

// roles are the rules of all Roles and ClusterRoles, with the name of their role.
func roles(t *testing.T, objects rendered) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			all[kind+" "+object.GetName()] = only[rbacv1.ClusterRole](t, rendered{object}, kind).Rules
		}
	}
	return all
}

func TestTheHardenedChartGrantsNothingThatAStolenTokenCouldHarmBy(t *testing.T) {
	t.Parallel()
	for provider, sets := range hardened {
		for _, more := range [][]string{nil, {"certs.webhookConfigurations[0].kind=ValidatingWebhookConfiguration", "certs.webhookConfigurations[0].name=final"}, {"clusterTemplates=false"}, {"rbac.everyoneReadsTemplates=true"}} {
			objects := render(t, append(slices.Clone(sets), more...)...)
			seen := 0
			for role, rules := range roles(t, objects) {
				for _, rule := range rules {
					seen++
					// The test's Role is for the namespace of the pod that `helm test` tries.
					ofTest := role == "Role pillion-test" && slices.Equal(rule.Resources, []string{"pods"}) && slices.Equal(rule.Verbs, []string{"create"})
					// A policy holds the right to patch namespaces to one label.
					ofLabel := slices.Equal(rule.Resources, []string{"namespaces"}) && slices.Equal(rule.Verbs, []string{"patch"}) && holdsNamespaces(t, objects)
					// Another one holds the right to create pods to dry runs.
					_, dryRuns := policies(t, objects)["proof"]
					ofProof := role == "Role pillion-proof" && slices.Equal(rule.Resources, []string{"pods"}) && slices.Equal(rule.Verbs, []string{"create"}) && dryRuns
					for _, harm := range harms(rule, strings.HasPrefix(role, "ClusterRole ")) {
						if !ofTest && !ofLabel && !ofProof {
							t.Errorf("%s with %q: %s: %s: %+v", provider, more, role, harm, rule)
						}
					}
					if len(rule.NonResourceURLs) > 0 {
						t.Errorf("%s with %q: %s: %+v", provider, more, role, rule)
					}
				}
			}
			if seen < 4 {
				t.Errorf("%s with %q: %d rules were looked at", provider, more, seen)
			}
			for policy := range policies(t, objects) {
				if !slices.Contains([]string{"namespaces", "labels", "proof", "selectors", "hints"}, policy) {
					t.Errorf("%s with %q: a policy that nothing needs: %s", provider, more, policy)
				}
			}
			if objects.has("Secret") {
				t.Errorf("%s with %q: a Secret that nothing needs", provider, more)
			}
		}
	}
	// What is looked for is found in the default installation.
	found := ""
	for role, rules := range roles(t, render(t)) {
		for _, rule := range rules {
			found += strings.Join(harms(rule, strings.HasPrefix(role, "ClusterRole ")), ", ") + "\n"
		}
	}
	for _, harm := range []string{"a webhook configuration can be written", "a Secret can be written", "Secrets of any name", "objects of tenants"} {
		if !strings.Contains(found, harm) {
			t.Errorf("in the default installation this is not found: %s", harm)
		}
	}
}

// policies are the ValidatingAdmissionPolicies that are bound, by what their names end in.
func policies(t *testing.T, objects rendered) map[string]admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	bound, all := map[string]bool{}, map[string]admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, object := range objects {
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			binding := only[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, rendered{object}, object.GetKind())
			bound[binding.Spec.PolicyName] = slices.Equal(binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny})
		}
	}
	for _, object := range objects {
		if name := object.GetName(); object.GetKind() == "ValidatingAdmissionPolicy" && bound[name] {
			all[name[strings.LastIndex(name, "-")+1:]] = only[admissionregistrationv1.ValidatingAdmissionPolicy](t, rendered{object}, object.GetKind())
		}
	}
	return all
}

// holdsNamespaces reports whether a policy holds Pillion's account to its label on namespaces.
// TestAStolenTokenCanChangeNothingOfANamespaceButPillionsLabel tries the policy.
func holdsNamespaces(t *testing.T, objects rendered) bool {
	t.Helper()
	_, ok := policies(t, objects)["namespaces"]
	return ok
}

func TestAHardenedInstallThatWouldNeedAnUnheldRightIsRefused(t *testing.T) {
	t.Parallel()
	sets := append(slices.Clone(hardened["files"]), "rbac.admissionPolicy=false")
	_, stderr, err := run(t, "", "helm", append([]string{"template", "x", checkout.Chart()}, flags(sets)...)...)
	for _, want := range []string{"rbac.admissionPolicy=true", "with which a stolen token can"} {
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%v, want an error with %s", err, want)
		}
	}
}

func TestAHardenedInstallThatWouldNeedMoreIsRefused(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{
		{"rbac.hardened=true"},
		{"rbac.hardened=true", "rbac.createSecrets=false"},
		{"rbac.hardened=true", "certs.provider=cert-manager", "certs.certManager.cainjector=false", "certs.certManager.publish=true"},
	} {
		_, stderr, err := run(t, "", "helm", append([]string{"template", "x", checkout.Chart()}, flags(sets)...)...)
		for _, want := range []string{"rbac.hardened=true", "certs.provider=files", "certs.files.secretName", "certs.provider=cert-manager", "certs.certManager.cainjector=true", "certs.certManager.publish=false"} {
			if err == nil || !strings.Contains(stderr, want) {
				t.Errorf("%q: %v, want an error with %s", sets, err, want)
			}
		}
	}
}

// A Secret in kube-system can be a bootstrap token.
func TestTheChartGrantsNoCreationOfSecretsInKubeSystem(t *testing.T) {
	t.Parallel()
	_, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "-n", "kube-system")
	if err == nil || !strings.Contains(stderr, "rbac.createSecrets") {
		t.Errorf("%v, want an error that names the value", err)
	}
	must(t, "", "helm", "template", "x", checkout.Chart(), "-n", "kube-system", "--set", "rbac.createSecrets=false")
}

func TestNamesOfClientsWithoutACAAreRefused(t *testing.T) {
	t.Parallel()
	if _, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set", "webhook.clientNames={a}"); err == nil || !strings.Contains(stderr, "webhook.clientCA") {
		t.Errorf("%v, want an error that names webhook.clientCA", err)
	}
	args := only[appsv1.Deployment](t, render(t, "webhook.clientCA=-----BEGIN CERTIFICATE-----", "webhook.clientNames={a,b}", "rbac.createSecrets=false"), "Deployment").Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{"--client-ca-file=/etc/pillion/client-ca/ca.crt", "--client-names=a,b", "--owner-events=true", "--create-ca-secret=false"} {
		if !slices.Contains(args, want) {
			t.Errorf("the arguments %q lack %s", args, want)
		}
	}
	checksum := func(ca string) string {
		return only[appsv1.Deployment](t, render(t, "webhook.clientCA="+ca), "Deployment").Spec.Template.Annotations["checksum/files"]
	}
	if one := checksum("-----BEGIN CERTIFICATE-----a"); one == "" || one == checksum("-----BEGIN CERTIFICATE-----b") {
		t.Error("another CA does not replace the pods")
	}
}

// hardenedDenies are rights that the account of a hardened installation in that namespace does
// not have.
func hardenedDenies(namespace, webhooks string) []right {
	denied := []right{
		{verb: "create", resource: "secrets", namespace: namespace},
		{verb: "list", resource: "secrets"},
		{verb: "list", resource: "secrets", namespace: namespace},
		{verb: "get", resource: "secrets", namespace: namespace, name: "any"},
		{verb: "get", group: "apps", resource: "replicasets", namespace: "default", name: "any"},
		{verb: "get", group: "batch", resource: "jobs", namespace: "default", name: "any"},
		{verb: "create", resource: "events", namespace: "default"},
		{verb: "patch", resource: "events", namespace: "default", name: "any"},
		{verb: "update", group: "events.k8s.io", resource: "events", namespace: "default", name: "any"},
		{verb: "delete", group: "events.k8s.io", resource: "events", namespace: "default", name: "any"},
		{verb: "list", group: "events.k8s.io", resource: "events"},
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "validatingadmissionpolicies"} {
			denied = append(denied, right{verb: verb, group: registrationGroup, resource: kind, name: webhooks})
		}
		denied = append(denied, right{verb: verb, resource: "secrets", namespace: namespace, name: caSecret}, right{verb: verb, resource: "secrets", namespace: namespace, name: servingSecret})
	}
	return denied
}

// Everything of docs/security.md at once: no right that harms, reviews of the API server
// only, a NetworkPolicy. Not in parallel: it installs a second Pillion.
func TestAHardenedInstallInjectsAndAnswersTheAPIServerOnly(t *testing.T) {
	const prefix, release, webhooks = "hard.example.com", "hardened", "hardened"
	own := manifest{name: "own", spec: sidecarSpec}
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(own.yaml(), "pillion.dev/v1alpha1", prefix+"/v1alpha1")), 0o600); err != nil {
		t.Fatal(err)
	}
	home := newNamespace(t, nil, nil).name
	ca := newIssuer(t)
	name := release + "-pillion." + home + ".svc"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "serving"}, Type: corev1.SecretTypeTLS, Data: ca.signFor(t, name)}
	if _, err := client.CoreV1().Secrets(home).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pki := shared.WebhookClient()
	args := append([]string{"install", release, checkout.Chart(), "-n", home, "--set-file", "templates.own=" + file, "--set-file", "webhook.clientCA=" + filepath.Join(pki, "ca.crt")}, flags([]string{
		"annotationPrefix=" + prefix, "webhook.name=" + webhooks, "rbac.hardened=true", "certs.provider=files", "certs.files.secretName=" + secret.Name,
		"webhook.clientNames={" + ground.WebhookClientName + "}", "networkPolicy.enabled=true", "networkPolicy.apiServers[0].ipBlock.cidr=" + shared.Host().String() + "/32",
		"clusterTemplates=false", "crds.install=false", "shutdown.delaySeconds=0", "replicas=1",
	})...)
	must(t, "", "helm", args...)
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := ground.Run(ctx, shared, "helm", "uninstall", release, "-n", home)
		if err = errors.Join(err, shared.Rollout(ctx, home)); err != nil {
			t.Error(err)
		}
	})
	publishTo(t, webhooks, ca.pem())
	if err := shared.Rollout(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	account := system(home, release+"-pillion")

	n := newNamespace(t, map[string]string{prefix + "/inject": own.name}, map[string]string{prefix + "/injection": "enforced"})
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("web", nil))
		if err == nil && sidecar(pod, own.name) == nil {
			err = fmt.Errorf("containers %s, want the sidecar", containerNames(pod))
		}
		return err
	})

	t.Run("its token may write no webhook configuration and no Secret", func(t *testing.T) {
		for _, r := range hardenedDenies(home, webhooks) {
			if mayAs(t, client, account, home, r) {
				t.Errorf("it may %+v", r)
			}
		}
		list := must(t, "", "kubectl", "auth", "can-i", "--list", "--as="+account, "--as-group=system:serviceaccounts", "--as-group=system:authenticated", "-n", home)
		for line := range strings.Lines(list) {
			// Everybody may ask about their own rights.
			harmless := strings.Contains(line, "selfsubject") || strings.HasPrefix(line, "events.events.k8s.io ")
			// The templates in use, by name.
			harmless = harmless || strings.HasPrefix(line, "configmaps ") && strings.Contains(line, "-templates-in-use]")
			if strings.HasPrefix(line, "namespaces ") { // a policy holds it to one label, which the next subtest tries
				line = strings.Replace(line, "patch", "", 1)
			}
			if verbs := line[strings.LastIndex(line, "[")+1:]; !harmless && (strings.Contains(verbs, "*") || strings.Contains(verbs, "create") || strings.Contains(verbs, "patch") || strings.Contains(verbs, "update") || strings.Contains(verbs, "delete")) {
				t.Errorf("kubectl auth can-i --list has: %s", line)
			}
		}
		if !strings.Contains(list, "mutatingwebhookconfigurations") {
			t.Errorf("the list is\n%s\nwant the right to watch the webhook configurations in it, or else this shows nothing", list)
		}
		for _, err := range steal(t, account, webhooks, thefts) {
			if !apierrors.IsForbidden(err) {
				t.Errorf("an entry of a thief: %v", err)
			}
		}
	})

	t.Run("its token may change nothing of a namespace but its label", func(t *testing.T) {
		holdsPillionToItsLabel(t, newHeldNamespace(t), account, prefix+"/required")
	})

	t.Run("an event is on the namespace", func(t *testing.T) {
		must(t, fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: refused}\nspec: {template: {metadata: {annotations: {%s.%s/log-level: loud}}, spec: {restartPolicy: Never, containers: [{name: app, image: busybox}]}}}\n", own.name, prefix),
			"kubectl", "-n", n.name, "apply", "-f", "-")
		eventually(t, soon, func() error {
			list, err := client.EventsV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.ReportingController == "pillion" && e.Regarding.Kind == "Namespace" && e.Regarding.UID != "" && e.Reason == "BadParameter" {
					return nil
				}
			}
			return fmt.Errorf("no event of Pillion on the namespace:\n%s", pretty(list.Items))
		})
	})

	t.Run("nobody is answered but the API server", func(t *testing.T) {
		serve := shared.Replicas(home)[0].Serve.String()
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		other := newIssuer(t).signFor(t, ground.WebhookClientName)
		foreign, err := tls.X509KeyPair(other[corev1.TLSCertKey], other[corev1.TLSPrivateKeyKey])
		if err != nil {
			t.Fatal(err)
		}
		issued := func(name string) *tls.Certificate {
			pair, err := tls.LoadX509KeyPair(filepath.Join(pki, name+".crt"), filepath.Join(pki, name+".key"))
			if err != nil {
				t.Fatal(err)
			}
			return &pair
		}
		for who, c := range map[string]struct {
			certificate *tls.Certificate
			answered    bool
		}{
			"a client without a certificate":                {nil, false},
			"a client of another CA":                        {&foreign, false},
			"a client of the CA by another name":            {issued("somebody-else"), false},
			"a client with the API server's own credential": {issued(ground.WebhookClientName), true},
		} {
			config := &tls.Config{RootCAs: roots, ServerName: name}
			if c.certificate != nil {
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.certificate, nil }
			}
			transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, serve)
			}}
			response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("https://"+name+"/mutate/requested", "application/json", strings.NewReader(goodReview))
			var body []byte
			if err == nil {
				body, _ = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			if got := err == nil && response.StatusCode == http.StatusOK; got != c.answered || !got && len(body) > 0 {
				t.Errorf("%s: %v, body %q; want an answer: %t", who, err, body, c.answered)
			}
			transport.CloseIdleConnections()
		}
		said, err := readyz(shared.Replicas(home)[0].Admin.String())
		if err != nil || !strings.HasPrefix(said, "ok") {
			t.Errorf("/readyz: %q, %v", said, err)
		}
	})

	t.Run("the NetworkPolicy is applied", func(t *testing.T) {
		policy, err := client.NetworkingV1().NetworkPolicies(home).Get(t.Context(), release+"-pillion", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) != 1 || rule.From[0].IPBlock == nil || rule.From[0].IPBlock.CIDR != shared.Host().String()+"/32" || len(rule.Ports) != 1 {
				t.Errorf("a rule is\n%s", pretty(rule))
			}
		}
		if len(policy.Spec.Ingress) != 2 || policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/instance"] != release {
			t.Errorf("the policy is\n%s", pretty(policy.Spec))
		}
	})
}

// publishTo writes the caBundle of every entry of both configurations of that name, as the
// admin of an installation with files does.
func publishTo(t *testing.T, name string, bundle []byte) {
	t.Helper()
	api := client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if _, err := api.MutatingWebhookConfigurations().Update(t.Context(), mutating, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if _, err := api.ValidatingWebhookConfigurations().Update(t.Context(), validating, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestTheNetworkPolicyLetsInWhomTheValuesName(t *testing.T) {
	t.Parallel()
	if render(t).has("NetworkPolicy") {
		t.Error("there is a NetworkPolicy by default")
	}
	const servers, monitoring = "networkPolicy.apiServers[0].ipBlock.cidr=10.0.0.0/28", "networkPolicy.metrics[0].namespaceSelector.matchLabels.team=monitoring"
	for _, c := range []struct {
		sets []string
		want string // for each rule the port, and how many peers; 0 is everybody
	}{
		{nil, "webhook:0"},
		{[]string{servers}, "webhook:1 admin:1"},
		{[]string{monitoring}, "webhook:0 admin:1"},
		{[]string{servers, monitoring}, "webhook:1 admin:2"},
		{[]string{"networkPolicy.apiServers=null", "networkPolicy.metrics=null"}, "webhook:0"},
	} {
		policy := only[networkingv1.NetworkPolicy](t, render(t, append([]string{"networkPolicy.enabled=true"}, c.sets...)...), "NetworkPolicy")
		var got []string
		for _, rule := range policy.Spec.Ingress {
			got = append(got, fmt.Sprintf("%s:%d", rule.Ports[0].Port, len(rule.From)))
		}
		if text := strings.Join(got, " "); text != c.want || !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("with %q the rules are %s, want %s", c.sets, text, c.want)
		}
	}
	for _, set := range []string{"networkPolicy.apiServers[0].ipblock.cidr=10.0.0.0/28", "networkPolicy.metrics[0]={}"} {
		if _, _, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set-json", "networkPolicy.metrics=[{}]", "--set", set); err == nil {
			t.Errorf("%s is accepted", set)
		}
	}
}

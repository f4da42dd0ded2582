package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// right is something that an account may or may not do.
type right struct{ verb, group, resource, subresource, namespace, name string }

// may asks the API server, as an admin, what Pillion's service account may do.
func may(t *testing.T, account string, r right) bool {
	t.Helper()
	return mayAt(t, client, account, r)
}

// mayAt is may for the cluster of an admin's client.
func mayAt(t *testing.T, admin kubernetes.Interface, account string, r right) bool {
	t.Helper()
	return mayAs(t, admin, system(ground.Namespace, account), ground.Namespace, r)
}

// mayAs is mayAt for the account of a user name, which is in that namespace.
func mayAs(t *testing.T, admin kubernetes.Interface, user, namespace string, r right) bool {
	t.Helper()
	review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   user,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func TestPillionsRightsAreWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	deployments, err := client.AppsV1().Deployments(ground.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 1 {
		t.Fatalf("%d Deployments, error %v", len(deployments.Items), err)
	}
	account := deployments.Items[0].Spec.Template.Spec.ServiceAccountName
	if account == "" || account == "default" {
		t.Fatalf("Pillion runs as service account %q, want one of its own", account)
	}
	const (
		registration = "admissionregistration.k8s.io"
		rbac         = "rbac.authorization.k8s.io"
		webhooks     = "mutatingwebhookconfigurations"
		own          = ground.Namespace
	)
	allowed := []right{
		{verb: "get", resource: "secrets", namespace: own, name: caSecret},
		{verb: "list", resource: "namespaces"},
		{verb: "watch", resource: "namespaces"},
		{verb: "patch", resource: "namespaces", name: "default"},
		{verb: "patch", group: registration, resource: webhooks, name: configuration},
		{verb: "create", resource: "pods", namespace: proofNamespace},
		{verb: "watch", resource: "configmaps", namespace: own, name: "pillion-uninstall"},
		{verb: "watch", group: "pillion.dev", resource: "sidecartemplates"},
		{verb: "patch", group: "pillion.dev", resource: "sidecartemplates", subresource: "status", name: "any"},
		{verb: "patch", group: registration, resource: "validatingwebhookconfigurations", name: configuration},
		{verb: "create", group: "events.k8s.io", resource: "events", namespace: "default"},
		{verb: "patch", group: "events.k8s.io", resource: "events", namespace: "default", name: "any"},
		{verb: "get", group: "apps", resource: "replicasets", namespace: "default", name: "any"},
		{verb: "get", group: "apps", resource: "deployments", namespace: "default", name: "any"},
		{verb: "get", group: "batch", resource: "cronjobs", namespace: "default", name: "any"},
		{verb: "list", group: "apps", resource: "deployments"},
		{verb: "list", resource: "pods"},
		{verb: "update", resource: "configmaps", namespace: own, name: "pillion-templates-in-use"},
		// TestAStolenTokenCanMakeNoTemplateThatIsInjected tries the policy that holds these.
		{verb: "create", group: "pillion.dev", resource: "sidecartemplates"},
		{verb: "update", group: "pillion.dev", resource: "sidecartemplates", name: "any"},
		{verb: "delete", group: "pillion.dev", resource: "sidecartemplates", name: "any"},
		{verb: "get", group: registration, resource: "validatingadmissionpolicies", name: "pillion-pillion-system-mirrors"},
		{verb: "get", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: "sidecartemplates.pillion.dev"},
	}
	denied := []right{
		{verb: "list", resource: "secrets"},
		{verb: "get", resource: "secrets", namespace: "kube-system", name: "any"},
		{verb: "get", resource: "secrets", namespace: own, name: "another"},
		{verb: "list", resource: "secrets", namespace: own},
		{verb: "delete", resource: "secrets", namespace: own, name: caSecret},
		{verb: "create", resource: "secrets", namespace: "default"},
		{verb: "create", resource: "pods", namespace: "default"},
		{verb: "create", resource: "pods", namespace: own},
		{verb: "get", resource: "pods", namespace: proofNamespace, name: "any"},
		{verb: "delete", resource: "pods", namespace: proofNamespace, name: "any"},
		{verb: "create", resource: "pods", subresource: "exec", namespace: proofNamespace, name: "any"},
		{verb: "watch", resource: "pods"},
		{verb: "patch", resource: "pods", namespace: "default", name: "any"},
		{verb: "update", resource: "pods", namespace: "default", name: "any"},
		{verb: "delete", resource: "pods", namespace: "default", name: "any"},
		{verb: "create", resource: "pods", subresource: "exec", namespace: "default", name: "any"},
		{verb: "update", resource: "namespaces", name: "default"},
		{verb: "patch", resource: "namespaces", subresource: "status", name: "default"},
		{verb: "update", resource: "namespaces", subresource: "finalize", name: "default"},
		{verb: "delete", resource: "namespaces", name: "default"},
		{verb: "create", resource: "namespaces"},
		{verb: "get", resource: "configmaps", namespace: "kube-system", name: "any"},
		{verb: "watch", resource: "configmaps", namespace: own, name: "another"},
		{verb: "create", resource: "configmaps", namespace: own},
		{verb: "update", resource: "configmaps", namespace: own, name: "pillion-templates"},
		{verb: "update", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: "sidecartemplates.pillion.dev"},
		{verb: "get", resource: "pods", namespace: "default", name: "any"},
		{verb: "watch", resource: "pods"},
		{verb: "create", resource: "serviceaccounts", subresource: "token", namespace: own, name: account},
		{verb: "create", group: registration, resource: webhooks},
		{verb: "delete", group: registration, resource: webhooks, name: configuration},
		{verb: "update", group: registration, resource: webhooks, name: "another"},
		{verb: "patch", group: registration, resource: webhooks, name: "another"},
		{verb: "create", group: registration, resource: "validatingwebhookconfigurations"},
		{verb: "patch", group: registration, resource: "validatingwebhookconfigurations", name: "another"},
		{verb: "delete", group: registration, resource: "validatingwebhookconfigurations", name: configuration},
		{verb: "get", group: "pillion.dev", resource: "sidecartemplates", name: "any"},
		{verb: "patch", group: "pillion.dev", resource: "sidecartemplates", name: "any"},
		{verb: "deletecollection", group: "pillion.dev", resource: "sidecartemplates"},
		{verb: "get", group: registration, resource: "validatingadmissionpolicies", name: "another"},
		{verb: "update", group: registration, resource: "validatingadmissionpolicies", name: "pillion-pillion-system-mirrors"},
		{verb: "create", resource: "events", namespace: "default"},
		{verb: "patch", resource: "events", namespace: "default", name: "any"},
		{verb: "get", group: "events.k8s.io", resource: "events", namespace: "default", name: "any"},
		{verb: "list", group: "events.k8s.io", resource: "events"},
		{verb: "update", group: "events.k8s.io", resource: "events", namespace: "default", name: "any"},
		{verb: "delete", group: "events.k8s.io", resource: "events", namespace: "default", name: "any"},
		{verb: "list", group: "apps", resource: "replicasets"},
		{verb: "patch", group: "apps", resource: "deployments", namespace: "default", name: "any"},
		{verb: "patch", group: "batch", resource: "cronjobs", namespace: "default", name: "any"},
		{verb: "update", group: registration, resource: "validatingadmissionpolicies", name: "pillion-pillion-system-cabundle"},
		{verb: "delete", group: registration, resource: "validatingadmissionpolicybindings", name: "pillion-pillion-system-cabundle"},
		{verb: "create", group: rbac, resource: "clusterrolebindings"},
		{verb: "escalate", group: rbac, resource: "clusterroles"},
		{verb: "bind", group: rbac, resource: "clusterroles"},
		{verb: "impersonate", resource: "users"},
		{verb: "list", resource: "nodes"},
		{verb: "update", group: "apps", resource: "deployments", namespace: own, name: "pillion"},
	}
	for _, r := range allowed {
		if !may(t, account, r) {
			t.Errorf("Pillion may not %+v, and needs to", r)
		}
	}
	for _, r := range denied {
		if may(t, account, r) {
			t.Errorf("Pillion may %+v", r)
		}
	}
}

func TestOrdinaryUsersMayNotWriteTemplates(t *testing.T) {
	t.Parallel()
	// In the whole cluster: in a namespace no role would give a right on templates, which
	// are in none.
	for _, role := range []string{"view", "edit", "admin"} {
		user := unique(role)
		must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole="+role, "--user="+user)
		t.Cleanup(func() {
			if _, err := ground.Run(context.Background(), shared, "kubectl", "delete", "clusterrolebinding", user); err != nil {
				t.Error(err)
			}
		})
		can := func(verb, resource string, more ...string) string {
			out, _, _ := run(t, "", "kubectl", append([]string{"auth", "can-i", verb, resource, "--as=" + user}, more...)...) // the exit code says the same as the word
			answer, _, _ := strings.Cut(strings.TrimSpace(out), " ")                                                          // what comes after it is about roles that others are deleting
			return answer
		}
		// Aggregation is a controller's work, and rights are cached.
		eventually(t, soon, func() error {
			if got := can("list", "sidecartemplates.pillion.dev"); got != "yes" {
				return fmt.Errorf("whoever is bound to %s in the whole cluster may list templates: %q, want yes", role, got)
			}
			return nil
		})
		if got, want := can("create", "pods"), map[string]string{"view": "no", "edit": "yes", "admin": "yes"}[role]; got != want {
			t.Errorf("whoever is bound to %s may create pods: %q, want %q, or else this shows nothing", role, got, want)
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			for _, subresource := range []string{"", "status"} {
				if got := can(verb, "sidecartemplates.pillion.dev", "--subresource="+subresource); got != "no" {
					t.Errorf("whoever is bound to %s may %s templates (subresource %q): %q, want no", role, verb, subresource, got)
				}
			}
		}
	}
}

// Templates are in no namespace, so whoever may view one only may not read them, unless
// the chart is told to let everybody.
func TestEverybodyMayReadTemplatesWhereTheChartSaysSo(t *testing.T) {
	t.Parallel()
	const prefix = "readers.example.com" // a group of its own: other tests ask about pillion.dev
	namespace := newNamespace(t, nil, nil).name
	user := unique("viewer")
	must(t, "", "kubectl", "-n", namespace, "create", "rolebinding", user, "--clusterrole=view", "--user="+user)
	// Not by kubectl, which asks about kinds that the API server serves only.
	may := func(user, verb string) bool {
		t.Helper()
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, Groups: []string{"system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: prefix, Resource: "sidecartemplates"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	apply := func(sets ...string) {
		t.Helper()
		args := append([]string{"template", "readers", checkout.Chart(), "-n", namespace, "--show-only", "templates/rbac.yaml", "--set", "annotationPrefix=" + prefix}, flags(sets)...)
		must(t, must(t, "", "helm", args...), "kubectl", "apply", "-f", "-")
	}
	t.Cleanup(func() {
		for _, kind := range []string{"clusterrolebinding", "clusterrole"} {
			if _, err := ground.Run(context.Background(), shared, "kubectl", "delete", kind, "-l", "app.kubernetes.io/instance=readers"); err != nil {
				t.Error(err)
			}
		}
	})
	apply()
	// When this right is in force, so is what else was applied.
	must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole=readers-pillion-"+namespace+"-view", "--user="+user+"-of-all")
	t.Cleanup(func() {
		if _, err := ground.Run(context.Background(), shared, "kubectl", "delete", "clusterrolebinding", user); err != nil {
			t.Error(err)
		}
	})
	eventually(t, soon, func() error {
		if !may(user+"-of-all", "list") {
			return errors.New("whoever is bound to the view role in the whole cluster may not list templates")
		}
		return nil
	})
	if may(user, "list") {
		t.Error("a viewer of one namespace may list templates")
	}
	apply("rbac.everyoneReadsTemplates=true")
	eventually(t, soon, func() error {
		for verb, want := range map[string]bool{"get": true, "list": true, "watch": true, "create": false, "patch": false, "delete": false} {
			if got := may(user, verb); got != want {
				return fmt.Errorf("everybody may %s templates: %t, want %t", verb, got, want)
			}
		}
		return nil
	})
}

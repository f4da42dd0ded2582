package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/e2e/ground"
)

// right is something that an account may or may not do.
type right struct{ verb, group, resource, subresource, namespace, name string }

// isAllowed asks an API server what a user of these groups may do.
func isAllowed(t *testing.T, admin kubernetes.Interface, r right, user string, groups ...string) bool {
	t.Helper()
	review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   user,
			Groups: append(groups, "system:authenticated"),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
			},
		},
	}, metav1.CreateOptions{})
	expectNoError(t, err)
	return review.Status.Allowed
}

func TestOrdinaryUsersMayNotWriteTemplates(t *testing.T) {
	t.Parallel()
	const group, templates = "pillion.dev", "sidecartemplates"
	// In the whole cluster: in a namespace no role would give a right on templates, which
	// are in none.
	for role, writes := range map[string]bool{"view": false, "edit": true, "admin": true} {
		user := unique(role)
		must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole="+role, "--user="+user)
		t.Cleanup(func() { remove(t, "clusterrolebinding/"+user) })
		// Aggregation is a controller's work, and rights are cached.
		eventually(t, soon, func() error {
			if !isAllowed(t, client, right{verb: "list", group: group, resource: templates}, user) {
				return fmt.Errorf("whoever is bound to %s in the whole cluster may not list templates", role)
			}
			return nil
		})
		if got := isAllowed(t, client, right{verb: "create", resource: "pods", namespace: "default"}, user); got != writes {
			t.Errorf("whoever is bound to %s may create pods: %t, want %t, or else this shows nothing", role, got, writes)
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			for _, part := range []string{"", "status"} {
				if isAllowed(t, client, right{verb: verb, group: group, resource: templates, subresource: part}, user) {
					t.Errorf("whoever is bound to %s may %s templates (subresource %q)", role, verb, part)
				}
			}
		}
	}
}

// system is the name of a service account as a user.
func system(namespace, account string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// thefts are the patches of testdata/thefts.yaml of one kind of object.
func thefts(t *testing.T, of string) map[string]string {
	t.Helper()
	var all map[string]map[string]string
	fromYAML(t, "testdata/thefts.yaml", &all)
	return all[of]
}

// steal tries patches of both configurations by dry run, and returns the error of each.
func steal(t *testing.T, user, name string, patches map[string]string) map[string]error {
	t.Helper()
	c := client
	if user != "" {
		c = asUser(t, user, "system:serviceaccounts")
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
	for what, err := range steal(t, "", configuration, thefts(t, "configurations")) {
		wantNoError(t, err, "an admin, so that this patch shows nothing:", what)
	}
	all := steal(t, account, configuration, thefts(t, "configurations"))
	maps.Copy(all, steal(t, account, configuration, reinvocation))
	delete(all, "validating: reinvocation") // it has no such field
	for what, err := range all {
		wantNoError(t, refusedByPolicy(err), what)
	}
	bundle, err := publishedBundle(t)
	expectNoError(t, err)
	allowed := map[string]string{"the caBundle": fmt.Sprintf(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"},{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(bundle))}
	for what, err := range steal(t, account, configuration, allowed) {
		wantNoError(t, err, what)
	}
}

// RBAC gives the right to create pods in the proof namespace, and the chart's policy leaves dry
// runs of it.
func TestAStolenTokenCanRunNoPodInTheProofNamespace(t *testing.T) {
	t.Parallel()
	thief, admin := asUser(t, system(ground.Namespace, "pillion")).CoreV1().Pods(proofNamespace), client.CoreV1().Pods(proofNamespace)
	pod := func() *corev1.Pod { return proof.Pod() }
	eventually(t, soon, func() error { // API servers take up a new policy after a moment
		real, err := thief.Create(t.Context(), pod(), metav1.CreateOptions{})
		if err == nil {
			return errors.Join(errors.New("it is created"), admin.Delete(t.Context(), real.Name, metav1.DeleteOptions{}))
		}
		return refusedByPolicy(err)
	})
	got, err := thief.Create(t.Context(), pod(), dryRun)
	expectNoError(t, proof.Validate(proofNamespace, got, err))
	// No right is more than that, and if somebody gave one, the policy would hold.
	must(t, "", "kubectl", "-n", proofNamespace, "create", "rolebinding", "given", "--clusterrole=edit", "--serviceaccount="+ground.Namespace+":pillion")
	t.Cleanup(func() { remove(t, "-n", proofNamespace, "rolebinding/given") })
	own := pod()
	own.Name, own.GenerateName = unique("own"), ""
	create(t, admin, own)
	atTheEnd(t, func(ctx context.Context) error {
		return admin.Delete(ctx, own.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	for what, try := range map[string]func() error{
		"a label": func() error {
			return errorOf(thief.Patch(t.Context(), own.Name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
		},
		"a deletion":            func() error { return thief.Delete(t.Context(), own.Name, metav1.DeleteOptions{}) },
		"a deletion by dry run": func() error { return thief.Delete(t.Context(), own.Name, metav1.DeleteOptions{DryRun: dryRun.DryRun}) },
	} {
		t.Log(what)
		eventually(t, soon, func() error { return refusedByPolicy(try()) }) // the right that was given comes after a moment
	}
}

// What the policies leave to a thief of Pillion's token: the values that Pillion writes, as Pillion
// writes them.
func TestAStolenTokenCanGiveLabelsNoValueThatPillionDoesNotGive(t *testing.T) {
	t.Parallel()
	thief := asUser(t, system(ground.Namespace, "pillion"), "system:serviceaccounts")
	// Of so many labels only the number is compared, and who owns them: nobody.
	many := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	for i := range 1001 {
		many[fmt.Sprintf("l%x", i)] = ""
	}
	in := map[string]*namespace{
		"plain": newNamespace(t, nil, map[string]string{"team": "web"}), "nobodys": newNamespace(t, nil, many), "asks": newNamespace(t, nil, many),
		"switched-off": newNamespace(t, asking("fluent-bit"), map[string]string{injectionLabel: "disabled"}),
	}
	for _, of := range []string{"nobodys", "asks"} {
		must(t, ownersReset, "kubectl", "patch", "namespace", in[of].name, "--type=json", "--patch-file=/dev/stdin")
	}
	in["asks"].mustPatch(t, asksNow)
	eventually(t, soon, func() error { return in["asks"].hasInjection(t, "enforced") })
	var cases map[string]struct {
		forgery
		In      string
		Allowed bool
	}
	fromYAML(t, "testdata/label-values.yaml", &cases)
	for what, c := range cases {
		if err := c.try(t, thief, in[c.In].name, dryRun.DryRun...); (err == nil) != c.Allowed {
			t.Errorf("%s: %v, want it allowed: %t", what, err, c.Allowed)
		}
	}
}

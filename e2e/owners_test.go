package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const nameLabel = "kubernetes.io/metadata.name"

// asUser is a client of a user.
func asUser(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := kubernetes.NewForConfig(own)
	expectNoError(t, err)
	return c
}

// asMaker is a client of a user who may make namespaces, and in all of them what an admin of a
// namespace may.
func asMaker(t *testing.T) kubernetes.Interface {
	t.Helper()
	user := unique("maker")
	must(t, "", "kubectl", "create", "clusterrole", user, "--verb=create,delete,get,patch", "--resource=namespaces,namespaces/status")
	must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	must(t, "", "kubectl", "create", "clusterrolebinding", user+"-admin", "--clusterrole=admin", "--user="+user)
	t.Cleanup(func() { remove(t, "clusterrole,clusterrolebinding", user, user+"-admin", "--ignore-not-found") })
	c := asUser(t, user)
	eventually(t, soon, func() error { // rights are cached
		_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: user}}, dryRun)
		return errors.Join(err, errorOf(c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})))
	})
	return c
}

// makeNamespace makes one, with a name that the API server generates where the object has none.
func makeNamespace(t *testing.T, c kubernetes.Interface, object metav1.ObjectMeta, options metav1.CreateOptions) (*corev1.Namespace, error) {
	t.Helper()
	if object.Name == "" {
		object.GenerateName = "e2e-fresh-"
	}
	made, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: object}, options)
	if err == nil {
		atTheEnd(t, func(ctx context.Context) error {
			return client.CoreV1().Namespaces().Delete(ctx, made.Name, metav1.DeleteOptions{})
		})
	}
	return made, err
}

// A forgery is a write of testdata/forgeries.yaml, or of another table of writes.
type forgery struct {
	Manager, Subresource string
	Force                *bool
	Apply, Merge, Owner  map[string]any
	Patch                []any
}

// try writes the namespace so, by dry run or not.
func (f forgery) try(t *testing.T, c kubernetes.Interface, namespace string, dryRun ...string) error {
	kind, patch := types.JSONPatchType, any(f.Patch)
	switch {
	case f.Patch != nil:
	case f.Apply != nil:
		kind, patch = types.ApplyPatchType, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": f.Apply}
	case f.Merge != nil:
		kind, patch = types.MergePatchType, map[string]any{"metadata": f.Merge}
	default:
		maps.Copy(f.Owner, map[string]any{"apiVersion": "v1", "fieldsType": "FieldsV1"})
		patch = []any{map[string]any{"op": "add", "path": "/metadata/managedFields/-", "value": f.Owner}}
	}
	data, err := json.Marshal(patch)
	expectNoError(t, err)
	var subresources []string
	if f.Subresource != "" {
		subresources = []string{f.Subresource}
	}
	options := metav1.PatchOptions{FieldManager: f.Manager, Force: f.Force, DryRun: dryRun}
	return errorOf(c.CoreV1().Namespaces().Patch(t.Context(), namespace, kind, data, options, subresources...))
}

// twelveTools has a tenant write to its namespace in the names of twelve tools.
func twelveTools(t *testing.T, tenant kubernetes.Interface, n *namespace) {
	t.Helper()
	for i := range 12 {
		_, err := tenant.CoreV1().Namespaces().Patch(t.Context(), n.name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"x%d":"y"}}}`, i), metav1.PatchOptions{FieldManager: fmt.Sprint("tool-", i)})
		if err != nil {
			t.Errorf("the tool %d of twelve writes a label: %v", i, err)
		}
	}
}

// ownersReset takes all owners of a namespace away.
const ownersReset = `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`

// owners has the fields of each owner that takes Pillion's name, or owns a label of Pillion's.
func (n *namespace) owners(t *testing.T) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for _, e := range n.object(t).ManagedFields {
		if fields := string(e.FieldsV1.GetRawBytes()); e.Manager == "pillion.dev" || strings.Contains(fields, "pillion.dev") {
			owners[fmt.Sprint(e.Manager, e.Operation, e.Subresource)] = fields
		}
	}
	return owners
}

// Pillion never forces: with an owner of the label that passes for Pillion, or for a hand, a
// namespace would never be enforced.
func TestATenantCannotKeepItsNamespaceFromBeingEnforced(t *testing.T) {
	t.Parallel()
	maker := asMaker(t)
	asks := asking("fluent-bit")
	for _, manager := range []string{"pillion.dev", "x", "ancient-changes"} {
		_, err := makeNamespace(t, maker, metav1.ObjectMeta{Annotations: asks, Labels: map[string]string{injectionLabel: "enabled"}}, metav1.CreateOptions{FieldManager: manager})
		wantNoError(t, forbiddenWith(err), "created with the label, as the field manager", manager)
		name := unique("e2e")
		_, err = maker.CoreV1().Namespaces().Patch(t.Context(), name, types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`","labels":{"`+injectionLabel+`":"enabled"},"annotations":{"pillion.dev/inject":"fluent-bit"}}}`), metav1.PatchOptions{FieldManager: manager})
		wantNoError(t, forbiddenWith(err), "created with the label by an apply, as the field manager", manager)
	}
	_, err := makeNamespace(t, maker, metav1.ObjectMeta{Annotations: asks}, metav1.CreateOptions{FieldManager: "pillion.dev"})
	wantNoError(t, forbiddenWith(err, "another --field-manager"))
	var forgeries map[string]forgery
	fromYAML(t, "testdata/forgeries.yaml", &forgeries)
	// Before Pillion's own write, and after it.
	fresh := newNamespace(t, nil, nil)
	old := newNamespace(t, asks, nil)
	eventually(t, soon, func() error { return old.hasInjection(t, "enforced") })
	for _, n := range []*namespace{fresh, old} {
		tenant := asTenant(t, n)
		before := n.owners(t)
		for what, forgery := range forgeries {
			// What the API server makes nothing of, such as the managed fields in a status, passes.
			err, after := forgery.try(t, tenant, n.name), n.owners(t)
			if err == nil && !maps.Equal(after, before) || err != nil && !apierrors.IsForbidden(err) && !apierrors.IsConflict(err) {
				t.Errorf("%s, in a namespace with the labels %v: %v, want it refused; the owners were %v and are %v", what, n.labels(t), err, before, after)
			}
		}
	}
	// What a tenant may do takes from Pillion, and gives nobody anything.
	tenant, reset := asTenant(t, old), newNamespace(t, nil, nil)
	must(t, ownersReset, "kubectl", "patch", "namespace", reset.name, "--type=json", "--patch-file=/dev/stdin")
	_, err = tenant.CoreV1().Namespaces().Patch(t.Context(), old.name, types.JSONPatchType, []byte(ownersReset), metav1.PatchOptions{})
	wantNoError(t, err, "the managed fields are reset:")
	twelveTools(t, tenant, old)
	fresh.mustPatch(t, asksNow)
	reset.mustPatch(t, asksNow)
	for _, n := range []*namespace{fresh, old, reset} {
		eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
	}
}

// While the policies are away a namespace can get such an owner. An admin, whom they do not bind,
// stands for that here.
func TestALabelThatSomebodyWroteInPillionsNameIsToldAndTheRemedyFreesIt(t *testing.T) {
	t.Parallel()
	made, err := makeNamespace(t, client, metav1.ObjectMeta{Annotations: asking("fluent-bit"), Labels: map[string]string{injectionLabel: "enabled"}}, metav1.CreateOptions{FieldManager: "pillion.dev"})
	expectNoError(t, err)
	n := &namespace{name: made.Name, client: client, warnings: &warnings{}}
	n.waitEvent(t, "Namespace", "LabelNotWritten", "kubectl label namespace "+n.name+" pillion.dev/injection-")
	for _, texts := range [][]string{{"pillion_namespace_label_writes_total", `label="pillion.dev/injection"`, `outcome="conflict"`}, {`pillion_namespaces_failing_label{label="pillion.dev/injection"} 1`}} {
		wantNoError(t, metric(shared.Replicas(ground.Namespace)[0], texts...))
	}
	_, found := checking(t).find("labels", n.name)
	if len(found) != 1 || !strings.Contains(found[0].Message, "Pillion's name") {
		t.Fatalf("check says %v", found)
	}
	does(t, found[0].Remedy)
	eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
}

// What an API server goes through in the square of its size, as policies and match conditions go
// through labels, keeps Pillion's own writes away: a tenant with labels enough would never be
// enforced, and each write of the namespace would take a minute.
func TestANamespaceWithSixtyThousandLabelsIsEnforced(t *testing.T) {
	t.Parallel()
	made, err := makeNamespace(t, client, metav1.ObjectMeta{}, metav1.CreateOptions{})
	expectNoError(t, err)
	n := &namespace{name: made.Name, client: client, warnings: &warnings{}}
	labels := map[string]string{}
	for i := range 60000 {
		labels[fmt.Sprintf("l%x", i)] = ""
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": asking("fluent-bit")}})
	expectNoError(t, err)
	n.mustPatch(t, string(data))
	eventually(t, 2*soon, func() error {
		got := n.labels(t)
		if got[injectionLabel] != "enforced" || len(got) < len(labels) {
			return fmt.Errorf("the namespace has %d labels, with %s=%q", len(got), injectionLabel, got[injectionLabel])
		}
		return nil
	})
}

// Who gives a namespace a thousand field managers keeps neither its owner, nor an admin, nor Pillion from writing it.
func TestATenantLocksNobodyOutByFieldManagers(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	tenant := asTenant(t, n)
	update := func(change func(object *corev1.Namespace, tool string)) {
		t.Helper()
		expectNoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			object := n.object(t)
			for i := range 1000 {
				change(object, fmt.Sprint("tool-", i))
			}
			_, err := tenant.CoreV1().Namespaces().Update(t.Context(), object, metav1.UpdateOptions{FieldManager: "tool-0"})
			return err
		}))
	}
	update(func(object *corev1.Namespace, tool string) {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, tool, "1")
	})
	update(func(object *corev1.Namespace, tool string) {
		object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: tool, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:%s":{}}}}`, tool)),
		})
	})
	if managers := len(n.object(t).ManagedFields); managers < 1000 {
		t.Fatalf("the namespace has %d field managers", managers)
	}
	for manager, as := range map[string]kubernetes.Interface{"tool-0": tenant, "another-tool": tenant, "admin": client} {
		wantNoError(t, forgery{Manager: manager, Merge: map[string]any{"annotations": map[string]any{manager: "2"}}}.try(t, as, n.name), manager)
	}
	n.mustPatch(t, asksNow)
	eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
}

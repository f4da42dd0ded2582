package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// object is the namespace as it is now.
func (n *namespace) object(t *testing.T) *corev1.Namespace {
	t.Helper()
	object, err := client.CoreV1().Namespaces().Get(t.Context(), n.name, metav1.GetOptions{})
	expectNoError(t, err)
	return object
}

func (n *namespace) labels(t *testing.T) map[string]string { return n.object(t).Labels }

// hasLabel is nil if the namespace has Pillion's label, or has it not, as wanted.
func (n *namespace) hasLabel(t *testing.T, want bool) error {
	t.Helper()
	if labels := n.labels(t); labels[requiredLabel] == "true" != want {
		return fmt.Errorf("the namespace %s has the labels %v; want Pillion's among them: %t", n.name, labels, want)
	}
	return nil
}

// requiredFor is a template of that spec that is required in the namespaces of a team.
func requiredFor(team, spec string) manifest {
	return manifest{name: unique("audit"), spec: fmt.Sprintf("\nrequired: true\nmatch: {namespaceSelector: {matchLabels: {team: %s}}}", team) + spec}
}

// asTenant is a client of a user who may write that namespace and its pods.
func asTenant(t *testing.T, n *namespace) kubernetes.Interface {
	t.Helper()
	user := unique("tenant")
	must(t, "", "kubectl", "create", "clusterrole", user, "--verb=get,update,patch", "--resource=namespaces,namespaces/status,namespaces/finalize", "--resource-name="+n.name)
	must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	must(t, "", "kubectl", "-n", n.name, "create", "rolebinding", user, "--clusterrole=admin", "--user="+user)
	t.Cleanup(func() { remove(t, "clusterrole,clusterrolebinding", user) })
	c := asUser(t, user)
	eventually(t, soon, func() error { // rights are cached
		_, err := c.CoreV1().Namespaces().Get(t.Context(), n.name, metav1.GetOptions{})
		return errors.Join(err, errorOf(c.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})))
	})
	return c
}

// Only the verifying webhook sees updates. If the label were gone for a moment, the image
// would be another one.
func TestATenantWhoTakesTheLabelOffDoesNotGetPastARequiredTemplate(t *testing.T) {
	t.Parallel()
	m, n := newRequired(t, nil)
	n.mustCreate(t, newPod("web", nil))
	tenant := asTenant(t, n)
	namespaces := tenant.CoreV1().Namespaces()
	merge := func(patch string, subresources ...string) error {
		return errorOf(namespaces.Patch(t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...))
	}
	bare := func() *corev1.Namespace {
		object := n.object(t)
		object.ResourceVersion = ""
		delete(object.Labels, requiredLabel)
		return object
	}
	for way, strip := range map[string]func() error{
		"a patch":             func() error { return merge(`{"metadata":{"labels":{"` + requiredLabel + `":null}}}`) },
		"another value":       func() error { return merge(`{"metadata":{"labels":{"` + requiredLabel + `":"false"}}}`) },
		"a patch of status":   func() error { return merge(`{"metadata":{"labels":{"`+requiredLabel+`":null}}}`, "status") },
		"an update":           func() error { return errorOf(namespaces.Update(t.Context(), bare(), metav1.UpdateOptions{})) },
		"an update of status": func() error { return errorOf(namespaces.UpdateStatus(t.Context(), bare(), metav1.UpdateOptions{})) },
		"finalize":            func() error { return errorOf(namespaces.Finalize(t.Context(), bare(), metav1.UpdateOptions{})) },
		"a JSON patch": func() error {
			const patch = `[{"op":"remove","path":"/metadata/labels/pillion.dev~1required"}]`
			return errorOf(namespaces.Patch(t.Context(), n.name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}))
		},
	} {
		wantNoError(t, strip(), way, "shows nothing:")
		evil := fmt.Sprintf(`{"spec":{"initContainers":[{"name":%q,"image":"evil:1"}]}}`, m.name)
		_, err := tenant.CoreV1().Pods(n.name).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(evil), metav1.PatchOptions{})
		wantNoError(t, forbiddenWith(err, "RequiredMissing"), "after", way, "with the labels", n.labels(t))
	}
}

// RBAC gives Pillion the right to patch namespaces, and the chart's policy leaves it one label.
func TestAStolenTokenCanChangeNothingOfANamespaceButPillionsLabel(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, map[string]string{"a": "b"}, map[string]string{"team": "web", "pod-security.kubernetes.io/enforce": "baseline"})
	thief := asUser(t, system(ground.Namespace, "pillion"), "system:serviceaccounts")
	try := func(c kubernetes.Interface, patch string) error {
		return errorOf(c.CoreV1().Namespaces().Patch(t.Context(), n.name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun.DryRun}))
	}
	eventually(t, soon, func() error { // API servers take up a new policy after a moment
		return refusedByPolicy(try(thief, `[{"op":"add","path":"/metadata/labels/first","value":"y"}]`))
	})
	for what, patch := range thefts(t, "namespaces") {
		wantNoError(t, try(client, patch), "an admin, so that this patch shows nothing:", what)
		wantNoError(t, refusedByPolicy(try(thief, patch)), what)
	}
	for what, labels := range map[string]string{"put on": `{"` + requiredLabel + `":"true"}`, "taken off": `{}`} {
		object := `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":` + labels + `}}`
		_, err := thief.CoreV1().Namespaces().Patch(t.Context(), n.name, types.ApplyPatchType, []byte(object), metav1.PatchOptions{FieldManager: "pillion.dev"})
		wantNoError(t, err, "the label is", what)
	}
}

// hasInjection is nil if the namespace's label says so, "" for none.
func (n *namespace) hasInjection(t *testing.T, want string) error {
	t.Helper()
	if labels := n.labels(t); labels[injectionLabel] != want {
		return fmt.Errorf("the namespace %s has the labels %v; want %s=%q", n.name, labels, injectionLabel, want)
	}
	return nil
}

// patch writes the namespace as a client, and returns its injection label after that.
func (n *namespace) patch(t *testing.T, c kubernetes.Interface, patch string) (string, error) {
	t.Helper()
	got, err := c.CoreV1().Namespaces().Patch(t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return got.Labels[injectionLabel], nil
}

func (n *namespace) mustPatch(t *testing.T, patch string) string {
	t.Helper()
	got, err := n.patch(t, client, patch)
	expectNoError(t, err)
	return got
}

const (
	asksNow  = `{"metadata":{"annotations":{"pillion.dev/inject":"fluent-bit"}}}`
	asksLess = `{"metadata":{"annotations":{"pillion.dev/inject":null}}}`
)

func setInjection(value string) string {
	text, _ := json.Marshal(value)
	if value == "" {
		text = []byte("null")
	}
	return `{"metadata":{"labels":{"` + injectionLabel + `":` + string(text) + `}}}`
}

// Who does not ask is not asked.
func TestPillionIsCalledForWhoAsksAndForNobodyElse(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	for why, c := range map[string]struct {
		namespace, labels, pod map[string]string
		want                   int
	}{
		"a namespace that never asked":                     {nil, nil, nil, 0},
		"a pod that asks, of a namespace that never asked": {nil, nil, asking(name), 1},
		"a namespace that asks":                            {asking(name), nil, nil, 1},
		"an enforced namespace":                            {asking(name), enforced(), nil, 1},
		"a namespace that asks and is disabled":            {asking(name), map[string]string{injectionLabel: "disabled"}, asking(name), 0},
		"a namespace that says false":                      {asking("false"), nil, nil, 0},
	} {
		n := newNamespace(t, c.namespace, c.labels)
		if c.labels == nil && c.want > 0 && c.pod == nil {
			eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
			eventually(t, soon, func() error { // the API server knows it: a pod in between may meet both entries
				loud := newPod("refused", map[string]string{name + ".pillion.dev/log-level": "loud"})
				return refusedWith(errorOf(n.preview(t, loud)), `"enforced.pillion.dev"`)
			})
		}
		pod := wantCalls(t, n, newPod("web", c.pod), c.want)
		if sidecar(pod, name) == nil != (c.want == 0) {
			t.Errorf("%s: the pod has the containers %s", why, containerNames(pod))
		}
	}
}

// The very next pod is injected: the label is there with the annotation.
func TestTheInjectionLabelComesWithTheAnnotationAndAHandIsRespected(t *testing.T) {
	t.Parallel()
	n, byHand, pinned := newNamespace(t, nil, nil), newNamespace(t, nil, nil), newNamespace(t, nil, nil)
	again := newNamespace(t, asking("fluent-bit"), nil)
	if got := n.mustPatch(t, asksNow); got != "enabled" {
		t.Errorf("with the annotation comes %q, want enabled", got)
	}
	defer func() { // Pillion has proven itself
		eventually(t, soon, func() error { return again.hasInjection(t, "enforced") })
	}()
	if pod, err := n.preview(t, newPod("next", nil)); err != nil || sidecar(pod, "fluent-bit") == nil {
		t.Errorf("the very next pod: %v", err)
	}
	// A hand takes the label off: it comes back in the same write.
	if got := n.mustPatch(t, setInjection("")); got == "" {
		t.Error("the label is taken off while the namespace asks, and stays off")
	}
	// By hand, whatever Pillion would set.
	for _, value := range []string{"disabled", "enforced"} {
		byHand.mustPatch(t, asksNow)
		if got := byHand.mustPatch(t, setInjection(value)); got != value {
			t.Errorf("by hand %q, and the label is %q", value, got)
		}
		byHand.mustPatch(t, asksLess)
	}
	// Somebody who applies the value that is there owns it, too. The runbook has the command.
	pinned.mustPatch(t, asksNow)
	does(t, "kubectl apply --server-side --force-conflicts -f "+inFile(t, "namespace.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: "+pinned.name+", labels: {"+injectionLabel+": enabled}}}"))
	pinned.mustPatch(t, asksLess)
	n.mustPatch(t, asksLess)
	eventually(t, soon, func() error { return n.hasInjection(t, "") }) // and as long as this takes the others stay
	for n, want := range map[*namespace]string{byHand: "enforced", pinned: "enabled"} {
		wantNoError(t, n.hasInjection(t, want), "set by hand:")
	}
}

// Whoever may write a namespace may ask by the annotation. The label takes a right of its own.
func TestATenantCannotChangeTheInjectionLabel(t *testing.T) {
	t.Parallel()
	in := map[string]*namespace{
		"strict": newNamespace(t, asking("fluent-bit"), enforced()), "asks": newNamespace(t, asking("fluent-bit"), open()), "quiet": newNamespace(t, nil, nil),
	}
	tenants := map[string]kubernetes.Interface{}
	for of, n := range in {
		tenants[of] = asTenant(t, n)
	}
	var cases []struct {
		forgery
		In, What string
		Allowed  bool
	}
	fromYAML(t, "testdata/injection-label.yaml", &cases)
	for _, c := range cases {
		before := in[c.In].labels(t)[injectionLabel]
		err := c.try(t, tenants[c.In], in[c.In].name)
		if !c.Allowed {
			err = forbiddenWith(err, "namespaces/injection")
		}
		wantNoError(t, err, c.What)
		if after := in[c.In].labels(t)[injectionLabel]; before != "" && after != before && !(before == "enabled" && after == "enforced") {
			t.Errorf("%s: the label was %q and is %q", c.What, before, after)
		}
	}
	// The right, for one namespace.
	must(t, "", "kubectl", "-n", in["strict"].name, "create", "rolebinding", "injection", "--clusterrole=pillion-injection", "--group=system:authenticated")
	eventually(t, soon, func() error { return errorOf(in["strict"].patch(t, tenants["strict"], setInjection("disabled"))) })
	wantNoError(t, forbiddenWith(errorOf(in["quiet"].patch(t, tenants["quiet"], setInjection("disabled")))), "with the right in another namespace:")
}

func TestATenantCannotTakeOverTheLabelThatPillionSet(t *testing.T) {
	t.Parallel()
	owned := newNamespace(t, asking("fluent-bit"), nil)
	tenant := asTenant(t, owned)
	// Who applies the value that Pillion set would own it, and nothing would ever be enforced.
	eventually(t, soon, func() error { return owned.hasInjection(t, "enforced") })
	for _, force := range []bool{false, true} {
		_, err := tenant.CoreV1().Namespaces().Patch(t.Context(), owned.name, types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+owned.name+`","labels":{"`+injectionLabel+`":"enforced"}}}`),
			metav1.PatchOptions{FieldManager: "gitops", Force: &force})
		wantNoError(t, forbiddenWith(err, "namespaces/injection"), "the value that is there, applied by somebody else; forced:", force)
	}
	// A manifest without the label, as a GitOps tool replaces by it, opens no namespace: not even for
	// a moment. The second time the label is nobody's.
	for range 2 {
		object := owned.object(t)
		delete(object.Labels, injectionLabel)
		object.ManagedFields = nil
		got, err := tenant.CoreV1().Namespaces().Update(t.Context(), object, metav1.UpdateOptions{})
		if err != nil || got.Labels[injectionLabel] != "enforced" {
			t.Errorf("replaced without the label that Pillion enforced, the namespace has %v (%v)", got.Labels, err)
		}
	}
	// What a hand enforced and takes off is not put back as Pillion's.
	byHand := newNamespace(t, asking("fluent-bit"), enforced())
	if got := byHand.mustPatch(t, setInjection("")); got != "enabled" {
		t.Errorf("a hand enforced the namespace and takes that off: %q", got)
	}
}

// Not in parallel: it takes Pillion away from the others.
func TestWithoutPillionPlainNamespacesGetTheirPodsAndEnforcedOnesDoNot(t *testing.T) {
	plain := newNamespace(t, asking("fluent-bit"), open())
	strict := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, plain, "fluent-bit")
	injects(t, strict, "fluent-bit")
	backToOne(t)
	kill(t)

	if got := containerNames(plain.mustCreate(t, newPod("open", nil))); got != "app" {
		t.Errorf("containers %s without Pillion", got)
	}
	wantNoError(t, refusedWith(errorOf(strict.create(t, newPod("closed", nil))), "enforced.pillion.dev"))
	// While Pillion cannot write its label, a hand can.
	unlabelled := newNamespace(t, asking("fluent-bit"), nil)
	expectNoError(t, unlabelled.hasInjection(t, ""))
	does(t, "kubectl label namespace "+unlabelled.name+" pillion.dev/injection=enabled")
	for _, name := range []string{"kube-system", ground.Namespace} {
		n := &namespace{name: name, client: client}
		wantNoError(t, errorOf(n.preview(t, newPod("system", nil))), "in", name, ", without Pillion:")
	}

	scale(t, 1)
	injects(t, plain, "fluent-bit")
	injects(t, unlabelled, "fluent-bit")
	strict.mustCreate(t, newPod("closed", nil))
}

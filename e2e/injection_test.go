package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
			time.Sleep(200 * time.Millisecond) // until the API server knows it: a pod in between may meet both entries
		}
		pod := wantCalls(t, n, newPod("web", c.pod), c.want)
		if sidecar(pod, name) == nil != (c.want == 0) {
			t.Errorf("%s: the pod has the containers %s", why, containerNames(pod))
		}
		t.Attr("calls-for-"+strings.ReplaceAll(why, " ", "-"), fmt.Sprint(c.want))
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
		took := eventually(t, soon, func() error { return again.hasInjection(t, "enforced") })
		t.Attr("enforced-after-the-annotation", took.String())
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
	// Somebody who applies the value that is there owns it, too.
	pinned.mustPatch(t, asksNow)
	_, err := client.CoreV1().Namespaces().Patch(t.Context(), pinned.name, types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+pinned.name+`","labels":{"`+injectionLabel+`":"enabled"}}}`),
		metav1.PatchOptions{FieldManager: "gitops", Force: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	n.mustPatch(t, asksLess)
	eventually(t, soon, func() error { return n.hasInjection(t, "") }) // and as long as this takes the others stay
	for n, want := range map[*namespace]string{byHand: "enforced", pinned: "enabled"} {
		if err := n.hasInjection(t, want); err != nil {
			t.Errorf("set by hand: %v", err)
		}
	}
}

func TestTheInjectionLabelFollowsWhatTemplatesSelect(t *testing.T) {
	t.Parallel()
	team := unique("team")
	n := newNamespace(t, nil, map[string]string{"team": team})
	m := manifest{name: unique("logs"), spec: "\nmatch: {namespaceSelector: {matchLabels: {team: " + team + "}}}" + sidecarSpec}
	must(t, workloadOf("Pod", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	// Whoever applies the template reads what comes to depend on Pillion.
	depends := func(value, then string) string {
		return "spec.match: these come to depend on Pillion, by " + injectionLabel + "=" + value + ": " + n.name + " (namespaces: 1, pods: 1). While it does not answer, new pods there are " + then
	}
	required := strings.Replace(m.yaml(), "\n  match:", "\n  required: true\n  match:", 1)
	// Pods are counted as far as the API server answers in time.
	for template, want := range map[string]string{m.yaml(): depends("enabled", "created without their sidecars"), required: depends("enforced", "refused")} {
		eventually(t, soon, func() error {
			if got := n.applyDry(t, template); strings.Count(got, want) != 1 {
				return fmt.Errorf("kubectl prints\n%s\nwant once %s", got, want)
			}
			return nil
		})
	}
	m.apply(t)
	took := eventually(t, soon, func() error {
		if n.labels(t)[injectionLabel] == "" {
			return fmt.Errorf("the labels are %v", n.labels(t))
		}
		return nil
	})
	t.Attr("injection-label-after-a-template", took.String())
	// Nobody asked: it stays enabled, until the template is required.
	asks := newNamespace(t, asking(m.name), nil)
	eventually(t, soon, func() error { return asks.hasInjection(t, "enforced") })
	if err := n.hasInjection(t, "enabled"); err != nil {
		t.Error(err)
	}
	must(t, required, "kubectl", "apply", "-f", "-")
	eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
	must(t, m.yaml(), "kubectl", "apply", "-f", "-")
	eventually(t, soon, func() error { return n.hasInjection(t, "enabled") })
	created, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("e2e"), Labels: map[string]string{"team": team}}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || created.Labels[injectionLabel] != "enabled" {
		t.Errorf("a namespace is created with the labels %v (%v)", created.Labels, err)
	}
}

// Whoever may write a namespace may ask by the annotation. The label takes a right of its own.
func TestATenantCannotChangeTheInjectionLabel(t *testing.T) {
	t.Parallel()
	strict, asks, quiet := newNamespace(t, asking("fluent-bit"), enforced()), newNamespace(t, asking("fluent-bit"), open()), newNamespace(t, nil, nil)
	for _, c := range []struct {
		n              *namespace
		what, patch    string
		allowed, taken bool
	}{
		{strict, "enforced is taken off", setInjection(""), false, false},
		{strict, "enforced becomes enabled", setInjection("enabled"), false, false},
		{strict, "enforced becomes disabled", setInjection("disabled"), false, false},
		{strict, "all labels go", `{"metadata":{"labels":null}}`, false, false},
		{strict, "the annotation goes", asksLess, true, false},
		{asks, "enabled becomes disabled", setInjection("disabled"), false, false},
		{asks, "enabled becomes enforced", setInjection("enforced"), false, false},
		{asks, "enabled is taken off, and comes back in the same write", setInjection(""), true, false},
		{quiet, "disabled where nothing was", setInjection("disabled"), false, false},
		{quiet, "enforced where nothing was", setInjection("enforced"), false, false},
		{quiet, "enabled, by hand and not by Pillion", setInjection("enabled"), false, false},
		{quiet, "the annotation, and enabled by hand", `{"metadata":{"annotations":{"pillion.dev/inject":"fluent-bit"},"labels":{"` + injectionLabel + `":"enabled"}}}`, false, false},
		{quiet, "another label", `{"metadata":{"labels":{"team":"web"}}}`, true, false},
		{quiet, "the annotation comes", asksNow, true, false},
		{quiet, "a required label of another value", `{"metadata":{"labels":{"` + requiredLabel + `":"no"}}}`, false, false},
	} {
		tenant := asTenant(t, c.n)
		before := c.n.labels(t)[injectionLabel]
		_, err := c.n.patch(t, tenant, c.patch)
		if allowed := err == nil; allowed != c.allowed || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "namespaces/injection")) {
			t.Errorf("%s: %v, want it allowed: %t", c.what, err, c.allowed)
		}
		if after := c.n.labels(t)[injectionLabel]; before != "" && after != before && !(before == "enabled" && after == "enforced") {
			t.Errorf("%s: the label was %q and is %q", c.what, before, after)
		}
	}
	// Who applies the value that Pillion set would own it, and nothing would ever be enforced.
	owned := newNamespace(t, asking("fluent-bit"), nil)
	eventually(t, soon, func() error { return owned.hasInjection(t, "enforced") })
	for _, force := range []bool{false, true} {
		_, err := asTenant(t, owned).CoreV1().Namespaces().Patch(t.Context(), owned.name, types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+owned.name+`","labels":{"`+injectionLabel+`":"enforced"}}}`),
			metav1.PatchOptions{FieldManager: "gitops", Force: &force})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "namespaces/injection") {
			t.Errorf("the value that is there, applied by somebody else (forced: %t): %v", force, err)
		}
	}
	// A manifest without the label, as a GitOps tool replaces by it, opens no namespace: not even for
	// a moment. The second time the label is nobody's.
	for range 2 {
		object, err := client.CoreV1().Namespaces().Get(t.Context(), owned.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		delete(object.Labels, injectionLabel)
		object.ManagedFields = nil
		got, err := asTenant(t, owned).CoreV1().Namespaces().Update(t.Context(), object, metav1.UpdateOptions{})
		if err != nil || got.Labels[injectionLabel] != "enforced" {
			t.Errorf("replaced without the label that Pillion enforced, the namespace has %v (%v)", got.Labels, err)
		}
	}
	// What a hand enforced and takes off is not put back as Pillion's.
	byHand := newNamespace(t, asking("fluent-bit"), enforced())
	if got := byHand.mustPatch(t, setInjection("")); got != "enabled" {
		t.Errorf("a hand enforced the namespace and takes that off: %q", got)
	}
	// The right, for one namespace.
	tenant := asTenant(t, strict)
	must(t, "", "kubectl", "-n", strict.name, "create", "rolebinding", "injection", "--clusterrole=pillion-pillion-system-injection", "--group=system:authenticated")
	eventually(t, soon, func() error {
		_, err := strict.patch(t, tenant, setInjection("disabled"))
		return err
	})
	other := asTenant(t, quiet)
	if _, err := quiet.patch(t, other, setInjection("disabled")); !apierrors.IsForbidden(err) {
		t.Errorf("with the right in another namespace: %v", err)
	}
}

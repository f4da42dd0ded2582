package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// labels are the labels of the namespace as it is now.
func (n *namespace) labels(t *testing.T) map[string]string {
	t.Helper()
	object, err := client.CoreV1().Namespaces().Get(t.Context(), n.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Labels
}

// hasLabel is nil if the namespace has Pillion's label, or has it not, as wanted.
func (n *namespace) hasLabel(t *testing.T, want bool) error {
	t.Helper()
	if labels := n.labels(t); labels[requiredLabel] == "true" != want {
		return fmt.Errorf("the namespace %s has the labels %v; want Pillion's among them: %t", n.name, labels, want)
	}
	return nil
}

// requiredFor is a template that is required in the namespaces of a team.
func requiredFor(team string) manifest {
	return manifest{name: unique("audit"), spec: fmt.Sprintf("\nrequired: true\nmatch: {namespaceSelector: {matchLabels: {team: %s}}}", team) + sidecarSpec}
}

func TestTheLabelFollowsTheRequiredTemplates(t *testing.T) {
	t.Parallel()
	team := unique("team")
	m := requiredFor(team)
	there := newNamespace(t, nil, map[string]string{"team": team})
	other := newNamespace(t, nil, map[string]string{"team": unique("team")})
	if err := there.hasLabel(t, false); err != nil {
		t.Fatal(err)
	}
	m.apply(t)
	took := eventually(t, soon, func() error { return there.hasLabel(t, true) })
	t.Attr("label-after-a-template", took.String())
	write := func(patch string, subresources ...string) map[string]string {
		t.Helper()
		got, err := client.CoreV1().Namespaces().Patch(t.Context(), there.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		if err != nil {
			t.Fatal(err)
		}
		return got.Labels
	}
	// What follows is about one write each: nothing is waited for.
	created, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("e2e"), Labels: map[string]string{"team": team}}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || created.Labels[requiredLabel] != "true" {
		t.Errorf("a namespace is created with the labels %v (%v)", created.Labels, err)
	}
	for _, subresource := range [][]string{nil, {"status"}} {
		if got := write(`{"metadata":{"labels":{"`+requiredLabel+`":null}}}`, subresource...); got[requiredLabel] != "true" {
			t.Errorf("after it was taken off by %q the labels are %v", subresource, got)
		}
	}
	// No write takes it off: whoever may write a namespace could be rid of it.
	if got := write(`{"metadata":{"labels":{"team":"nobody"}}}`); got[requiredLabel] != "true" {
		t.Errorf("where nothing selects the namespace any more the labels are %v", got)
	}
	if got := write(`{"metadata":{"labels":{"team":"` + team + `"}}}`); got[requiredLabel] != "true" {
		t.Errorf("where the template selects the namespace again the labels are %v", got)
	}

	suspend := func(value string) {
		must(t, "", "kubectl", "patch", "sidecartemplate", m.name, "--type=merge", "-p", `{"spec":{"suspend":`+value+`}}`)
	}
	suspend("true")
	eventually(t, soon, func() error { return there.hasLabel(t, false) })
	suspend("false")
	eventually(t, soon, func() error { return there.hasLabel(t, true) })
	must(t, "", "kubectl", "annotate", "sidecartemplate", m.name, "pillion.dev/allow-delete=true")
	must(t, "", "kubectl", "delete", "sidecartemplate", m.name)
	// A hand that puts it where nothing wants it.
	must(t, "", "kubectl", "label", "namespace", other.name, requiredLabel+"=true")
	eventually(t, soon, func() error { return there.hasLabel(t, false) })
	eventually(t, soon, func() error { return other.hasLabel(t, false) })
}

// reviews counts the reviews of pods in a namespace that a webhook of Pillion's answered, but
// those of dry runs. It waits until there are at least so many: the log has them soon after
// the answer.
func (n *namespace) reviews(t *testing.T, webhook string, least int) (count int) {
	t.Helper()
	eventually(t, soon, func() error {
		if count = n.logged(t, webhook); count < least {
			return fmt.Errorf("%s: %d reviews of %s, want %d", n.name, count, webhook, least)
		}
		return nil
	})
	return count
}

func (n *namespace) logged(t *testing.T, webhook string) int {
	t.Helper()
	count := 0
	for _, replica := range shared.Replicas(ground.Namespace) {
		log, err := os.ReadFile(replica.Log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			line = line[max(bytes.IndexByte(line, '{'), 0):] // on a node, the kubelet puts the time in front
			var e struct {
				Webhook, Namespace, Msg string
				DryRun                  bool
			}
			if bytes.Contains(line, []byte(n.name)) && json.Unmarshal(line, &e) == nil && e.Msg == "answered a review" && e.Webhook == webhook && e.Namespace == n.name && !e.DryRun {
				count++
			}
		}
	}
	return count
}

func TestFinalPodsAreVerifiedOnlyWhereATemplateIsRequired(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	image := []byte(`{"spec":{"containers":[{"name":"app","image":"nginx:1.30"}]}}`)
	use := func(n *namespace) {
		t.Helper()
		pod := n.mustCreate(t, newPod("web", nil))
		if _, err := n.client.CoreV1().Pods(n.name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, image, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for why, c := range map[string]struct {
		n     *namespace
		calls int
	}{
		"that never asked":          {newNamespace(t, nil, nil), 0},
		"that asks":                 {newNamespace(t, asking(name), open()), 1},
		"that asks and is enforced": {newNamespace(t, asking(name), enforced()), 1},
	} {
		use(c.n)
		if got := c.n.reviews(t, "mutate", c.calls); got > c.calls && shared.Kind() != ground.KindNode {
			t.Errorf("in a namespace %s Pillion is called %d times for a pod, want %d", why, got, c.calls)
		}
		if verified := c.n.reviews(t, "verify", 0); verified != 0 {
			t.Errorf("in a namespace %s %d reviews were verified, want none", why, verified)
		}
	}
	for why, labels := range map[string]map[string]string{"required": nil, "required and enforced": enforced()} {
		_, n := newRequired(t, labels)
		n.mustCreate(t, newPod("web", nil))
		if got := n.reviews(t, "verify", 1); got != 1 {
			t.Errorf("%s: creating a pod takes %d calls to verify it, want 1", why, got)
		}
		if _, err := n.client.CoreV1().Pods(n.name).Patch(t.Context(), "web", types.StrategicMergePatchType, image, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		// Where the pod's status is written meanwhile, the API server tries once more.
		if got := n.reviews(t, "verify", 2); got > 2 && shared.Kind() != ground.KindNode {
			t.Errorf("%s: another image takes %d calls in all, want 2", why, got)
		}
	}
}

// asTenant is a client of a user who may write that namespace and its pods.
func asTenant(t *testing.T, n *namespace) kubernetes.Interface {
	t.Helper()
	user := unique("tenant")
	must(t, "", "kubectl", "create", "clusterrole", user, "--verb=get,update,patch", "--resource=namespaces,namespaces/status,namespaces/finalize", "--resource-name="+n.name)
	must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	must(t, "", "kubectl", "-n", n.name, "create", "rolebinding", user, "--clusterrole=admin", "--user="+user)
	t.Cleanup(func() {
		if _, err := ground.Run(context.Background(), shared, "kubectl", "delete", "clusterrole,clusterrolebinding", user); err != nil {
			t.Error(err)
		}
	})
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, func() error { // rights are cached
		_, err := c.CoreV1().Namespaces().Get(t.Context(), n.name, metav1.GetOptions{})
		if err == nil {
			_, err = c.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
		}
		return err
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
		_, err := namespaces.Patch(t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	read := func(change func(labels map[string]string)) *corev1.Namespace {
		object, err := namespaces.Get(t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object.ResourceVersion = ""
		change(object.Labels)
		return object
	}
	takeOff := func(labels map[string]string) { delete(labels, requiredLabel) }
	for way, strip := range map[string]func() error{
		"a patch":           func() error { return merge(`{"metadata":{"labels":{"` + requiredLabel + `":null}}}`) },
		"another value":     func() error { return merge(`{"metadata":{"labels":{"` + requiredLabel + `":"false"}}}`) },
		"a patch of status": func() error { return merge(`{"metadata":{"labels":{"`+requiredLabel+`":null}}}`, "status") },
		"an update": func() error {
			_, err := namespaces.Update(t.Context(), read(takeOff), metav1.UpdateOptions{})
			return err
		},
		"an update of status": func() error {
			_, err := namespaces.UpdateStatus(t.Context(), read(takeOff), metav1.UpdateOptions{})
			return err
		},
		"finalize": func() error {
			_, err := namespaces.Finalize(t.Context(), read(takeOff), metav1.UpdateOptions{})
			return err
		},
		"a JSON patch": func() error {
			_, err := namespaces.Patch(t.Context(), n.name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/labels/pillion.dev~1required"}]`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := strip(); err != nil {
			t.Errorf("%s: %v; this shows nothing", way, err)
		}
		evil := fmt.Sprintf(`{"spec":{"initContainers":[{"name":%q,"image":"evil:1"}]}}`, m.name)
		_, err := tenant.CoreV1().Pods(n.name).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(evil), metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "RequiredMissing") {
			t.Errorf("after %s the image of the required sidecar: %v, want it refused; the labels are %v", way, err, n.labels(t))
		}
	}
}

// Not in parallel: it takes Pillion away from the others.
func TestWhatTheWebhookForNamespacesMissesIsMadeUpFor(t *testing.T) {
	team := unique("team")
	m := requiredFor(team)
	m.apply(t)
	stripped := newNamespace(t, nil, map[string]string{"team": team})
	eventually(t, soon, func() error { return stripped.hasLabel(t, true) })
	backToOne(t)
	if err := shared.Kill(ground.Namespace); err != nil {
		t.Fatal(err)
	}
	missed := newNamespace(t, nil, map[string]string{"team": team})
	must(t, "", "kubectl", "label", "namespace", stripped.name, requiredLabel+"-")
	for _, n := range []*namespace{stripped, missed} {
		if err := n.hasLabel(t, false); err != nil {
			t.Fatalf("%v, or else this shows nothing", err)
		}
	}
	scale(t, 1)
	took := eventually(t, soon, func() error {
		if err := stripped.hasLabel(t, true); err != nil {
			return err
		}
		return missed.hasLabel(t, true)
	})
	t.Attr("labels-made-up-for", took.String())
}

// RBAC gives Pillion the right to patch namespaces, and the chart's policy leaves it one label.
func TestAStolenTokenCanChangeNothingOfANamespaceButPillionsLabel(t *testing.T) {
	t.Parallel()
	holdsPillionToItsLabel(t, newHeldNamespace(t), system(ground.Namespace, "pillion"), requiredLabel)
}

// holdsPillionToItsLabel tries what a thief of the account's token could want of a namespace.
func holdsPillionToItsLabel(t *testing.T, n *namespace, account, label string) {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	thief, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	try := func(c kubernetes.Interface, patch string) error {
		_, err := c.CoreV1().Namespaces().Patch(t.Context(), n.name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	escaped := strings.ReplaceAll(label, "/", "~1")
	own := `{"op":"add","path":"/metadata/labels/` + escaped + `","value":"true"}`
	eventually(t, soon, func() error { // API servers take up a new policy after a moment
		err := try(thief, `[{"op":"add","path":"/metadata/labels/first","value":"y"}]`)
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return fmt.Errorf("a label: %v, want it refused by the policy", err)
		}
		return nil
	})
	for what, patch := range map[string]string{
		"a lower Pod Security level":  `[{"op":"replace","path":"/metadata/labels/pod-security.kubernetes.io~1enforce","value":"privileged"}]`,
		"no Pod Security level":       `[{"op":"remove","path":"/metadata/labels/pod-security.kubernetes.io~1enforce"}]`,
		"a label":                     `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
		"its own, by no apply":        `[` + own + `]`,
		"a label beside its own":      `[` + own + `,{"op":"replace","path":"/metadata/labels/team","value":"payments"}]`,
		"no labels":                   `[{"op":"remove","path":"/metadata/labels"}]`,
		"an annotation":               `[{"op":"add","path":"/metadata/annotations/x","value":"y"}]`,
		"another annotation":          `[{"op":"replace","path":"/metadata/annotations/a","value":"c"}]`,
		"no annotations":              `[{"op":"remove","path":"/metadata/annotations"}]`,
		"an annotation for injection": `[{"op":"add","path":"/metadata/annotations/pillion.dev~1inject","value":"false"}]`,
		"a finalizer":                 `[{"op":"add","path":"/metadata/finalizers","value":["thief.example.com/never"]}]`,
		"an owner":                    `[{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Namespace","name":"default","uid":"y"}]}]`,
	} {
		if err := try(client, patch); err != nil {
			t.Errorf("an admin: %s: %v; this patch shows nothing", what, err)
		}
		if err := try(thief, patch); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("%s: %v, want it refused by the policy", what, err)
		}
	}
	prefix, _, _ := strings.Cut(label, "/")
	for what, labels := range map[string]string{"put on": `{"` + label + `":"true"}`, "taken off": `{}`} {
		_, err := thief.CoreV1().Namespaces().Patch(t.Context(), n.name, types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{FieldManager: prefix})
		if err != nil {
			t.Errorf("the label is %s: %v, want it allowed", what, err)
		}
	}
}

// newHeldNamespace is a namespace for holdsPillionToItsLabel.
func newHeldNamespace(t *testing.T) *namespace {
	t.Helper()
	return newNamespace(t, map[string]string{"a": "b"}, map[string]string{"team": "web", "pod-security.kubernetes.io/enforce": "baseline"})
}

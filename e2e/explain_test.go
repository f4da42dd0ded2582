package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pillion-dev/pillion/e2e/measure"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// teamOf returns the kubeconfig of an account that may edit what is in the namespace, and
// nothing else.
func (n *namespace) teamOf(t *testing.T) string {
	t.Helper()
	path := n.kubeconfig(t, "team")
	must(t, "", "kubectl", "-n", n.name, "create", "rolebinding", "team", "--clusterrole=edit", "--serviceaccount="+n.name+":team")
	return path
}

// says runs explain, and fails the test unless the text has each of wants. Spaces and line
// ends count as one space.
func says(t *testing.T, args []string, wants ...string) {
	t.Helper()
	out, _, err := run(t, "", "pillion", append([]string{"explain"}, args...)...)
	if refused := slices.Contains(wants, "refused: "); (err != nil) != refused {
		t.Errorf("the exit code is an error's: %v, want %v (%v)", err != nil, refused, err)
	}
	flat := strings.Join(strings.Fields(out), " ")
	for _, want := range wants {
		if !strings.Contains(flat, want) {
			t.Errorf("explain %s lacks %q:\n%s", strings.Join(args, " "), want, out)
		}
	}
	for line := range strings.Lines(out) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 && !strings.HasPrefix(line, "    kubectl ") { // commands are whole
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}

func TestExplainSaysHowAPodOfTheClusterStandsAndWhy(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, nil, nil)
	early := n.mustCreate(t, newPod("early", nil))
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,"%s.pillion.dev/log-level":"debug"}}}`, injectAnnotation, name, name)
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	injects(t, n, name)
	n.mustCreate(t, newPod("late", nil))
	must(t, workloadOf("Deployment", "web", "", "", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	in := []string{"-n", n.name}
	says(t, append(in, "pod/late"), "Pod/late in namespace "+n.name+": injected already, nothing to change (Injected)", "yes: the namespace has the label "+injectionLabel,
		"yes: the pod has the record "+statusAnnotation, "logLevel debug (Namespace, "+name+".pillion.dev/log-level)", "added spec.initContainers[name="+name+"]")
	says(t, append(in, "pod", "early"), "not injected; missing: "+name+"; created now: Injected", "created at "+early.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
	eventually(t, soon, func() error {
		out, _, err := run(t, "", "pillion", "explain", "-n", n.name, "deploy/web")
		if err == nil && !strings.Contains(out, "1 of 1 pods up to date") {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	says(t, append(in, "ns/"+n.name), "Namespace/"+n.name, "a plain pod in namespace "+n.name+": injected (Injected)")
	const file = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"file"},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`
	out := must(t, file, "pillion", "explain", "--cluster", "-n", n.name, "-f", "-")
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "Pod/file in namespace "+n.name+": injected (Injected)") {
		t.Errorf("a file, by the cluster's settings: %s", out)
	}
	if out := must(t, file, "pillion", "inject", "--cluster", "-n", n.name, "-f", "-"); !strings.Contains(out, "name: "+name) || !strings.Contains(out, "debug") {
		t.Errorf("inject with the cluster's settings: %s", out)
	}
	if out := must(t, "", "pillion", "params", name, "--cluster", "-n", n.name); !strings.Contains(strings.Join(strings.Fields(out), " "), "debug (Namespace)") {
		t.Errorf("params with the cluster's settings: %s", out)
	}
}

// A team with the role edit in its namespace, and no right anywhere else, runs the command that
// a refusal names, and learns why.
func TestATeamWithItsOwnRightsLearnsWhyItsPodIsRefused(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	team := n.teamOf(t)
	must(t, workloadOf("Deployment", "good", "", "", "")+"\n---\n"+workloadOf("Deployment", "bad", "", name+".pillion.dev/log-level: loud", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	command := regexp.MustCompile(`kubectl pillion (explain -n \S+ deploy/bad)\)`)
	var args []string
	eventually(t, soon, func() error {
		events, err := client.CoreV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if found := command.FindStringSubmatch(e.Message); found != nil && e.Reason == "FailedCreate" {
				args = strings.Fields(found[1])[1:]
				return nil
			}
		}
		return fmt.Errorf("no event of the ReplicaSet names the command: %v", events.Items)
	})
	as := append(args, "--kubeconfig", team)
	says(t, as, "The API server's answer to a dry run", "refused: ", `got "loud"`, "BadParameter", "yes: the namespace has the label", "Pillion's settings cannot be read with your rights", "--serviceaccount="+n.name+":team")
	says(t, []string{"-n", n.name, "deploy/good", "--kubeconfig", team}, "admitted, with "+name+" (version ")
	says(t, []string{"ns/" + n.name, "--kubeconfig", team}, "yes: the namespace has the label", injectAnnotation+`: "`+name+`"`)
}

// called has the names of the webhooks that an API server called, in the order of the calls.
type called struct {
	mu    sync.Mutex
	names []string
}

func (c *called) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

func (c *called) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

// The order of calls and who meets the pod are those of a real API server: webhooks before and
// after Pillion's, with selectors, conditions and rules of all kinds, and policies.
func TestTheChainIsWhatTheAPIServerCalls(t *testing.T) {
	t.Parallel()
	template := newTemplate(t)
	n := newNamespace(t, asking(template), open())
	var calls called
	server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.add(path.Base(r.URL.Path))
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // the API server reports what it did not get
	}))
	webhook := func(name string, change func(*registrationv1.MutatingWebhook)) registrationv1.MutatingWebhook {
		w := measure.PodWebhook(name+".example.com", calling(server, "/"+name), n.name, registrationv1.NeverReinvocationPolicy)
		if change != nil {
			change(&w)
		}
		return w
	}
	condition := func(expression string, policy registrationv1.FailurePolicyType) func(*registrationv1.MutatingWebhook) {
		return func(w *registrationv1.MutatingWebhook) {
			w.MatchConditions, w.FailurePolicy = []registrationv1.MatchCondition{{Name: "c", Expression: expression}}, &policy
		}
	}
	before, after := unique("aa-chain"), unique("zz-chain")
	for name, webhooks := range map[string][]registrationv1.MutatingWebhook{
		before: {
			webhook("second", nil), webhook("first", nil),
			webhook("other-label", func(w *registrationv1.MutatingWebhook) {
				w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
			}),
			webhook("no-sidecar-yet", condition("!has(object.spec.initContainers)", registrationv1.Fail)),
			webhook("condition-fails", condition("object.spec.hostname == 'x'", registrationv1.Ignore)),
		},
		after: {
			webhook("sees-sidecar", condition("object.spec.initContainers.exists(c, c.name == '"+template+"')", registrationv1.Fail)),
			webhook("updates", func(w *registrationv1.MutatingWebhook) {
				w.Rules[0].Operations = []registrationv1.OperationType{registrationv1.Update}
			}),
			webhook("everything", func(w *registrationv1.MutatingWebhook) {
				w.Rules = []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{"*"}, Rule: registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}}
				w.MatchConditions = []registrationv1.MatchCondition{{Name: "pods", Expression: "request.resource.resource == 'pods'"}}
			}),
		},
	} {
		registers(t, name, webhooks...)
	}
	policies := map[string]bool{} // by name: whether the pod meets it
	for kind, more := range map[string]string{
		"meets": "", "elsewhere": "objectSelector: {matchLabels: {app: other}}", "excluded": "excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]",
	} {
		name := unique("chain-" + kind)
		policies[name] = kind == "meets"
		must(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
    %[3]s
  validations: [{expression: "false", message: met %[1]s}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Warn]}
`, name, n.name, more), "kubectl", "apply", "-f", "-")
		t.Cleanup(func() { remove(t, "validatingadmissionpolicy/"+name, "validatingadmissionpolicybinding/"+name) })
	}

	// What the API server does, once it knows all of them.
	want := []string{"second", "first", "no-sidecar-yet", "sees-sidecar", "everything"}
	eventually(t, soon, func() error {
		calls.take()
		n.warnings.take()
		if _, err := n.preview(t, newPod("probe", nil)); err != nil {
			return err
		}
		warned, got := n.warnings.take(), calls.take()
		if !slices.Equal(got, want) {
			return fmt.Errorf("the API server called %q, want %q", got, want)
		}
		for name, meets := range policies {
			if strings.Contains(warned, "met "+name) != meets {
				return fmt.Errorf("the policy %s: %s", name, warned)
			}
		}
		return nil
	})

	// What the chain says.
	out, links := n.chain(t)
	var got []string
	own := -1
	for _, l := range links {
		_, name, _ := strings.Cut(l.Configuration, "/")
		switch {
		case l.Own && l.Phase == "mutating webhooks" && l.Meets == "yes":
			own = len(got)
		case name == before || name == after:
			if l.Meets == "yes" {
				got = append(got, strings.TrimSuffix(l.Name, ".example.com"))
			}
		case l.Phase == "validating policies":
			if meets, mine := policies[name]; mine && meets != (l.Meets == "yes") {
				t.Errorf("the policy %s: %s, %s", name, l.Meets, l.Why)
			}
		}
	}
	if !slices.Equal(got, want) || own != 3 {
		t.Errorf("the chain says %q with Pillion after %d of them, want %q with Pillion after 3\n%s", got, own, want, out)
	}
}

// Mutating policies come before all webhooks, see a pod with the API's defaults, and are asked
// again after Pillion as their reinvocationPolicy says. Each writes down on the pod whether it
// saw the sidecar. Which policies a pod meets at all is told in inspect/chain.
func TestTheChainHasMutatingPoliciesInTheirPlace(t *testing.T) {
	t.Parallel()
	template := newTemplate(t)
	n := newNamespace(t, asking(template), open())
	const mark = "chain.example.com/"
	type policy struct {
		meets     string // what the chain is to say
		saw       string // what the policy is to write; "" for nothing
		again     registrationv1.ReinvocationPolicyType
		condition string
	}
	policies := map[string]policy{}
	for kind, p := range map[string]policy{
		"once":      {meets: "yes", saw: "pod", again: registrationv1.NeverReinvocationPolicy},
		"again":     {meets: "yes", saw: "sidecar", again: registrationv1.IfNeededReinvocationPolicy},
		"defaults":  {meets: "yes", saw: "pod", again: registrationv1.NeverReinvocationPolicy, condition: "object.spec.restartPolicy == 'Always' && object.spec.serviceAccountName == 'default' && object.spec.containers[0].imagePullPolicy == 'IfNotPresent'"},
		"too-early": {meets: "no", again: registrationv1.IfNeededReinvocationPolicy, condition: "has(object.spec.initContainers)"},
	} {
		name := unique("chain-" + kind)
		policies[name] = p
		n.policyCalled(t, name, p.again, cmp.Or(p.condition, "true"), `Object{metadata: Object.metadata{annotations: {"`+mark+name+`": has(object.spec.initContainers) ? "sidecar" : "pod"}}}`)
	}

	// What the API server does, once it knows all of them.
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("probe", nil))
		if err != nil {
			return err
		}
		if sidecar(pod, template) == nil {
			return fmt.Errorf("no sidecar: %v", pod.Annotations)
		}
		for name, p := range policies {
			if got := pod.Annotations[mark+name]; got != p.saw {
				return fmt.Errorf("the policy %s wrote %q, want %q", name, got, p.saw)
			}
		}
		return nil
	})

	// What the chain says.
	out, links := n.chain(t)
	found, webhooks := 0, false
	for _, l := range links {
		_, name, _ := strings.Cut(l.Configuration, "/")
		webhooks = webhooks || l.Phase == "mutating webhooks"
		p, mine := policies[name]
		if !mine {
			continue
		}
		found++
		sees := map[registrationv1.ReinvocationPolicyType]string{registrationv1.NeverReinvocationPolicy: "never sees the sidecars", registrationv1.IfNeededReinvocationPolicy: "sees the sidecars only if it is called again"}[p.again]
		if l.Meets != p.meets || l.CalledAgain != (p.again == registrationv1.IfNeededReinvocationPolicy) || webhooks || !strings.Contains(l.Sees, sees) {
			t.Errorf("%s, after a webhook: %t: %+v", name, webhooks, l)
		}
	}
	if found != len(policies) {
		t.Errorf("%d of %d policies are in the chain\n%s", found, len(policies), out)
	}
}

// A chainLink is a webhook or a policy of a chain, as explain writes it.
type chainLink struct {
	Phase, Configuration, Name, Meets, Why, Sees string
	Own, CalledAgain                             bool
}

// chain is what explain says of the chain of a pod in the namespace: the text, and its links.
func (n *namespace) chain(t *testing.T) (out string, links []chainLink) {
	t.Helper()
	out = must(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"probe"},"spec":{"containers":[{"name":"app","image":"nginx:1.29"}]}}`,
		"pillion", "explain", "--cluster", "-n", n.name, "-f", "-", "--chain", "-o", "json")
	var report struct {
		Pods []struct{ Chain struct{ Links []chainLink } }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Pods) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	return out, report.Pods[0].Chain.Links
}

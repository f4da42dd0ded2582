package chain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/inspect/chain"
	"github.com/pillion-dev/pillion/templates"
)

const aPod = `{"metadata":{"name":"web","labels":{"app":"web"},"annotations":{"pillion.dev/inject":"side"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`

func podOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var pod map[string]any
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func read[T any](t *testing.T, text string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object
}

const aboutPods = "rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]"

func webhookOf(name, more string) string {
	return fmt.Sprintf("{name: %s, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {namespace: x, name: hook}}, %s}", name, more)
}

// Each way in which a webhook can leave a pod out, and each thing that is not guessed.
func TestAWebhookTakesAPodInOrSaysWhyNot(t *testing.T) {
	shop := templates.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}}
	for name, c := range map[string]struct {
		more  string
		meets chain.Meets
		why   string
	}{
		"plain":                      {aboutPods, chain.Yes, "its rules and selectors take the pod in"},
		"all resources":              {"rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*']}]", chain.Yes, ""},
		"a subresource":              {"rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods/exec]}]", chain.No, "its rules"},
		"an update":                  {"rules: [{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]", chain.No, "its rules"},
		"of the cluster only":        {"rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Cluster}]", chain.No, "its rules"},
		"another namespace":          {aboutPods + ", namespaceSelector: {matchLabels: {team: x}}", chain.No, "its namespaceSelector does not take the namespace in (team=x)"},
		"the namespace's name":       {aboutPods + ", namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}", chain.Yes, ""},
		"other pods":                 {aboutPods + ", objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}", chain.No, "its objectSelector does not take the pod in (app notin (web))"},
		"a condition that holds":     {aboutPods + ", matchConditions: [{name: named, expression: \"object.metadata.name == 'web' && request.namespace == 'shop'\"}]", chain.Yes, "matchConditions take the pod in"},
		"a condition that does not":  {aboutPods + ", matchConditions: [{name: big, expression: 'object.spec.containers.size() > 1'}]", chain.No, `its matchCondition "big" is false`},
		"a condition that fails":     {aboutPods + ", matchConditions: [{name: broken, expression: 'object.spec.nope == 1'}]", chain.Yes, "failurePolicy Fail refuses the pod"},
		"a failure that is ignored":  {aboutPods + ", failurePolicy: Ignore, matchConditions: [{name: broken, expression: 'object.spec.nope == 1'}]", chain.No, "failurePolicy Ignore passes over"},
		"a field by default":         {aboutPods + ", matchConditions: [{name: always, expression: \"object.spec.restartPolicy == 'Always' && object.spec.serviceAccountName == 'default' && object.spec.containers[0].imagePullPolicy == 'IfNotPresent'\"}]", chain.Yes, "matchConditions take the pod in"},
		"another than the default":   {aboutPods + ", matchConditions: [{name: never, expression: \"object.spec.restartPolicy == 'Never'\"}]", chain.No, `"never" is false`},
		"who creates it":             {aboutPods + ", matchConditions: [{name: who, expression: \"request.userInfo.username == 'x'\"}]", chain.Depends, `its matchCondition "who" depends on userInfo`},
		"an authorizer":              {aboutPods + ", matchConditions: [{name: may, expression: \"authorizer.group('').resource('pods').check('create').allowed()\"}]", chain.Depends, "depends on authorizer"},
		"who, and one that fails":    {aboutPods + ", matchConditions: [{name: who, expression: \"request.userInfo.username == 'x'\"}, {name: broken, expression: 'object.spec.nope == 1'}]", chain.Depends, "depends on userInfo"},
		"who, and a false condition": {aboutPods + ", matchConditions: [{name: who, expression: \"request.userInfo.username == 'x'\"}, {name: never, expression: 'false'}]", chain.No, `"never" is false`},
	} {
		t.Run(name, func(t *testing.T) {
			config := read[admissionv1.MutatingWebhookConfiguration](t, "metadata: {name: a}\nwebhooks: ["+webhookOf("w.example.com", c.more)+"]")
			found, err := chain.Of(chain.Input{Objects: chain.Objects{Mutating: []admissionv1.MutatingWebhookConfiguration{config}}, Pod: podOf(t, aPod), Namespace: shop})
			if err != nil || len(found.Links) != 1 {
				t.Fatalf("%v %+v", err, found)
			}
			if l := found.Links[0]; l.Meets != c.meets || !strings.Contains(l.Why, c.why) || l.TimeoutSeconds != 10 || l.Calls != "service x/hook" {
				t.Errorf("%+v\nwant %s, %q", l, c.meets, c.why)
			}
		})
	}
}

func TestTheChainIsInTheOrderOfCallsAndSaysWhoSeesWhat(t *testing.T) {
	again := ", reinvocationPolicy: IfNeeded"
	var in chain.Input
	in.Pod, in.Namespace = podOf(t, aPod), templates.Namespace{Name: "shop"}
	in.After = podOf(t, strings.Replace(aPod, `"app":"web"`, `"app":"web","sidecar":"yes"`, 1))
	// Pillion's configuration stands between two others by its name, and an entry of it does
	// not take the pod in.
	in.Mutating = []admissionv1.MutatingWebhookConfiguration{
		read[admissionv1.MutatingWebhookConfiguration](t, "metadata: {name: z}\nwebhooks: ["+webhookOf("z2.example.com", aboutPods)+","+webhookOf("z1.example.com", aboutPods+", objectSelector: {matchLabels: {sidecar: 'yes'}}")+"]"),
		read[admissionv1.MutatingWebhookConfiguration](t, "metadata: {name: pillion}\nwebhooks: ["+webhookOf("requested.pillion.dev", aboutPods+again+", failurePolicy: Ignore, timeoutSeconds: 7")+","+webhookOf("enforced.pillion.dev", aboutPods+", namespaceSelector: {matchLabels: {a: b}}")+"]"),
		read[admissionv1.MutatingWebhookConfiguration](t, "metadata: {name: a}\nwebhooks: ["+webhookOf("a.example.com", aboutPods+again)+"]"),
	}
	in.MutatingPolicies = []chain.Policy{
		read[chain.Policy](t, "metadata: {name: first}\nspec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}"),
		read[chain.Policy](t, "metadata: {name: unbound}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}"),
	}
	in.MutatingBindings = []chain.Binding{read[chain.Binding](t, "metadata: {name: all}\nspec: {policyName: first}")}
	in.ValidatingPolicies = []chain.Policy{
		read[chain.Policy](t, "metadata: {name: check}\nspec: {matchConstraints: {objectSelector: {matchLabels: {sidecar: 'yes'}}, resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}"),
		read[chain.Policy](t, "metadata: {name: excluded}\nspec: {matchConstraints: {excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods], resourceNames: [web]}]}}"),
	}
	in.ValidatingBindings = []chain.Binding{
		read[chain.Binding](t, "metadata: {name: deny}\nspec: {policyName: check, validationActions: [Deny, Audit]}"),
		read[chain.Binding](t, "metadata: {name: elsewhere}\nspec: {policyName: check, validationActions: [Warn], matchResources: {namespaceSelector: {matchLabels: {x: y}}}}"),
		read[chain.Binding](t, "metadata: {name: excluded}\nspec: {policyName: excluded, validationActions: [Warn]}"),
	}
	in.Validating = []admissionv1.ValidatingWebhookConfiguration{read[admissionv1.ValidatingWebhookConfiguration](t, "metadata: {name: pillion}\nwebhooks: ["+webhookOf("verify.pillion.dev", aboutPods)+"]")}
	found, err := chain.Of(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range found.Links {
		_, config, _ := strings.Cut(l.Configuration, "/")
		got = append(got, fmt.Sprintf("%s %s %s again=%t own=%t %s %d %v", config, l.Name, l.Meets, l.Again, l.Own, l.FailurePolicy, l.TimeoutSeconds, l.Actions))
	}
	want := `first  yes again=false own=false Fail 0 []
unbound  no again=false own=false Fail 0 []
a a.example.com yes again=true own=false Fail 10 []
pillion requested.pillion.dev yes again=true own=true Ignore 7 []
pillion enforced.pillion.dev no again=false own=true Fail 10 []
z z2.example.com yes again=false own=false Fail 10 []
z z1.example.com yes again=false own=false Fail 10 []
check  yes again=false own=false Fail 0 [Deny Audit]
excluded  no again=false own=false Fail 0 []
pillion verify.pillion.dev yes again=false own=true Fail 10 []`
	if all := strings.Join(got, "\n"); all != want {
		t.Errorf("%s\nwant\n%s", all, want)
	}
	for i, sees := range map[int]string{0: "never sees the sidecars", 2: "sees the sidecars only if it is called again", 3: "Pillion itself", 5: "if it changes the pod, Pillion is called again", 7: "cannot predict"} {
		if !strings.Contains(found.Links[i].Sees, sees) {
			t.Errorf("%d sees %q, want %q", i, found.Links[i].Sees, sees)
		}
	}
	for _, note := range []string{".static.k8s.io", "called once more, if a later one or an admission plugin changes the pod after them: a.example.com, requested.pillion.dev."} {
		if !strings.Contains(strings.Join(found.Notes, "\n"), note) {
			t.Errorf("no note says %q: %q", note, found.Notes)
		}
	}
}

// What a policy's parameters or its bindings decide is not guessed where they are not read.
func TestAPolicyDependsOnWhatIsNotRead(t *testing.T) {
	const matches = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}"
	for name, c := range map[string]struct {
		policy, binding string
		unread          bool
		meets           chain.Meets
		why             string
	}{
		"bound":                   {"spec: {" + matches + "}", "p", false, chain.Yes, "bound by b; its rules and selectors take the pod in"},
		"with parameters":         {"spec: {" + matches + ", paramKind: {apiVersion: v1, kind: ConfigMap}}", "p", false, chain.Depends, "its parameters (ConfigMap) are not read"},
		"bindings that are not":   {"spec: {" + matches + "}", "", true, chain.Depends, "its bindings cannot be read"},
		"no binding":              {"spec: {" + matches + "}", "other", false, chain.No, "no binding names it"},
		"a condition, and unread": {"spec: {" + matches + ", matchConditions: [{name: never, expression: 'false'}]}", "", true, chain.No, `"never" is false`},
	} {
		t.Run(name, func(t *testing.T) {
			var in chain.Input
			in.Pod, in.Namespace = podOf(t, aPod), templates.Namespace{Name: "shop"}
			in.MutatingPolicies = []chain.Policy{read[chain.Policy](t, "metadata: {name: p}\n"+c.policy)}
			in.ValidatingPolicies = []chain.Policy{read[chain.Policy](t, "metadata: {name: p}\n"+c.policy)}
			if c.binding != "" {
				in.MutatingBindings = []chain.Binding{read[chain.Binding](t, "metadata: {name: b}\nspec: {policyName: "+c.binding+"}")}
				in.ValidatingBindings = []chain.Binding{read[chain.Binding](t, "metadata: {name: b}\nspec: {policyName: "+c.binding+"}")}
			}
			if c.unread {
				in.Unread = []string{chain.MutatingBindings, chain.ValidatingBindings}
			}
			found, err := chain.Of(in)
			if err != nil || len(found.Links) != 2 {
				t.Fatalf("%v %+v", err, found)
			}
			for _, l := range found.Links {
				if l.Meets != c.meets || !strings.Contains(l.Why, c.why) {
					t.Errorf("%s: %s, %q; want %s, %q", l.Phase, l.Meets, l.Why, c.meets, c.why)
				}
			}
		})
	}
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// ownTemplate is a template of a namespace that adds a container of its name.
func ownTemplate(name, fields string) string {
	return fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: %s}\nspec:\n%s  inject: {spec: {initContainers: [{name: %s, image: 'registry.example.com/%s:1', restartPolicy: Always}]}}\n", name, fields, name, name)
}

// ready returns the condition Ready of a template of the namespace.
func (n *namespace) ready(t *testing.T, name string) (reason, message string) {
	t.Helper()
	var object v1alpha1.SidecarTemplate
	expectNoError(t, json.Unmarshal([]byte(must(t, "", "kubectl", "get", "namespacedsidecartemplate", name, "-n", n.name, "-o", "json")), &object))
	if c := meta.FindStatusCondition(object.Status.Conditions, "Ready"); c != nil && c.ObservedGeneration == object.Generation {
		return c.Reason, c.Message
	}
	return "", ""
}

func (n *namespace) waitReady(t *testing.T, name, want string) {
	t.Helper()
	eventually(t, soon, func() error {
		if reason, message := n.ready(t, name); reason != want {
			return fmt.Errorf("template %s of %s is %q (%s), want %s", name, n.name, reason, message, want)
		}
		return nil
	})
}

func TestATeamWithTheRoleEditWritesATemplateForItsOwnPods(t *testing.T) {
	t.Parallel()
	n, other := newNamespace(t, nil, nil), newNamespace(t, nil, nil)
	user := "jane-" + n.name
	must(t, "", "kubectl", "create", "rolebinding", "team", "-n", n.name, "--clusterrole=edit", "--user="+user)
	as := func(input string, args ...string) error {
		return attempt(t, input, "kubectl", append(args, "--as="+user)...)
	}
	apply := func(text string) error { return as(text, "apply", "-n", n.name, "-f", "-") }
	eventually(t, soon, func() error { return as("", "get", "nsct", "-n", n.name) }) // roles are aggregated
	expectNoError(t, apply(ownTemplate("own", "")))
	n.waitReady(t, "own", "Compiled")
	if out := must(t, "", "kubectl", "get", "nsct", "-n", n.name); !strings.Contains(out, "True") {
		t.Errorf("kubectl get nsct:\n%s", out)
	}
	if pod := n.mustCreate(t, newPod("asks", asking("own"))); sidecar(pod, "own") == nil {
		t.Errorf("containers %s, want own", containerNames(pod))
	}
	// Pods that ask for nothing reach Pillion, because the namespace gets its label.
	expectNoError(t, apply(ownTemplate("matching", "  match: {podSelector: {matchLabels: {mesh: 'on'}}}\n")))
	n.waitReady(t, "matching", "Compiled")
	eventually(t, soon, func() error { return n.hasInjection(t, "enabled") })
	matched := newPod("matched", nil)
	matched.Labels = map[string]string{"mesh": "on"}
	if pod := n.mustCreate(t, matched); sidecar(pod, "matching") == nil || sidecar(pod, "own") != nil {
		t.Errorf("containers %s, want matching", containerNames(pod))
	}
	// The team has nothing else.
	for _, args := range [][]string{{"get", "nsct", "-n", other.name}, {"delete", "sidecartemplate", "fluent-bit"}, {"annotate", "sidecartemplate", "fluent-bit", "a=b"}} {
		wantNoError(t, refusedWith(as("", args...), "forbidden"))
	}
	wantNoError(t, refusedWith(apply(ownTemplate("bad", "  required: true\n  match: {}\n")), "required"))
}

func TestANamespaceHasTwentyTemplatesOfItsOwnAtMost(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	var twenty []string
	for i := range 20 {
		twenty = append(twenty, ownTemplate(fmt.Sprint("own-", i), ""))
	}
	must(t, strings.Join(twenty, "---\n"), "kubectl", "apply", "-n", n.name, "-f", "-")
	eventually(t, soon, func() error {
		return refusedWith(attempt(t, ownTemplate("one-too-many", ""), "kubectl", "create", "--dry-run=server", "-n", n.name, "-f", "-"), "20 templates")
	})
}

// worstTemplate is a template that costs as much as one may: of a team's twenty each has a twentieth
// of what they may cost together, or is far too large. It is another one in each round.
func worstTemplate(namespace string, i, round int) []byte {
	spec := map[string]any{"match": map[string]any{}, "inject": map[string]any{}}
	// conditions has expressions evaluated for each pod.
	conditions := func(expressions ...string) {
		var all []any
		for c, e := range expressions {
			all = append(all, map[string]any{"name": fmt.Sprint("c", c), "expression": e})
		}
		spec["matchConditions"] = all
	}
	const text = "pod.metadata.?annotations[?'text'].orValue('')"
	switch i % 5 {
	case 0, 1:
		var variables []any
		for v := range 4 {
			// As many nested loops as the language has, over a list as long as the text allows.
			list := "[" + strings.Repeat("1,", 30) + fmt.Sprint(round, "]")
			variables = append(variables, map[string]any{"name": fmt.Sprint("v", v), "expression": list + ".map(a, " + "[" + strings.Repeat("1,", 200) + "1].map(b, a * b)).size()"})
		}
		spec["variables"] = variables
		spec["inject"] = map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "${string(variables.v0 + variables.v1 + variables.v2 + variables.v3)}"}}}
	case 2: // as many repetitions as a run may have
		loop := fmt.Sprintf("%s.split('').all(a, a != '%d')", text, round)
		conditions(loop, loop, loop)
	case 3: // a regular expression of as many instructions as a template may have, often
		conditions(fmt.Sprintf("lists.range(9).filter(i, %s.matches('(a?){60}%d')).size() == 0", text, round%10))
	case 4:
		spec["description"] = "x"
		spec["inject"] = map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 1_300_000)}}}
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "pillion.dev/v1alpha1", "kind": "NamespacedSidecarTemplate",
		"metadata": map[string]any{"name": fmt.Sprint("worst-", i), "namespace": namespace}, "spec": spec,
	})
	if err != nil {
		panic(err)
	}
	return data
}

func applyTheWorst(ctx context.Context, namespace string, i, round int) error {
	path := []string{"/apis/pillion.dev/v1alpha1/namespaces", namespace, "namespacedsidecartemplates", fmt.Sprint("worst-", i)}
	return client.CoreV1().RESTClient().Patch("application/apply-patch+yaml").AbsPath(path...).Param("fieldManager", "tenant").Param("force", "true").
		Body(bytes.NewReader(worstTemplate(namespace, i, round))).Do(ctx).Error()
}

// writeTheWorst has tenants write their worst templates until ctx ends.
func writeTheWorst(ctx context.Context, namespaces []*namespace) string {
	var mu sync.Mutex
	written, refused := 0, map[string]int{}
	many(len(namespaces), func(tenant int) {
		for round := 0; ctx.Err() == nil; round++ {
			next := time.After(500 * time.Millisecond)
			for i := 0; i < 20 && ctx.Err() == nil; i++ {
				err := applyTheWorst(ctx, namespaces[tenant].name, (tenant+i)%20, round)
				mu.Lock()
				switch {
				case err == nil:
					written++
				case ctx.Err() == nil:
					text, _, _ := strings.Cut(err.Error()[strings.LastIndex(err.Error()[:min(len(err.Error()), 400)], ": ")+1:], "\n")
					refused[text]++
				}
				mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-next:
			}
		}
	})
	return fmt.Sprintf("%d written, refused: %v", written, refused)
}

// newNamespaceOfTheWorst is a namespace with the worst templates that are allowed in force.
func newNamespaceOfTheWorst(t *testing.T) *namespace {
	t.Helper()
	n := newNamespace(t, nil, nil)
	each := func(do func(i int)) {
		for i := range 20 {
			if i%5 != 4 { // else it is too large
				do(i)
			}
		}
	}
	each(func(i int) { expectNoError(t, applyTheWorst(t.Context(), n.name, i, 0)) })
	each(func(i int) { n.waitReady(t, fmt.Sprint("worst-", i), "Compiled") })
	return n
}

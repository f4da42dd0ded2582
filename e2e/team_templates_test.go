package e2e

import (
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
	wantTexts(t, "kubectl get nsct", must(t, "", "kubectl", "get", "nsct", "-n", n.name), "True")
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
func worstTemplate(i, round int) string {
	spec := strings.Split("\n"+worstSpecs, "---")[max(0, i%5-1)] // the first one twice
	spec = strings.NewReplacer("\n", "\n  ", "LIST", "["+strings.Repeat("1,", 30)+fmt.Sprint(round)+"]", "ONES", "["+strings.Repeat("1,", 200)+"1]",
		"ROUND", fmt.Sprint(round), "DIGIT", fmt.Sprint(round%10), "LARGE", strings.Repeat("x", 1_300_000)).Replace(spec)
	return fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: worst-%d}\nspec:%s", i, spec)
}

func applyTheWorst(ctx context.Context, namespace string, i, round int) error {
	path := []string{"/apis/pillion.dev/v1alpha1/namespaces", namespace, "namespacedsidecartemplates", fmt.Sprint("worst-", i)}
	return client.CoreV1().RESTClient().Patch("application/apply-patch+yaml").AbsPath(path...).Param("fieldManager", "tenant").Param("force", "true").
		Body(strings.NewReader(worstTemplate(i, round))).Do(ctx).Error()
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

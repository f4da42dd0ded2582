package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// requests are the requests of Pillion in an audit log, as "verb group/resource", and those
// that its rights did not allow.
func requests(t *testing.T, log string) (used map[string]bool, refused []string) {
	t.Helper()
	text, err := os.ReadFile(log)
	expectNoError(t, err)
	used = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var e struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ APIGroup, Resource, Subresource string }
			// ImpersonatedUser is set where a test asks in Pillion's name.
			ImpersonatedUser *struct{}
			Annotations      map[string]string
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.User.Username != system(ground.Namespace, "pillion") || e.ImpersonatedUser != nil || e.ObjectRef.Resource == "" {
			continue
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		if e.ObjectRef.APIGroup == "authorization.k8s.io" {
			continue // everybody may ask about their own rights
		}
		request := e.Verb + " " + e.ObjectRef.APIGroup + "/" + resource
		used[request] = true
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
			refused = append(refused, request)
		}
	}
	return used, refused
}

// granted are the rights of Pillion's own account in the rendered chart, as requests has them.
func granted(t *testing.T, objects rendered) []string {
	t.Helper()
	all := map[string]bool{}
	for _, rules := range ownRoles(t, objects) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all[verb+" "+group+"/"+resource] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// rare are rights that are used where a CA is replaced, which TestCertificates sees, and where a template was
// deleted together with its CRD.
var rare = []string{"get /secrets", "update /secrets", "get apiextensions.k8s.io/customresourcedefinitions"}

// fallback reports whether the right is one that stands in for another one in use: client-go
// watches with sendInitialEvents, and lists where an API server cannot stream a list.
func fallback(right string, used map[string]bool) bool {
	resource, ok := strings.CutPrefix(right, "list ")
	return ok && used["watch "+resource]
}

// Every right that the chart grants is used, and nothing is tried that it does not grant. The
// audit log of the API server tells. The owners of refused pods get an event each, which takes
// the rights to read them.
func TestPillionUsesEveryRightThatTheChartGrants(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	team := unique("team")
	n := newNamespace(t, asking(name), map[string]string{"team": team})
	requiredFor(team, sidecarSpec).apply(t) // its label comes by a write of Pillion's own
	kinds := []string{"ReplicaSet", "Deployment", "CronJob", "StatefulSet", "Job", "ReplicationController"}
	for _, kind := range append(kinds, "DaemonSet") { // which creates no pods where there are no nodes
		must(t, workloadOf(kind, "refused", "", name+".pillion.dev/log-level: loud", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	}
	must(t, "", "kubectl", "-n", n.name, "create", "job", "refused-now", "--from=cronjob/refused")
	// A preview of pods that are injected reads what limits them.
	must(t, workloadOf("Deployment", "injected", "", "", ""), "kubectl", "-n", n.name, "apply", "--dry-run=server", "-f", "-")
	must(t, ownTemplate("own", ""), "kubectl", "-n", n.name, "apply", "-f", "-")
	n.waitReady(t, "own", "Compiled")
	// A preview of an annotation reads the namespace's workloads.
	must(t, "", "kubectl", "annotate", "namespace", n.name, "pillion.dev/inject=own", "--overwrite", "--dry-run=server")
	for _, kind := range kinds {
		n.waitEvent(t, kind, "BadParameter", "loud")
	}
	// A namespace that the informer does not know is read live. So is a DaemonSet that a
	// review names: as the API server would send it from a cluster with nodes.
	daemons, err := client.AppsV1().DaemonSets(n.name).Get(t.Context(), "refused", metav1.GetOptions{})
	expectNoError(t, err)
	r := newReviewer(t, shared.Replicas(ground.Namespace)[0])
	owned := fmt.Sprintf(`"metadata":{"annotations":{"pillion.dev/inject":""},"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"refused","uid":%q,"controller":true}],`, daemons.UID)
	for _, body := range []string{
		strings.Replace(goodReview, `"namespace":"default"`, `"namespace":"there-is-none"`, 1),
		strings.Replace(strings.Replace(goodReview, `"metadata":{`, owned, 1), `"namespace":"default"`, `"namespace":"`+n.name+`"`, 1),
	} {
		if status, answer := review(t, r, body); status == http.StatusBadRequest {
			t.Errorf("the review is answered with %d %s", status, answer)
		}
	}
	eventually(t, 2*soon, func() error {
		used, refused := requests(t, shared.AuditLog())
		rights := granted(t, render(t))
		// A release that is being removed loses its roles while Pillion still runs.
		refused = slices.DeleteFunc(refused, func(request string) bool { return slices.Contains(rights, request) })
		if len(refused) > 0 {
			return fmt.Errorf("Pillion tries what it may not: %q", refused)
		}
		var unused []string
		for _, right := range rights {
			if !used[right] && !slices.Contains(rare, right) && !fallback(right, used) {
				unused = append(unused, right)
			}
		}
		if len(unused) > 0 {
			return fmt.Errorf("Pillion has never used these rights: %q", unused)
		}
		return nil
	})
}

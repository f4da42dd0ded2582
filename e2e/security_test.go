package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
)

var update = flag.Bool("update", false, "write what the tests record in docs anew")

// A reason says why Pillion has the rights on a resource, and what a thief of its token could do with them.
type reason struct {
	why, thief string
}

// Reasons that several resources share.
var (
	owners    = reason{"an event needs an owner that exists", "read them"}
	workloads = reason{"`get`: an event needs an owner that exists. `list`: which workloads of an annotated namespace cannot create pods (`rbac.readWorkloads`)", "read pod templates with their plain variables"}
	templated = reason{"which workloads of an annotated namespace cannot create pods (`rbac.readWorkloads`)", "read pod templates with their plain variables"}
	bundle    = reason{"the caBundle, by which API servers verify Pillion", "all that an admin can. The policy leaves the caBundle: pods are bare then, or refused where enforced"}
)

// reasons are by the resource, alone or with its name behind it or where it is before it.
var reasons = map[string]reason{
	"namespaces":                        {"labels and annotations decide what is injected; `patch`: Pillion's two labels", "write any label. The policy leaves Pillion's two, never `disabled`, until a replica puts them back"},
	"sidecartemplates":                  {"templates of the cluster", "read them"},
	"namespacedsidecartemplates":        {"templates of namespaces (`namespacedTemplates.enabled`)", "read them"},
	"namespacedsidecartemplates/status": {"whether one compiles", "call a bad template good; it decides nothing"},
	"sidecartemplates/status":           {"whether a template compiles", "call a bad template good; it decides nothing"},
	"customresourcedefinitions":         {"whether templates were deleted alone or with their CRD", "read it"},
	"secrets pillion-ca":                {"the self-signed CA, which replicas share", "make a certificate of Pillion, or a CA of their own; useful only between API servers and Pillion"},
	"secrets":                           {"the first replica creates the CA's Secret (`rbac.createSecrets`)", "a Secret for what else runs there: give Pillion its own namespace"},
	"secrets pillion-serving":           {"the certificate that cert-manager issues", "the same, until it ends"},
	"mutatingwebhookconfigurations":     bundle,
	"validatingwebhookconfigurations":   bundle,
	"events":                            {"why a pod was refused, or lacks a sidecar", "write any text, but list or delete no event"},
	"daemonsets":                        workloads,
	"replicasets":                       owners,
	"statefulsets":                      workloads,
	"jobs":                              workloads,
	"deployments":                       templated,
	"cronjobs":                          templated,
	"pods":                              {"which pods lack a sidecar (`coverage.every`)", "read pods with their plain variables"},
	"proof namespace pods":              {"the proof, and whether API servers accept the pods that get a template (`enforcement`)", "create pods under the Pod Security Standard `restricted`. The policy leaves dry runs"},
	"configmaps pillion-uninstall":      {"Pillion takes its labels off when the release is removed", "read it"},
	"replicationcontrollers":            owners,
}

// installations are those that the table compares. The last ones, which are hardened, share a column.
var installations = []struct {
	name string
	sets []string
}{
	{"default", nil},
	{"`cert-manager`", hardened["cert-manager"]},
	{"`files`", hardened["files"]},
}

// othersRoles are the suffixes of the roles that the chart makes for people.
var othersRoles = []string{"-view", "-view-namespaced", "-edit", "-injection"}

// rightsOf are the rules of Pillion's own account, with the verbs by "scope|resource".
func rightsOf(t *testing.T, objects rendered) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for role, rules := range roles(t, objects) {
		kind, name, _ := strings.Cut(role, " ")
		if slices.ContainsFunc(othersRoles, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
			continue
		}
		scope := "cluster"
		if kind == "Role" {
			scope = "own namespace"
		}
		if strings.HasSuffix(name, "-proof") {
			scope = "proof namespace"
		}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				object := resource
				if len(rule.ResourceNames) > 0 {
					object += " " + strings.Join(rule.ResourceNames, ", ")
				}
				key := scope + "|" + rule.APIGroups[0] + "|" + object
				all[key] = append(all[key], rule.Verbs...)
			}
		}
	}
	return all
}

// rightsTable is the table of docs/concepts/security.md. Objects with the same rights for the same reason share a row.
func rightsTable(t *testing.T) string {
	t.Helper()
	var columns []map[string][]string
	every := map[string]bool{}
	for _, i := range installations {
		rights := rightsOf(t, render(t, i.sets...))
		columns = append(columns, rights)
		for key := range rights {
			every[key] = true
		}
	}
	var rows []string // each with %s for its objects
	objects := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(every)) {
		parts := strings.Split(key, "|")
		resource, _, _ := strings.Cut(parts[2], " ")
		why := cmp.Or(reasons[parts[0]+" "+resource], reasons[parts[2]], reasons[resource])
		if why == (reason{}) {
			t.Errorf("nothing says why Pillion has rights on %s", parts[2])
		}
		row := "| " + parts[0] + " | %s | " + why.why + " | " + why.thief + " |"
		verbs := func(i int) string { return cmp.Or(strings.Join(columns[i][key], " "), "none") }
		row += " " + verbs(0) + " | "
		if verbs(1) == verbs(2) {
			row += verbs(1) + " |"
		} else {
			row += fmt.Sprintf("%s: %s, %s: %s |", installations[1].name, verbs(1), installations[2].name, verbs(2))
		}
		if objects[row] == nil {
			rows = append(rows, row)
		}
		objects[row] = append(objects[row], "`"+parts[2]+"`")
	}
	table := "| where | object | why | what a thief could do | default | hardened |\n| --- | --- | --- | --- | --- | --- |\n"
	for _, row := range rows {
		table += strings.Replace(row, "%s", strings.Join(objects[row], ", "), 1) + "\n"
	}
	return table
}

// The table of rights in docs/concepts/security.md is that of the chart.
func TestTheDocumentationListsEveryRightThatTheChartGrants(t *testing.T) {
	t.Parallel()
	transcript.Recorded(t, checkout.Path("docs", "concepts", "security.md"), "rights", *update, func(string) string { return rightsTable(t) })
}

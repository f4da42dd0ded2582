package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pillion-dev/pillion/docs/transcript"
)

var update = flag.Bool("update", false, "write what the tests record in docs anew")

// A reason says why Pillion has the rights on a resource, and what a thief of its token could do with them.
type reason struct{ Why, Thief string }

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

// ownRoles are the rules of Pillion's own account, by its roles.
func ownRoles(t *testing.T, objects rendered) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := roles(t, objects)
	maps.DeleteFunc(all, func(role string, _ []rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(othersRoles, func(suffix string) bool { return strings.HasSuffix(role, suffix) })
	})
	return all
}

// rightsOf are the rules of Pillion's own account, with the verbs by "scope|resource".
func rightsOf(t *testing.T, objects rendered) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for role, rules := range ownRoles(t, objects) {
		kind, name, _ := strings.Cut(role, " ")
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

// rightsTable is the table of docs/concepts/rights.md. Objects with the same rights for the same reason share a row.
func rightsTable(t *testing.T) string {
	t.Helper()
	var reasons map[string]reason
	fromYAML(t, "testdata/rights.yaml", &reasons)
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
		row := "| " + parts[0] + " | %s | " + why.Why + " | " + why.Thief + " |"
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

// The table of rights in docs/concepts/rights.md is that of the chart.
func TestTheDocumentationListsEveryRightThatTheChartGrants(t *testing.T) {
	t.Parallel()
	transcript.Recorded(t, checkout.Path("docs", "concepts", "rights.md"), "rights", *update, func(string) string { return rightsTable(t) })
}

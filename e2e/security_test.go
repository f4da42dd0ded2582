package e2e

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
)

var update = flag.Bool("update", false, "write what the tests record in docs anew")

// reasons say why Pillion has the rights on a resource.
var reasons = map[string]string{
	"namespaces":                      "their labels and annotations decide what is injected; `patch`: Pillion's two labels, held to these by a policy",
	"sidecartemplates":                "the templates of the cluster (`clusterTemplates`); `create`, `update`, `delete`: read-only copies of other templates, held to these by a policy (`mirrorTemplates`)",
	"validatingadmissionpolicies":     "it says which version of the release writes the copies of templates (`mirrorTemplates`)",
	"sidecartemplates/status":         "whether a template compiles, and in how many namespaces it is in force (`clusterTemplates`)",
	"customresourcedefinitions":       "tells templates that were deleted from those that went with their CRD and stay in force (`clusterTemplates`)",
	"configmaps":                      "the templates in use: a replica that starts without one of them is not ready",
	"secrets pillion-ca":              "the CA of self-signed certificates, which the replicas share",
	"secrets":                         "the first replica creates the CA's Secret; not with `rbac.createSecrets=false`",
	"secrets pillion-serving":         "the serving certificate that cert-manager issues",
	"mutatingwebhookconfigurations":   "the caBundle, by which API servers verify Pillion; `patch` to write it, held to that field by a policy",
	"validatingwebhookconfigurations": "the same",
	"events":                          "they tell a workload's owner why a pod was refused or lacks a sidecar; `patch` counts an event that comes again",
	"daemonsets":                      "`get`: an event is on an owner that exists. `list`: which workloads name a template that is deleted, or get no new pods (`rbac.readWorkloads`)",
	"replicasets":                     "`get`: an event is on an owner that exists",
	"statefulsets":                    "the same as daemonsets",
	"jobs":                            "the same as daemonsets",
	"deployments":                     "the same as daemonsets, for the Deployment of a ReplicaSet",
	"cronjobs":                        "the same as daemonsets, for the CronJob of a Job",
	"pods":                            "`list`: pods that lack a sidecar (`coverage.enabled`) or name a template (`rbac.readWorkloads`). `create`: the proof, by dry run, held to that by a policy (`enforcement.mode=Auto`)",
	"configmaps pillion-uninstall":    "whether the release is being removed: then Pillion takes its labels off",
	"limitranges":                     "what they will refuse because of a sidecar is said when a workload is written (`preview.enabled`)",
	"resourcequotas":                  "the same as limitranges",
	"replicationcontrollers":          "`get`: an event is on an owner that exists",
}

// installations are the columns of the table.
var installations = []struct {
	name string
	sets []string
}{
	{"default", nil},
	{"hardened, `cert-manager`", hardened["cert-manager"]},
	{"hardened, `files`", hardened["files"]},
}

// rightsOf are the rules of Pillion's own account, with the verbs by "scope|resource".
func rightsOf(t *testing.T, objects rendered) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for role, rules := range roles(t, objects) {
		kind, name, _ := strings.Cut(role, " ")
		if strings.HasSuffix(name, "-view") || strings.HasSuffix(name, "-test") || strings.HasSuffix(name, "-injection") {
			continue
		}
		scope := "the cluster"
		if kind == "Role" {
			scope = "its own namespace"
		}
		if strings.HasSuffix(name, "-proof") {
			scope = "the proof namespace"
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

// rightsTable is the table of docs/concepts/security.md.
func rightsTable(t *testing.T) string {
	t.Helper()
	var columns []map[string][]string
	every := map[string]bool{}
	header := "| where | object | why |"
	rule := "| --- | --- | --- |"
	for _, i := range installations {
		rights := rightsOf(t, render(t, i.sets...))
		columns = append(columns, rights)
		for key := range rights {
			every[key] = true
		}
		header += " " + i.name + " |"
		rule += " --- |"
	}
	table := header + "\n" + rule + "\n"
	for _, key := range slices.Sorted(maps.Keys(every)) {
		parts := strings.Split(key, "|")
		why := reasons[parts[2]]
		if why == "" {
			resource, _, _ := strings.Cut(parts[2], " ")
			why = reasons[resource]
		}
		if why == "" {
			t.Errorf("nothing says why Pillion has rights on %s", parts[2])
		}
		object := parts[2]
		if parts[1] != "" {
			resource, names, named := strings.Cut(object, " ")
			if object = resource + "." + parts[1]; named {
				object += " " + names
			}
		}
		table += fmt.Sprintf("| %s | `%s` | %s |", parts[0], object, why)
		for _, column := range columns {
			verbs := strings.Join(column[key], " ")
			if verbs == "" {
				verbs = "none"
			}
			table += " " + verbs + " |"
		}
		table += "\n"
	}
	return table
}

// The table of rights in docs/concepts/security.md is that of the chart.
func TestTheDocumentationListsEveryRightThatTheChartGrants(t *testing.T) {
	t.Parallel()
	transcript.Recorded(t, checkout.Path("docs", "concepts", "security.md"), "rights", *update, func(string) string { return rightsTable(t) })
}
